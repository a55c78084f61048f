"""One run of a stack as the host sees it: its labels, its order, its history, when it ends."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from abstain import noise
from abstain.train import coteaching
from abstain.train.coteaching import CoTeachingPlan, partner_seed
from abstain.train.recipe import Recipe
from abstain.train.stopping import AnalyticalStop, ValidationStop

Row = dict[str, float]

# A model that gives the labels a probability of e^−1000000 has not merely a high loss.
_DIVERGED = 1e6


@dataclass
class Run:
    """What becomes of a recipe."""

    number: int
    """Its place among the recipes."""
    recipe: Recipe
    given: npt.NDArray[np.int64]
    rows: Tensor
    """The samples to train on; the order of an epoch is drawn as `Batches` draws it."""
    held_out: Tensor
    """Those set aside for the validation stop."""
    plan: CoTeachingPlan | None
    stop: AnalyticalStop | ValidationStop | None
    epochs: list[Row] = field(default_factory=list)
    outcome: str = ""
    stop_epoch: float = 0.0
    samples: tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]] | None = None
    """Belief and abstention, once it has ended."""

    @classmethod
    def begin(
        cls, number: int, recipe: Recipe, inputs: Tensor, true: Tensor, num_classes: int
    ) -> "Run":
        """Plant the errors and set samples aside, as for one model alone."""
        order = torch.arange(len(true))
        held_out = 0
        stop: AnalyticalStop | ValidationStop | None = None
        if recipe.stop == "validation":
            stop = ValidationStop(recipe.patience)
            held_out = min(max(1, round(recipe.hold_out * len(true))), len(true) - 1)
            generator = torch.Generator().manual_seed(recipe.seed_order)
            order = torch.randperm(len(true), generator=generator)
        elif recipe.stop == "analytical":
            payoff = float(recipe.payoff or 0)
            stop = AnalyticalStop(recipe.rate, payoff, num_classes, recipe.noise)
        return cls(
            number=number,
            recipe=recipe,
            given=_planted(recipe, inputs, true, num_classes),
            rows=order[held_out:],
            held_out=order[:held_out],
            plan=CoTeachingPlan.of(recipe) if recipe.method == coteaching.METHOD else None,
            stop=stop,
        )

    @property
    def seeds(self) -> tuple[int, ...]:
        """Of the initial weights: one, or those of a pair."""
        first = self.recipe.seed_init
        return (first,) if self.plan is None else (first, partner_seed(first))

    @property
    def sizes(self) -> list[int]:
        """Samples in each batch of an epoch."""
        batch = self.recipe.batch or 1
        return [min(batch, len(self.rows) - start) for start in range(0, len(self.rows), batch)]

    @property
    def order_key(self) -> tuple[int, int]:
        """Runs of the same key see the same order."""
        return self.recipe.seed_order, len(self.held_out)

    def is_warm_up(self, epoch: int) -> bool:
        """Whether cross-entropy is trained in this epoch."""
        return epoch < (self.recipe.warm_up or 0)

    def watch(self, losses: Sequence[float], samples: Sequence[float]) -> None:
        """Take in the losses of single batches; ends the run at the plateau."""
        assert isinstance(self.stop, AnalyticalStop)
        for loss, size in zip(losses, samples, strict=True):
            if not loss < _DIVERGED:
                self.outcome = "diverged"
            elif not self.outcome and self.stop.update(loss, round(size)):
                self.outcome = self.stop.reason

    def may_end(self, row: Row) -> bool:
        """Whether the epoch of these figures may be its last, or the one that is kept."""
        return (
            bool(self.outcome)
            or isinstance(self.stop, ValidationStop)
            or row["epoch"] == self.recipe.epochs
            or not row["loss"] < _DIVERGED
        )

    def end_epoch(self, row: Row, trained: float) -> None:
        """Take in the figures of an epoch and the number of epochs trained so far."""
        self.epochs.append(row)
        self.stop_epoch = trained
        if not row["loss"] < _DIVERGED:
            self.outcome = "diverged"
        stop = self.stop
        if isinstance(stop, ValidationStop) and stop.update(row["validation_accuracy"]):
            self.outcome = self.outcome or stop.reason
        if not self.outcome and len(self.epochs) == self.recipe.epochs:
            self.outcome = f"all {len(self.epochs)} epochs are done"
            if self.stop is not None:
                self.outcome += f"; to stop it was {self.stop.reason}"

    @property
    def test_accuracy(self) -> float:
        """Of the model that is kept."""
        best = self.stop.best_epoch if isinstance(self.stop, ValidationStop) else 0
        return self.epochs[best - 1]["test_accuracy"]


def epoch_orders(runs: Sequence[Run], epoch: int) -> Mapping[tuple[int, int], Tensor]:
    """The samples of an epoch in batches (steps, B) for each kind of order; the last is filled up.

    >>> run = Run.begin(0, Recipe(batch=2), torch.zeros(3, 1), torch.arange(3), 3)
    >>> epoch_orders([run], epoch=0)[run.order_key].shape
    torch.Size([2, 2])
    """
    orders = {}
    for run in runs:
        if run.order_key not in orders:
            seed = run.recipe.seed_order * 1_000_003 + epoch
            generator = torch.Generator().manual_seed(seed)
            order = run.rows[torch.randperm(len(run.rows), generator=generator)]
            batch = run.recipe.batch or 1
            filling = order.new_zeros(-len(order) % batch)
            orders[run.order_key] = torch.cat((order, filling)).view(-1, batch)
    return orders


def means(sums: Mapping[str, float]) -> Row:
    """Sums over samples as means; what there was nothing of is left out."""
    samples, corrupt = sums["samples"], sums["samples"] - sums["clean"]
    row = {
        "loss": sums["loss"] / samples,
        "train_accuracy": sums["correct"] / samples,
        "stake": sums["stake"] / samples,
    }
    if sums["log_payoff"]:
        row["payoff"] = math.exp(sums["log_payoff"] / samples)
    if sums["clean"]:
        row["clean_loss"] = sums["clean_loss"] / sums["clean"]
    if corrupt:
        row["corrupt_loss"] = (sums["loss"] - sums["clean_loss"]) / corrupt
    return row


def _planted(
    recipe: Recipe, inputs: Tensor, true: Tensor, num_classes: int
) -> npt.NDArray[np.int64]:
    labels = true.numpy(force=True).astype(np.int64)
    if not recipe.flip:
        return labels
    features = None
    if recipe.flip_kind == "instance":
        features = inputs.flatten(1).float().numpy(force=True)
    return noise.plant(
        labels,
        np.arange(len(labels)),
        recipe.flip_kind,
        recipe.flip,
        recipe.seed_noise,
        num_classes=num_classes,
        features=features,
    ).given
