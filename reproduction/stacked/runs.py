"""One run of a stack as the host sees it: its labels, its order, its history, when it ends."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from abstain import noise
from abstain.training import coteaching
from abstain.training.coteaching import CoTeachingPlan, partner_seed
from abstain.training.history import all_done
from abstain.training.recipe import Recipe
from abstain.training.stopping import AnalyticalStop, ValidationStop
from abstain.training.warm_up import WarmUp, untaught_loss

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
    """Those set aside for the validation stop, or for the warm-up."""
    everything: Tensor
    """All samples: what is trained on after a warm-up that ends by itself."""
    warm_up: WarmUp | None
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
        stop: AnalyticalStop | ValidationStop | None = None
        held_out = recipe.held_out(len(true))
        if held_out:
            generator = torch.Generator().manual_seed(recipe.seed_order)
            order = torch.randperm(len(true), generator=generator)
        if recipe.stop == "validation":
            stop = ValidationStop(recipe.patience)
        elif recipe.stop == "analytical":
            payoff = float(recipe.payoff or 0)
            stop = AnalyticalStop(recipe.rate, payoff, num_classes, recipe.noise)
        given = _planted(recipe, inputs, true, num_classes)
        warm_up: WarmUp | None = None
        if recipe.warm_up_ends == "held-out":
            counts = np.bincount(given, minlength=num_classes).tolist()
            warm_up = WarmUp(recipe.epochs or 1, untaught_loss(counts), held_out)
        return cls(
            number=number,
            recipe=recipe,
            given=given,
            rows=order[held_out:],
            held_out=order[:held_out],
            everything=torch.arange(len(true)),
            warm_up=warm_up,
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
        batch, total = self.recipe.batch or 1, len(self._rows_now)
        return [min(batch, total - start) for start in range(0, total, batch)]

    @property
    def most_steps(self) -> int:
        """Batches of the longest epoch that there will be."""
        rows = self.rows if self.warm_up is None else self.everything
        return math.ceil(len(rows) / (self.recipe.batch or 1))

    @property
    def _rows_now(self) -> Tensor:
        return self.everything if self.warm_up and self.warm_up.ended else self.rows

    @property
    def order_key(self) -> tuple[int, int]:
        """Runs of the same key see the same order."""
        return self.recipe.seed_order, len(self.everything) - len(self._rows_now)

    @property
    def orders_to_come(self) -> list[tuple[tuple[int, int], Tensor]]:
        """Keys that the run may have in the next epoch, each with the samples of it."""
        now = [(self.order_key, self._rows_now)]
        later = self.warm_up is not None and not self.warm_up.ended
        return now + [((self.recipe.seed_order, 0), self.everything)] * later

    @property
    def judges(self) -> bool:
        """Whether the samples set aside decide something at the end of this epoch."""
        return len(self.held_out) > 0 and not (self.warm_up and self.warm_up.ended)

    def is_warm_up(self, epoch: int) -> bool:
        """Whether cross-entropy is trained in this epoch."""
        if self.warm_up is not None:
            return not self.warm_up.ended
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

    def end_epoch(self, row: Row, trained: float, held_out: Tensor | None = None) -> None:
        """Take in the figures of an epoch, the number of epochs trained so far, held-out losses."""
        was_warm_up = self.is_warm_up(len(self.epochs))
        self.epochs.append(row)
        self.stop_epoch = trained
        if not row["loss"] < _DIVERGED:
            self.outcome = "diverged"
        stop = self.stop
        if isinstance(stop, ValidationStop) and stop.update(row["validation_accuracy"]):
            self.outcome = self.outcome or stop.reason
        if self.warm_up is not None and was_warm_up:
            assert held_out is not None
            self.warm_up.update(held_out, row["validation_accuracy"])
        elif self.warm_up is not None and not self.warm_up.check(row["train_accuracy"]):
            self.outcome = f"stopped at epoch {len(self.epochs)}: {self.warm_up.reason}"
        if not self.outcome and len(self.epochs) == self.recipe.epochs:
            self.outcome = all_done(len(self.epochs))
            if self.stop is not None:
                self.outcome += f"; to stop it was {self.stop.reason}"
            if self.warm_up is not None:
                self.outcome += f"; {self.warm_up.reason}"

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
        for key, rows in run.orders_to_come:
            if key not in orders:
                seed = run.recipe.seed_order * 1_000_003 + epoch
                generator = torch.Generator().manual_seed(seed)
                order = rows[torch.randperm(len(rows), generator=generator)]
                batch = run.recipe.batch or 1
                filling = order.new_zeros(-len(order) % batch)
                orders[key] = torch.cat((order, filling)).view(-1, batch)
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
