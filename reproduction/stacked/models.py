"""The state of K models that train at once: `Models`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from abstain.training.loop.step import step_weight
from abstain.training.plan import Plan
from reproduction.authors_plan import quirk
from reproduction.stacked.losses import Losses
from reproduction.stacked.per_model import PerModel

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Models(PerModel):
    """K models under way: all of their state."""

    weights: list[Tensor]
    working: list[Tensor]
    """The same in the precision of the matrix products; the same memory where that is theirs."""
    first: list[Tensor]
    second: list[Tensor]
    steps: Tensor
    given: Tensor
    """(K, N) labels."""
    losses: Losses
    learning_rate: Tensor
    beta1: Tensor
    kept: Tensor
    """Share of candidates that train, for co-teaching pairs, which come last, two rows each."""
    by_disagreement: Tensor
    averaged: list[Tensor] | None
    """The weights averaged over the last steps; the same as the weights where none is wanted."""
    average_over: Tensor
    """Steps over which they are averaged; 1 for none."""
    best: list[Tensor] | None
    """Those of these that are kept of the warm-up."""
    memory: Tensor | None
    """(K, N + 1, 2) what `trust` remembers; the last place takes what is padding."""
    best_memory: Tensor | None
    """The same, as it was then."""
    sample_sums: Tensor | None
    """(K, N + 1, 2) visits and beliefs in the given label; the last place takes what is padding."""
    abstention: Tensor | None
    """(K, N + 1) at the last visit."""

    @classmethod
    def begin(
        cls,
        weights: list[Tensor],
        precision: torch.dtype,
        recipes: Sequence[Plan],
        given: Tensor,
        keep_samples: bool,
        *,
        num_classes: int,
        steps_per_epoch: Sequence[int],
    ) -> Self:
        """Before the first step."""
        device, dtype = weights[0].device, weights[0].dtype
        places = (len(given), given.shape[1] + 1)
        floats: dict[str, Any] = {"dtype": torch.float32, "device": device}
        ones = torch.ones(len(given), dtype=torch.float64, device=device)
        ends = any(r.warm_up_ends == "held-out" for r in recipes)
        memory: Tensor | None = None
        if any(r.loss == "trusted" for r in recipes):
            memory = torch.full((*places, 2), 1 / num_classes, dtype=dtype, device=device)
        return cls(
            weights=weights,
            working=_leaves(weights, precision),
            first=[torch.zeros_like(weight) for weight in weights],
            second=[torch.zeros_like(weight) for weight in weights],
            steps=torch.zeros_like(ones),
            given=given.to(device),
            losses=Losses.of(recipes, device, dtype),
            learning_rate=ones * recipes[0].learning_rate,
            beta1=ones * (quirk(recipes[0], "beta1") or 0.9),
            kept=ones.clone(),
            by_disagreement=torch.zeros_like(ones, dtype=torch.bool),
            averaged=[w.clone() for w in weights] if any(r.average for r in recipes) else None,
            average_over=torch.tensor(
                [
                    max(1.0, (r.average or 0) * steps)
                    for r, steps in zip(recipes, steps_per_epoch, strict=True)
                ],
                device=device,
            ).to(ones),
            best=[w.clone() for w in weights] if ends else None,
            memory=memory,
            best_memory=memory.clone() if memory is not None and ends else None,
            sample_sums=torch.zeros(*places, 2, **floats) if keep_samples else None,
            abstention=torch.full(places, torch.nan, **floats) if keep_samples else None,
        )

    def take(self, rows: Tensor) -> Self:
        """These models alone."""
        with torch.no_grad():
            fewer = super().take(rows)
        return replace(fewer, working=_leaves(fewer.weights, self.working[0].dtype))

    @property
    def used(self) -> list[Tensor]:
        """The weights that a model would be used with now, in float32."""
        return self.weights if self.averaged is None else self.averaged

    @torch.no_grad()
    def average(self, moves: Tensor) -> None:
        """Take the weights of those that have moved into their averages."""
        if self.averaged is None:
            return
        early = step_weight(self.steps, self.average_over)
        share = torch.where(self.average_over > 1, early, torch.ones_like(early)) * moves
        for own, weight in zip(self.averaged, self.weights, strict=True):
            own.lerp_(weight, share.to(weight.dtype).view((-1,) + (1,) * (weight.ndim - 1)))

    @torch.no_grad()
    def keep_best(self, rows: slice) -> None:
        """Hold on to the weights as they are now, and to what is remembered of the samples."""
        assert self.best is not None
        for best, used in zip(self.best, self.used, strict=True):
            best[rows] = used[rows]
        if self.memory is not None and self.best_memory is not None:
            self.best_memory[rows] = self.memory[rows]

    @torch.no_grad()
    def go_back(self, rows: slice) -> None:
        """To what `keep_best` held on to, with an optimiser and an average that begin anew."""
        assert self.best is not None
        if self.memory is not None and self.best_memory is not None:
            self.memory[rows] = self.best_memory[rows]
        self.restart(rows)
        for tensors in (self.weights, self.working, self.averaged or []):
            for tensor, best in zip(tensors, self.best, strict=False):
                tensor[rows] = best[rows].to(tensor.dtype)

    @torch.no_grad()
    def restart(self, rows: slice) -> None:
        """Begin with a new optimiser."""
        for moments in (*self.first, *self.second):
            moments[rows] = 0
        self.steps[rows] = 0

    def samples(self, rows: slice) -> tuple[FloatArray, FloatArray] | None:
        """Mean belief in the given label and last abstention of each sample, over these models."""
        if self.sample_sums is None or self.abstention is None:
            return None
        visits, beliefs = self.sample_sums[rows, :-1].unbind(-1)
        figures = (beliefs / visits, self.abstention[rows, :-1])
        belief, abstention = (figure.mean(0).numpy(force=True) for figure in figures)
        return belief, abstention


def _leaves(weights: list[Tensor], precision: torch.dtype) -> list[Tensor]:
    """Give the leaves of the gradient: the weights, or copies of them in another precision."""
    return [weight.detach().to(precision).requires_grad_() for weight in weights]
