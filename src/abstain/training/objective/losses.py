"""What a step minimises: a loss per sample, by recipe and epoch."""

import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from abstain.losses import (
    PayoffRule,
    gamblers_loss,
    generalized_cross_entropy,
    log_payoff,
    small_stake_loss,
)
from abstain.training.objective.trust import Trust, trusted_losses
from abstain.training.objective.warm_up import WarmUp
from abstain.training.recipe import Recipe


@dataclass(frozen=True)
class Objective:
    """The loss of a recipe on m+1 outputs; before the end of the warm-up, cross-entropy.

    Cross-entropy is the gambler's loss at an infinite payoff: it counts the abstention output as
    one that is never right, so that the loss which takes over begins with a full stake.

    >>> objective = Objective(Recipe(epochs=3, warm_up=1))
    >>> objective(torch.zeros(2, 11), torch.tensor([0, 1]), epoch=0)
    tensor([2.3979, 2.3979])
    """

    recipe: Recipe
    warm_up: WarmUp | None = None
    """A warm-up that ends by itself."""
    trust: Trust | None = None
    """What the loss "trusted" remembers; without it, every label is trusted."""

    def is_warm_up(self, epoch: int) -> bool:
        """Whether this epoch still trains with cross-entropy."""
        return is_warm_up(self.recipe, self.warm_up, epoch)

    def __call__(
        self, logits: Tensor, given: Tensor, epoch: int, index: Tensor | None = None
    ) -> Tensor:
        """The loss per sample; `index` has their positions, for what is remembered."""
        recipe = self.recipe
        if recipe.loss == "nll" or self.is_warm_up(epoch):
            return gamblers_loss(logits, given, math.inf, reduction="none")
        if recipe.loss == "gamblers":
            payoff = cast("float | PayoffRule", recipe.payoff)
            return gamblers_loss(logits, given, payoff, guard=recipe.guard, reduction="none")
        classes = logits[..., :-1]
        if recipe.loss == "trusted":
            full = torch.ones(given.shape, dtype=logits.dtype, device=logits.device)
            trust = full if self.trust is None or index is None else self.trust.of(index)
            return trusted_losses(torch.log_softmax(classes, -1), given, trust)
        if recipe.loss == "small-stake":
            return small_stake_loss(classes, given, reduction="none")
        return generalized_cross_entropy(
            classes, given, recipe.q, recipe.truncate, reduction="none"
        )

    def begin_epoch(self, optimizer: torch.optim.Optimizer, epoch: int) -> None:
        """Set what the optimiser does differently in this epoch: by itself nothing."""

    def judge(
        self, logits: Tensor, given: Tensor, epoch: int, index: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What a step minimises, summed over its samples; the logits and losses to record."""
        losses = self(logits, given, epoch, index)
        return losses.sum(), logits, losses

    def remember(self, index: Tensor, logits: Tensor, given: Tensor) -> None:
        """Take in the outputs for these samples."""
        if self.trust is not None:
            self.trust.update(index, logits[..., :-1], given)

    def payoff(self, logits: Tensor, epoch: int) -> Tensor | None:
        """The payoff per sample that the loss used; None where it has none, or no finite one."""
        recipe = self.recipe
        if recipe.loss != "gamblers" or recipe.payoff == math.inf or self.is_warm_up(epoch):
            return None
        if isinstance(recipe.payoff, str):
            return log_payoff(recipe.payoff, logits, recipe.guard).exp()
        return torch.full(logits.shape[:-1], cast("float", recipe.payoff), device=logits.device)


def is_warm_up(recipe: Recipe, warm_up: WarmUp | None, epoch: int) -> bool:
    """Whether an epoch, from 0, trains with cross-entropy before the loss of the recipe.

    >>> [is_warm_up(Recipe(warm_up=2), None, epoch) for epoch in range(4)]
    [True, True, False, False]
    """
    return not warm_up.ended if warm_up is not None else epoch < (recipe.warm_up or 0)
