"""A backbone as the encoder of a training: photos and texts in, standardised features out."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from abstain.data import Inputs, Kind, LabeledData
from abstain.data.encoders import load_encoder
from abstain.data.encoders.base import FILE, Encoder, LazyEncoded
from abstain.data.encoders.table_encoder import TableEncoder
from abstain.data.reading import MEMORY_BUDGET
from abstain.embed.backbones.base import Backbone
from abstain.embed.backbones.names import backbone_again
from abstain.embed.embedding import Embedding, again
from abstain.embed.finetuning import FineTuningEncoder
from abstain.embed.joined import JoinedEncoder, as_table
from abstain.embed.store.shards import Features
from abstain.errors import AbstainError


@dataclass(frozen=True)
class BackboneEncoder(Encoder):
    """Knows its backbone by name and identity, and mean and spread of its features."""

    backbone: Backbone
    table: TableEncoder
    """Standardises the features, as those of the training part are."""
    columns: tuple[str, ...] = ()
    reason: str = ""
    """Why this backbone."""
    embedding: Embedding | None = field(default=None, compare=False, repr=False)
    """Embedding of the training data, to be handed on."""

    @classmethod
    def fit(cls, data: LabeledData, backbone: Backbone, *, reason: str = "") -> "BackboneEncoder":
        """Embed the training part, and take mean and spread of its features."""
        backbone = backbone.for_data(data)
        embedding = Embedding.of(data, backbone)
        table = TableEncoder.fit(as_table(data, embedding.features.within(MEMORY_BUDGET)))
        return cls(backbone, table, data.columns, reason, embedding)

    @classmethod
    def restore(
        cls, saved: dict[str, Any], folder: Path, backbone: str | None = None
    ) -> "BackboneEncoder":
        """Rebuild from what `save` wrote; the backbone must have the weights that it had then."""
        network = backbone_again(saved, saved["of"], folder, backbone)
        table = TableEncoder.restore(saved["table"])
        return cls(network, table, tuple(saved["columns"]), saved["reason"])

    @property
    def backbone_used(self) -> str:  # type: ignore[override]
        """The backbone, and why it was chosen."""
        return f"{self.backbone.name}, {self.reason}"

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        """The kind of the inputs, as people know them."""
        return self.backbone.kind

    @property
    def sees(self) -> Kind:
        """Features are a table."""
        return "table"

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The columns of the features."""
        return self.table.input_shape

    def encode(self, data: LabeledData | Inputs) -> Inputs:
        """The features, from the cache where they are there; lazy where they do not fit."""
        if isinstance(data, LabeledData):
            self.check_kind(data)
            return self.table.encode(self.features(data).within(MEMORY_BUDGET))
        return super().encode(data)

    def features(self, data: LabeledData) -> Features:
        """Features as the backbone makes them; those of the training data are there already."""
        return again(self.embedding, data, self.backbone)

    def _encode(self, inputs: Inputs, columns: Sequence[str]) -> Inputs:
        return LazyEncoded(inputs, self)

    def encode_one(self, sample: object, order: Sequence[int]) -> Tensor:
        """One sample by itself, which no cache knows."""
        features = self.backbone.features([sample], torch.device("cpu"))
        return self.table.encode_one(features[0], range(features.shape[1]))

    def as_json(self) -> dict[str, Any]:
        """Its backbone, whose weights stay where they are installed, and its features' spread."""
        return {
            "kind": "backbone",
            "of": self.kind,
            "backbone": self.backbone.name,
            "identity": self.backbone.identity,
            "size": getattr(self.backbone, "size", None),
            "columns": self.columns,
            "reason": self.reason,
            "table": self.table.as_json(),
        }


def load_any_encoder(folder: str | os.PathLike[str], backbone: str | None = None) -> Encoder:
    """Read the encoder that a training saved, with a backbone or without.

    Args:
        folder: Of the run.
        backbone: Its name here, where its weights lie elsewhere than when it was saved.
    """
    path = Path(folder) / FILE
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        if encoder := _ENCODERS.get(saved["kind"]):
            return encoder.restore(saved, Path(folder), backbone)
    except AbstainError:
        raise
    except (OSError, ValueError, KeyError, TypeError):
        pass  # what is wrong with it is said where plain encoders are read
    if backbone is not None:
        raise AbstainError(
            f"must be left out for {folder}, which has none, got {backbone}", argument="backbone"
        )
    return load_encoder(folder)


_ENCODERS: dict[str, type[BackboneEncoder | JoinedEncoder | FineTuningEncoder]] = {
    "backbone": BackboneEncoder,
    "joined": JoinedEncoder,
    "finetuning": FineTuningEncoder,
}
"""Encoders by the kind that is saved with them."""
