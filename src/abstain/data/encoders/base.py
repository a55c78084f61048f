"""The base of all encoders: fitted once, saved with the model, applied to whatever comes later."""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from abstain.data.contract import Inputs, Kind, LabeledData
from abstain.data.inputs import LazyRows, take
from abstain.errors import DataError
from abstain.support.files import publish_text

FILE = "encoder.json"


class Encoder(ABC):
    """Inputs to what a model sees, in two steps: once on the host, then per batch on the device."""

    kind: Kind
    columns: tuple[str, ...]
    """The columns that the inputs were read from, to be read again from new data."""
    categories: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """Categories of the training data, by column."""
    texts: Collection[str] = ()
    """Columns of free text among them, which a backbone reads."""
    backbone_used: str = ""
    """The backbone, and why it was chosen; empty if there is none."""

    @property
    def sees(self) -> Kind:
        """The kind of what the model is given: features of a backbone are a table."""
        return self.kind

    @property
    @abstractmethod
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one sample as the model sees it."""

    def encode(self, data: LabeledData | Inputs) -> Inputs:
        """A tensor for inputs in memory; for lazy inputs something lazy that gives tensors.

        Give the `LabeledData` rather than its inputs where there is one: its column names let a
        table's columns be put in order and missed by name.
        """
        if not isinstance(data, LabeledData):
            return self._encode(data, ())
        self.check_kind(data)
        return self._encode(data.inputs, data.columns)

    def check_kind(self, data: LabeledData) -> None:
        """Raise for images where the model knows texts, and the like."""
        if data.kind != self.kind:
            raise DataError(
                f"{data.name} must hold what the model was trained on ({self.kind}), "
                f"got {data.kind}"
            )

    def to_model(self, batch: Tensor) -> Tensor:
        """An encoded batch, on the device, as the model takes it; the identity by default."""
        return batch

    def too_far(self, data: LabeledData) -> list[str]:
        """Columns of a table with extreme values, which are clipped, each with one."""
        return []

    @abstractmethod
    def as_json(self) -> dict[str, Any]:
        """Plain values from which the class restores the encoder."""

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the encoder into a folder, from which it is loaded with the model."""
        publish_text(Path(folder) / FILE, json.dumps(self.as_json()))

    @abstractmethod
    def _encode(self, inputs: Inputs, columns: Sequence[str]) -> Inputs:
        """Encode inputs whose columns, where they have any, are known."""

    @abstractmethod
    def encode_one(self, sample: object, order: Sequence[int]) -> Tensor:
        """Encode one sample of lazy inputs; `order` says where a table's columns stand."""

    def encode_rows(self, inputs: Inputs, indices: Sequence[int], order: Sequence[int]) -> Tensor:
        """Encode some samples of lazy inputs, by default one by one."""
        return torch.stack([self.encode_one(sample, order) for sample in take(inputs, indices)])


@dataclass(frozen=True)
class LazyEncoded(LazyRows):
    """Lazy inputs that are encoded when asked for; a map-style dataset of tensors."""

    inputs: Inputs
    encoder: Encoder
    order: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.inputs)

    def as_tensor(self, indices: Sequence[int]) -> Tensor:
        """Many samples, encoded at once where the encoder can do that."""
        return self.encoder.encode_rows(self.inputs, indices, self.order)
