"""Co-teaching+ (Yu et al., "How does Disagreement Help Generalization against Label Corruption?").

Two networks see the same batch. Of the samples on which their predictions differ, each picks the
share 1 − R(t) with the smallest loss, and the *other* one is trained on these: a network that errs
on a label does not confirm itself in it. Before `init_epoch`, and where the two agree on a whole
batch, all samples are candidates, which is plain co-teaching. R(t) rises from 0 to the noise
rate over the first epochs:

    R(t) = rate · min(t / 10, 1)

What a run gives (history, ledger, model) is the mean of the two networks.

This is the method as it is described. The public code also feeds probabilities into cross-entropy,
divides a mean by the number kept once more, and never uses the first sample.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from abstain.errors import AbstainError
from abstain.training.plan import Plan
from reproduction.authors_plan import quirk

METHOD = "coteaching-plus"
"""The `Plan.method` that asks for a pair."""

# The second network of a pair starts from a seed that no first one is likely to have.
_PARTNER = 2**31
_RAMP = 10
# Of 200 epochs: the share after which learning rate and momentum fall.
_DECAY_FROM = 0.4
_BETA1, _LATE_BETA1 = 0.9, 0.1
_PUBLIC_DECAY, _PUBLIC_RAMP = 80, 9


@dataclass(frozen=True, kw_only=True)
class CoTeachingPlan:
    """The settings that change from epoch to epoch; epochs count from 0.

    >>> plan = CoTeachingPlan(rate=0.5, epochs=200)
    >>> plan.kept(0), plan.kept(5), plan.kept(100)
    (1.0, 0.75, 0.5)
    >>> round(plan.learning_rate_at(140), 6), plan.beta1(79), plan.beta1(80)
    (0.0005, 0.9, 0.1)
    """

    rate: float
    """Noise rate."""
    epochs: int
    init_epoch: int = 0
    """Plain co-teaching before it."""
    learning_rate: float = 1e-3

    @classmethod
    def of(cls, recipe: Plan) -> "CoTeachingPlan":
        """The plan of a resolved recipe; its warm-up is the plain co-teaching."""
        if recipe.rate is None:
            raise AbstainError(
                "must be given for co-teaching, got none: it is the noise rate", argument="rate"
            )
        return cls(
            rate=recipe.rate,
            epochs=recipe.epochs or 1,
            init_epoch=recipe.warm_up or 0,
            learning_rate=recipe.learning_rate,
        )

    def kept(self, epoch: int) -> float:
        """1 − R(t), the share of candidates that train."""
        return 1 - self.rate * min(epoch / _RAMP, 1.0)

    def by_disagreement(self, epoch: int) -> bool:
        """Whether only samples with differing predictions are candidates."""
        return epoch >= self.init_epoch

    def learning_rate_at(self, epoch: int) -> float:
        """Constant for two fifths of the epochs, then linear to 0."""
        late = max(0.0, epoch / self.epochs - _DECAY_FROM) / (1 - _DECAY_FROM)
        return self.learning_rate * (1 - late)

    def beta1(self, epoch: int) -> float:
        """First decay rate of Adam: it forgets faster once the learning rate falls."""
        return _LATE_BETA1 if epoch >= _DECAY_FROM * self.epochs else _BETA1

    def set_for(self, optimizer: torch.optim.Optimizer, epoch: int) -> None:
        """Give an optimiser the learning rate and, if it is of Adam's kind, the β1 of an epoch."""
        for group in optimizer.param_groups:
            group["lr"] = self.learning_rate_at(epoch)
            if "betas" in group:
                group["betas"] = (self.beta1(epoch), *group["betas"][1:])


class PublicPlan(CoTeachingPlan):
    """The plan of the public code: epochs count from 1, and the decay begins at 80.

    >>> plan = PublicPlan(rate=0.5, epochs=49)
    >>> plan.kept(8), plan.learning_rate_at(48), PublicPlan(rate=0.5, epochs=99).beta1(79)
    (0.5, 0.001, 0.1)
    """

    def kept(self, epoch: int) -> float:
        """1 − R(t)."""
        return 1 - self.rate * min((epoch + 1) / _PUBLIC_RAMP, 1.0)

    def by_disagreement(self, epoch: int) -> bool:
        """Whether only samples with differing predictions are candidates."""
        return epoch + 1 >= self.init_epoch

    def learning_rate_at(self, epoch: int) -> float:
        """Constant until epoch 80, then linear to 0."""
        end = self.epochs + 1
        return self.learning_rate * min(1.0, (end - epoch - 1) / max(1, end - _PUBLIC_DECAY))

    def beta1(self, epoch: int) -> float:
        """First decay rate of Adam."""
        return 0.1 if epoch + 1 >= _PUBLIC_DECAY else 0.9


def pair_plan(recipe: Plan) -> CoTeachingPlan:
    """The plan of a pair that a recipe asks for."""
    return (PublicPlan if quirk(recipe, "public") else CoTeachingPlan).of(recipe)


def exchange(
    predictions: Tensor,
    losses: Tensor,
    counts: Tensor,
    kept: Tensor | float,
    by_disagreement: Tensor | bool,
) -> Tensor:
    """Which samples train which network: those of small loss to the other one.

    Args:
        predictions: (…, 2, B) classes.
        losses: (…, 2, B).
        counts: (…, 2, B) False where a batch is only filled up.
        kept: 1 − R, a number or (…).
        by_disagreement: whether agreement rules a sample out; likewise.

    Returns:
        (…, 2, B) booleans; at least one True per network if there is a candidate at all.

    >>> predictions = torch.tensor([[0, 1, 1, 0], [1, 1, 0, 1]])
    >>> losses = torch.tensor([[0.1, 9.0, 0.2, 0.3], [3.0, 9.0, 1.0, 2.0]])
    >>> exchange(predictions, losses, torch.ones(2, 4, dtype=torch.bool), 0.67, True)
    tensor([[False, False,  True,  True],
            [ True, False,  True, False]])
    """
    kept, by_disagreement = (
        torch.as_tensor(x, device=losses.device) for x in (kept, by_disagreement)
    )
    differ = (predictions != predictions.flip(-2)) | ~by_disagreement[..., None, None]
    # Two networks that agree on a whole batch have nothing to choose from; alike from the start,
    # they would stay untrained for good. Such a batch is taught as in plain co-teaching.
    some_differ = (counts & differ).any(-1, keepdim=True)
    candidates = counts & (differ | ~some_differ)
    number = candidates.sum(-1, keepdim=True)
    # Rounded down as published, but not to nothing: one sample is better than an empty mean.
    # The small addition keeps 0.7 · 10 from being 6.999….
    few = (number * kept[..., None, None] + 1e-6).floor().clamp(min=1)
    # Ranks by comparison: a GPU sorts many short rows slowly, and compares them in one kernel.
    ranked = losses.masked_fill(~candidates, torch.inf)
    place = torch.arange(losses.shape[-1], device=losses.device)
    own, other = ranked.unsqueeze(-1), ranked.unsqueeze(-2)
    before = (other < own) | ((other == own) & (place < place[:, None]))
    ranks = before.sum(-1)
    chosen: Tensor = candidates & (ranks < few)
    return chosen.flip(-2)


def partner_seed(seed: int) -> int:
    """Seed of the first weights of the second network of a pair, by that of the first."""
    return (seed + _PARTNER) % 2**32
