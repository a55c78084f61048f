"""The evidence for each cell: mean, spread and number of seeds, and the histories behind them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reproduction.record import Record, by_cell
from reproduction.targets import TARGETS, Cell, Scale, Target

Row = tuple[str, float]


@dataclass(frozen=True)
class Stat:
    """Test accuracy in % over seeds; the spread of a single one is not known."""

    mean: float
    spread: float
    n: int
    epoch: float
    """Mean epoch of the end."""


class Evidence:
    """Records, found by target, row and column."""

    def __init__(self, known: Sequence[Record], scale: Scale) -> None:
        self.known, self.scale = list(known), scale
        self._records = by_cell(known)
        self._cells = {name: target.cells(scale) for name, target in TARGETS.items()}

    def cells(self, target: str) -> list[Cell]:
        """The cells of a target."""
        return self._cells[target]

    def rows(self, target: str) -> list[Row]:
        """The rows of a target, in order."""
        return list(dict.fromkeys(cell.row for cell in self.cells(target)))

    def columns(self, target: str) -> list[str]:
        """The columns of a target, in order."""
        return list(dict.fromkeys(cell.column for cell in self.cells(target)))

    def records(self, target: str, row: Row, column: str) -> list[Record]:
        """The repetitions of a cell, by seed; none where it was not run."""
        for cell in self.cells(target):
            if (cell.row, cell.column) == (row, column):
                return self._records.get(cell.base.cell, [])
        return []

    def stat(self, target: str, row: Row, column: str) -> Stat | None:
        """Accuracy of a cell over its seeds; None where it was not run."""
        return summary(self.records(target, row, column))

    def missing(self, target: Target) -> int:
        """Count the missing runs, as far as is known."""
        names = {record.name for record in self.known}
        next_ones = sum(run.name not in names for run in target.runs(self.scale, self.known))
        return next_ones + target.later_runs(self.scale, self.known)


def summary(records: Sequence[Record]) -> Stat | None:
    """Mean and spread (standard deviation) of the test accuracy at the end, in %."""
    return _summary(records, [record.test_accuracy for record in records])


def summary_at_stop(records: Sequence[Record]) -> Stat | None:
    """The same after the last epoch, also of runs that keep the model of an earlier one."""
    return _summary(records, [r.history.get("test_accuracy", [math.nan])[-1] for r in records])


def _summary(records: Sequence[Record], accuracies: Sequence[float]) -> Stat | None:
    if not records or any(math.isnan(accuracy) for accuracy in accuracies):
        return None
    accuracy = 100 * np.array(accuracies)
    spread = float(accuracy.std(ddof=1)) if len(accuracy) > 1 else math.nan
    epoch = float(np.mean([record.stop_epoch for record in records]))
    return Stat(float(accuracy.mean()), spread, len(accuracy), epoch)


def shown(stat: Stat) -> str:
    """Mean, spread and n in words; a single run has no spread.

    >>> shown(Stat(98.72, 0.11, 3, 50.0)), shown(Stat(98.72, float("nan"), 1, 50.0))
    ('98.7 ± 0.1 (3)', '98.7 (1)')
    """
    spread = "" if math.isnan(stat.spread) else f" ± {stat.spread:.1f}"
    return f"{stat.mean:.1f}{spread} ({stat.n})"


def curves(records: Sequence[Record], column: str) -> npt.NDArray[np.float64]:
    """A column of the histories, a row per seed; shorter ones are filled up with NaN."""
    found = [record.history.get(column, []) for record in records]
    length = max((len(curve) for curve in found), default=0)
    table = np.full((len(found), length), math.nan)
    for row, curve in zip(table, found, strict=True):
        row[: len(curve)] = curve
    return table


def first_at_most(loss: npt.NDArray[np.float64], threshold: float) -> int | None:
    """The first epoch, from 0, with a loss at or below a threshold; None if there is none."""
    below = np.flatnonzero(loss <= threshold)
    return int(below[0]) if len(below) else None
