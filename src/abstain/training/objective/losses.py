"""The loss per sample that a step minimises, by plan and epoch, and the trust in labels."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import assert_never, cast

import torch
from torch import Tensor

from abstain.losses import (
    PayoffRule,
    gamblers_loss,
    generalized_cross_entropy,
    log_payoff,
    small_stake_loss,
)
from abstain.training.objective.stopping import AnalyticalStop, SettledStop, ValidationStop
from abstain.training.objective.warm_up import WarmUp, untaught_loss
from abstain.training.plan import Plan

# Of the memory, at each visit: about three visits count.
_KEPT = 0.7


def trusted_losses(log_belief: Tensor, given: Tensor, trust: Tensor) -> Tensor:
    """The loss of each sample, weighted by how far its given label can be trusted.

        loss_i = trust_i^d_i · √λ_i · (1 − q_y)      with λ_i = 1/Σq², d_i = (m − λ_i)/(m − 1)

    The small-stake loss weighs a label by the belief of the moment; a label that one lucky step
    made believable is then memorised. So it is weighed by a memory too: the belief in the given
    label over that in the likeliest one, both averaged over the last visits of the sample. An
    undecided model (λ near m) has no ground to distrust a label, and d is near 0; a decided one has
    d near 1. Weights are held constant for the gradient. A label that is fully trusted costs as the
    small stake, but √λ.

    Args:
        log_belief: (…, m) log-softmax over the classes.
        given: (…) labels.
        trust: (…) in (0, 1].

    >>> undecided = torch.zeros(1, 4).log_softmax(-1)
    >>> trusted_losses(undecided, torch.tensor([0]), torch.tensor([0.1]))
    tensor([1.5000])
    """
    classes = log_belief.shape[-1]
    effective = torch.exp(-torch.logsumexp(2 * log_belief.detach(), -1))
    decided = ((classes - effective) / (classes - 1)).clamp(0.0, 1.0)
    label = log_belief.gather(-1, given.unsqueeze(-1)).squeeze(-1)
    return trust**decided * effective.sqrt() * -torch.expm1(label)


def remembered(memory: Tensor, log_belief: Tensor, given: Tensor) -> Tensor:
    """A memory (…, 2) of the belief in the given label and in the likeliest, one visit later."""
    label = log_belief.gather(-1, given.unsqueeze(-1))
    visit = torch.cat((label, log_belief.amax(-1, keepdim=True)), -1).exp()
    return torch.lerp(visit.to(memory.dtype), memory, _KEPT)


def trust_from(memory: Tensor) -> Tensor:
    """The trust that a memory (…, 2) means: 1 where the given label is the likeliest."""
    return (memory[..., 0] / memory[..., 1]).clamp(max=1.0)


class Trust:
    """The memories of all samples, 8 bytes each in float32.

    Args:
        num_samples: Number of training samples.
        num_classes: m; before its first visit a sample is believed to be of any class.
        device: Where it is kept.
        dtype: Of the memories.

    >>> trust = Trust(num_samples=2, num_classes=3)
    >>> for _ in range(9):
    ...     trust.update(torch.tensor([0]), torch.tensor([[9.0, 0.0, 0.0]]), torch.tensor([1]))
    >>> trust.of(torch.tensor([0, 1]))
    tensor([0.0139, 1.0000])
    """

    def __init__(
        self,
        num_samples: int,
        num_classes: int,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        shape = num_samples, 2
        self._memory = torch.full(shape, 1 / num_classes, dtype=dtype, device=device)
        self._visited = torch.zeros(num_samples, dtype=torch.bool, device=device)

    def of(self, index: Tensor) -> Tensor:
        """The trust in the given labels of these samples."""
        return trust_from(self._memory[index])

    @torch.no_grad()
    def update(self, index: Tensor, classes: Tensor, given: Tensor) -> None:
        """Add a visit of these samples, none twice: logits of the classes, and labels."""
        log_belief = torch.log_softmax(classes.to(self._memory.dtype), -1)
        self._memory[index] = remembered(self._memory[index], log_belief, given)
        self._visited[index] = True

    def agree(self, add_up: Callable[[Tensor], Tensor]) -> None:
        """Let all processes have what each of them saw since they last agreed.

        Args:
            add_up: Adds a tensor up over all processes; no sample may have been visited by two.
        """
        visits = add_up(self._visited.to(self._memory.dtype)).unsqueeze(-1)
        seen = add_up(self._memory * self._visited.unsqueeze(-1))
        self._memory = torch.where(visits > 0, seen, self._memory)
        self._visited.zero_()

    def state_dict(self) -> dict[str, Tensor]:
        """The state for a checkpoint, once the processes agree."""
        return {"memory": self._memory}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over a state that `state_dict` gave."""
        self._memory.copy_(state["memory"])


@dataclass(frozen=True)
class Objective:
    """The loss of a plan on m+1 outputs; before the end of the warm-up, cross-entropy.

    Cross-entropy is the gambler's loss at an infinite payoff: it counts the abstention output as
    one that is never right, so that the loss which takes over begins with a full stake.

    >>> objective = Objective(Plan(epochs=3, warm_up=1))
    >>> objective(torch.zeros(2, 11), torch.tensor([0, 1]), epoch=0)
    tensor([2.3979, 2.3979])
    """

    plan: Plan
    warm_up: WarmUp | None = None
    """A warm-up that ends by itself."""
    trust: Trust | None = None
    """State of the loss "trusted"; without it, every label is trusted."""

    def is_warm_up(self, epoch: int) -> bool:
        """Whether this epoch still trains with cross-entropy."""
        return is_warm_up(self.plan, self.warm_up, epoch)

    def __call__(
        self, logits: Tensor, given: Tensor, epoch: int, index: Tensor | None = None
    ) -> Tensor:
        """The loss per sample; `index` has their positions, for what is remembered."""
        plan = self.plan
        if plan.loss == "nll" or self.is_warm_up(epoch):
            return gamblers_loss(logits, given, math.inf, reduction="none")
        if plan.loss == "gamblers":
            payoff = cast("float | PayoffRule", plan.payoff)
            return gamblers_loss(logits, given, payoff, guard=plan.guard, reduction="none")
        classes = logits[..., :-1]
        if plan.loss == "trusted":
            full = torch.ones(given.shape, dtype=logits.dtype, device=logits.device)
            trust = full if self.trust is None or index is None else self.trust.of(index)
            return trusted_losses(torch.log_softmax(classes, -1), given, trust)
        if plan.loss == "small-stake":
            return small_stake_loss(classes, given, reduction="none")
        if plan.loss == "lq":
            return generalized_cross_entropy(
                classes, given, plan.q, plan.truncate, reduction="none"
            )
        assert_never(plan.loss)

    def remember(self, index: Tensor, logits: Tensor, given: Tensor) -> None:
        """Take in the outputs for these samples."""
        if self.trust is not None:
            self.trust.update(index, logits[..., :-1], given)

    def payoff(self, logits: Tensor, epoch: int) -> Tensor | None:
        """The payoff per sample that the loss used; None where it has none, or no finite one."""
        plan = self.plan
        if plan.loss != "gamblers" or plan.payoff == math.inf or self.is_warm_up(epoch):
            return None
        if isinstance(plan.payoff, str):
            return log_payoff(plan.payoff, logits, plan.guard).exp()
        return torch.full(logits.shape[:-1], cast("float", plan.payoff), device=logits.device)


def is_warm_up(plan: Plan, warm_up: WarmUp | None, epoch: int) -> bool:
    """Whether an epoch, from 0, trains with cross-entropy before the loss of the plan.

    >>> [is_warm_up(Plan(warm_up=2), None, epoch) for epoch in range(4)]
    [True, True, False, False]
    """
    return not warm_up.ended if warm_up is not None else epoch < (plan.warm_up or 0)


Stop = AnalyticalStop | ValidationStop | SettledStop


def make_objective(plan: Plan, given: Tensor, num_classes: int, dtype: torch.dtype) -> Objective:
    """The loss of a resolved plan, with its warm-up and what it remembers of the samples.

    Args:
        plan: Of the training.
        given: Labels of all samples, on the device.
        num_classes: m.
        dtype: Of the model.
    """
    trust: Trust | None = None
    if plan.loss == "trusted":
        memory = torch.float64 if dtype == torch.float64 else torch.float32
        trust = Trust(len(given), num_classes, given.device, memory)
    return Objective(plan, make_warm_up(plan, given, num_classes), trust)


def make_warm_up(plan: Plan, given: Tensor, num_classes: int) -> WarmUp | None:
    """The warm-up that ends by itself, of a plan that has one."""
    held_out = plan.held_out(len(given))
    if plan.warm_up_ends != "held-out" or not held_out:
        return None
    counts = torch.bincount(given, minlength=num_classes).tolist()
    return WarmUp(plan.epochs or 1, untaught_loss(counts), held_out)


def make_stop(plan: Plan, num_classes: int) -> Stop | None:
    """Make the rule that stops a training before all its epochs; None for no such rule."""
    if plan.stop == "analytical":
        assert isinstance(plan.payoff, int | float)
        return AnalyticalStop(plan.rate, plan.payoff, num_classes, plan.noise)
    if plan.stop == "settled":
        return SettledStop()
    return ValidationStop(plan.patience) if plan.stop == "validation" else None
