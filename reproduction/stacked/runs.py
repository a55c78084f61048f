"""One run of a stack as the host sees it: its labels, its order, its history, when it ends."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from abstain.training.loop.batches import epoch_order, held_out_rows
from abstain.training.loop.evaluation import has_diverged
from abstain.training.objective.losses import Stop, is_warm_up, make_stop, make_warm_up
from abstain.training.objective.stopping import AnalyticalStop, ValidationStop
from abstain.training.objective.warm_up import WarmUp
from abstain.training.plan import Plan
from abstain.training.saving.history import Row, all_done
from abstain.training.sources import planted
from reproduction.authors_plan import quirk
from reproduction.stacked import coteaching
from reproduction.stacked.coteaching import CoTeachingPlan, pair_plan, partner_seed
from reproduction.stacked.stops import EpochStop, RisingStop, authors_stop


@dataclass
class Run:
    """A run that a recipe becomes."""

    number: int
    """Its place among the recipes."""
    recipe: Plan
    given: npt.NDArray[np.int64]
    rows: Tensor
    """The samples to train on; the order of an epoch is drawn as `Batches` draws it."""
    held_out: Tensor
    """Those held out for the validation stop, or for the warm-up."""
    everything: Tensor
    """All samples: what is trained on after a warm-up that ends by itself."""
    warm_up: WarmUp | None
    plan: CoTeachingPlan | None
    stop: Stop | EpochStop | RisingStop | None
    epochs: list[Row] = field(default_factory=list)
    outcome: str = ""
    stop_epoch: float = 0.0
    samples: tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]] | None = None
    """Belief and abstention, once it has ended."""
    by_class: list[float] | None = None
    """Test accuracy of each class when last looked at."""

    @classmethod
    def begin(
        cls,
        number: int,
        recipe: Plan,
        inputs: Tensor,
        true: Tensor,
        num_classes: int,
    ) -> "Run":
        """Plant the errors and hold samples out, as for one model alone."""
        held_out, rows = _parts(recipe, len(true))
        given = true.numpy(force=True).astype(np.int64)
        if recipe.flip:
            ids = np.arange(len(given))
            given = planted(recipe, given, ids, inputs, num_classes).given
        return cls(
            number=number,
            recipe=recipe,
            given=given,
            rows=rows,
            held_out=held_out,
            everything=torch.arange(len(true)),
            warm_up=make_warm_up(recipe, torch.from_numpy(given), num_classes),
            plan=pair_plan(recipe) if recipe.method == coteaching.METHOD else None,
            stop=authors_stop(recipe, num_classes) or make_stop(recipe, num_classes),
        )

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the initial weights: one, or those of a pair."""
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
        """Whether the held-out samples decide something at the end of this epoch."""
        return len(self.held_out) > 0 and not (self.warm_up and self.warm_up.ended)

    def is_warm_up(self, epoch: int) -> bool:
        """Whether cross-entropy is trained in this epoch."""
        return is_warm_up(self.recipe, self.warm_up, epoch)

    def watch(self, losses: Sequence[float], samples: Sequence[float]) -> None:
        """Take in the losses of single batches; ends the run at the plateau."""
        assert isinstance(self.stop, AnalyticalStop)
        for loss, size in zip(losses, samples, strict=True):
            if has_diverged(loss):
                self.outcome = "diverged"
            elif not self.outcome and self.stop.update(loss, round(size)):
                self.outcome = self.stop.reason

    def may_end(self, row: Row) -> bool:
        """Whether the epoch of these figures may be its last, or the one that is kept."""
        return (
            bool(self.outcome)
            or isinstance(self.stop, ValidationStop | EpochStop | RisingStop)
            or row["epoch"] == self.recipe.epochs
            or has_diverged(row["loss"])
        )

    def end_epoch(self, row: Row, trained: float, held_out: Tensor | None = None) -> None:
        """Take in the figures of an epoch, the number of epochs trained so far, held-out losses."""
        was_warm_up = self.is_warm_up(len(self.epochs))
        self.epochs.append(row)
        self.stop_epoch = trained
        if has_diverged(row["loss"]):
            self.outcome = "diverged"
        stop = self.stop
        if isinstance(stop, ValidationStop) and stop.update(row["validation_accuracy"]):
            self.outcome = self.outcome or stop.reason
        if (isinstance(stop, EpochStop) and stop.update(row["loss"])) or (
            isinstance(stop, RisingStop) and stop.update(row["validation_loss"])
        ):
            self.outcome = self.outcome or f"stopped at epoch {len(self.epochs)}: {stop.reason}"
        if self.warm_up is not None and was_warm_up:
            assert held_out is not None
            self.warm_up.update(held_out, row["validation_accuracy"])
        elif self.warm_up is not None and not self.warm_up.check(row["train_accuracy"]):
            self.outcome = f"stopped at epoch {len(self.epochs)}: {self.warm_up.reason}"
        if not self.outcome and len(self.epochs) == self.recipe.epochs:
            self.outcome = all_done(len(self.epochs), self.stop, self.warm_up)

    @property
    def test_accuracy(self) -> float:
        """Test accuracy of the model that is kept."""
        best = self.stop.best_epoch if isinstance(self.stop, ValidationStop) else 0
        return self.epochs[best - 1]["test_accuracy"]


def _parts(recipe: Plan, samples: int) -> tuple[Tensor, Tensor]:
    """Held-out rows, and those to train on."""
    held_out, rows = held_out_rows(recipe, samples)
    if count := quirk(recipe, "samples"):
        order = torch.cat((held_out, rows))
        if not len(held_out):
            order = order[torch.randperm(samples, generator=_drawn(recipe.seed_order))]
        held_out, rows = order[count:] if quirk(recipe, "rises") else order[:0], order[:count]
    return held_out, torch.arange(samples) if quirk(recipe, "leak") else rows


def _drawn(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def epoch_orders(runs: Sequence[Run], epoch: int) -> Mapping[tuple[int, int], Tensor]:
    """The samples of an epoch in batches (steps, B) for each kind of order; the last is filled up.

    >>> run = Run.begin(0, Plan(batch=2), torch.zeros(3, 1), torch.arange(3), 3)
    >>> epoch_orders([run], epoch=0)[run.order_key].shape
    torch.Size([2, 2])
    """
    orders = {}
    for run in runs:
        for key, rows in run.orders_to_come:
            if key not in orders:
                order = epoch_order(rows, run.recipe.seed_order, epoch)
                batch = run.recipe.batch or 1
                filling = order.new_zeros(-len(order) % batch)
                orders[key] = torch.cat((order, filling)).view(-1, batch)
    return orders
