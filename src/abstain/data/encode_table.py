"""Tables: every column to mean 0 and spread 1, as the training part has them."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from abstain.data.contract import Inputs, Kind, LabeledData
from abstain.data.encoder import FILE, Encoder, LazyEncoded, blocks
from abstain.data.finite import check_finite
from abstain.data.wording import did_you_mean, some
from abstain.errors import DataError


@dataclass(frozen=True)
class TableEncoder(Encoder):
    """Remembers names, order, mean and spread of the columns."""

    mean: Tensor
    std: Tensor
    columns: tuple[str, ...] = ()
    kind: Kind = "table"

    @classmethod
    def fit(cls, data: LabeledData) -> Self:
        """Mean and spread in float64, in two passes over blocks, so that lazy tables do too."""
        count = len(data)
        total = sum((x.double().sum(0) for x in blocks(data.inputs)), start=torch.zeros(()))
        mean = total.double() / count
        squares = sum(
            (((x.double() - mean) ** 2).sum(0) for x in blocks(data.inputs)), start=torch.zeros(())
        )
        std = (squares.double() / count).sqrt()
        # A column that never varies says nothing; rounding must not blow it up.
        std[std <= 1e-7 * mean.abs()] = 1.0
        std[std == 0] = 1.0
        return cls(mean.float(), std.float(), data.columns)

    @classmethod
    def restore(cls, about: dict[str, Any]) -> Self:
        """Rebuild from what `save` wrote."""
        mean, std = torch.tensor(about["mean"]), torch.tensor(about["std"])
        return cls(mean, std, tuple(about["columns"]))

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The number of columns."""
        return (len(self.mean),)

    def encode_one(self, sample: object, order: Sequence[int]) -> Tensor:
        """One row, its columns put in order."""
        row = torch.as_tensor(sample, dtype=torch.float32)
        return (row[list(order)] - self.mean) / self.std

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write encoder.json."""
        about = {
            "kind": self.kind,
            "columns": self.columns,
            "mean": self.mean.tolist(),
            "std": self.std.tolist(),
        }
        (Path(folder) / FILE).write_text(json.dumps(about), encoding="utf-8")

    def _encode(self, inputs: Inputs, columns: Sequence[str]) -> Inputs:
        if len(inputs) == 0:
            return torch.empty((0, *self.input_shape))
        order = self._order(columns, len(torch.as_tensor(inputs[0])))
        if not isinstance(inputs, Tensor):
            return LazyEncoded(inputs, self, order)
        check_finite(inputs, columns, where="the new data")
        return (inputs[:, list(order)].float() - self.mean) / self.std

    def _order(self, columns: Sequence[str], width: int) -> tuple[int, ...]:
        """Where the columns of the model stand in the new data; by position when names lack."""
        if self.columns and columns:
            missing = [name for name in self.columns if name not in columns]
            if missing:
                unused = [name for name in columns if name not in self.columns]
                raise DataError(
                    f"new data must have the columns of the training data, got none called "
                    f"{some(missing)}{did_you_mean(missing[0], unused)}"
                )
            return tuple(list(columns).index(name) for name in self.columns)
        if width != len(self.mean):
            raise DataError(
                f"new data must have {len(self.mean)} columns as the training data had, got {width}"
            )
        return tuple(range(width))
