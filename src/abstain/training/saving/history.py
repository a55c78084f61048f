"""The history, per step and per epoch: kept in the checkpoint, written as Parquet."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

Row = dict[str, float]


@dataclass
class Average:
    """An exponential moving average, corrected for its start.

    >>> average = Average()
    >>> average.add(2.0), average.add(1.0)
    (2.0, 1.49...)
    """

    decay: float = 0.98
    total: float = 0.0
    weight: float = 0.0

    def add(self, value: float) -> float:
        """Take in a value; the average so far."""
        self.total = self.decay * self.total + (1 - self.decay) * value
        self.weight = self.decay * self.weight + (1 - self.decay)
        return self.total / self.weight


@dataclass
class History:
    """Rows of numbers per step and per epoch; a number that a row lacks is NaN.

    >>> history = History()
    >>> history.steps.append({"step": 1, "loss": 2.3})
    >>> again = History.unpacked(*history.packed())
    >>> again.steps == history.steps
    True
    """

    steps: list[Row] = field(default_factory=list)
    epochs: list[Row] = field(default_factory=list)

    def packed(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """As tensors and column names, for a checkpoint."""
        tensors: dict[str, Tensor] = {}
        names: dict[str, Any] = {}
        for part, rows in self._parts().items():
            names[part] = list(dict.fromkeys(name for row in rows for name in row))
            values = [[row.get(name, math.nan) for name in names[part]] for row in rows]
            shape = len(rows), len(names[part])
            tensors[part] = torch.tensor(values, dtype=torch.float64).view(shape)
        return tensors, names

    @classmethod
    def unpacked(cls, tensors: Mapping[str, Tensor], names: Mapping[str, Any]) -> "History":
        """The history that `packed` took apart."""
        parts = {
            part: [dict(zip(names[part], row, strict=True)) for row in values.tolist()]
            for part, values in tensors.items()
        }
        return cls(**parts)

    def write(self, folder: Path) -> None:
        """Write steps.parquet and epochs.parquet."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        tensors, names = self.packed()
        for part, values in tensors.items():
            columns = dict(zip(names[part], values.T.numpy(), strict=True))
            pq.write_table(pa.table(columns), folder / f"{part}.parquet")

    def _parts(self) -> dict[str, list[Row]]:
        return {"steps": self.steps, "epochs": self.epochs}


class HasReason(Protocol):
    """A rule that has decided something, or has not, and gives the reason."""

    @property
    def reason(self) -> str:
        """In words."""
        ...


def all_done(epochs: int, stop: HasReason | None = None, warm_up: HasReason | None = None) -> str:
    """Say how a training ended that nothing stopped, and why nothing did.

    >>> all_done(1), all_done(30)
    ('the only epoch is done', 'all 30 epochs are done')
    """
    outcome = "the only epoch is done" if epochs == 1 else f"all {epochs} epochs are done"
    if stop is not None:
        outcome += f"; to stop it was {stop.reason}"
    return outcome if warm_up is None else f"{outcome}; {warm_up.reason}"
