"""A table with free text: numbers and categories, and beside them what a backbone sees of texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor

from abstain.data import Inputs, Kind, LabeledData
from abstain.data.encoders.base import Encoder
from abstain.data.encoders.table_encoder import TableEncoder
from abstain.data.inputs import LazyRows, blocks, rows_at
from abstain.data.reading import MEMORY_BUDGET
from abstain.embed.backbones.base import Backbone
from abstain.embed.backbones.names import backbone_again
from abstain.embed.embedding import Embedding, again
from abstain.errors import DataError
from abstain.support.wording import did_you_mean, some

SHRINK = 0.25
"""Features of a text are divided by this power of how many there are."""


@dataclass(frozen=True)
class JoinedEncoder(Encoder):
    """Encodes the numbers and categories of a row, and the features of each of its texts."""

    backbone: Backbone
    numbers: TableEncoder | None
    """None where no column of numbers or categories holds a value."""
    texts: Mapping[str, TableEncoder]
    """Mean and spread of the features of each column of texts."""
    reason: str = ""
    """Why this backbone."""
    embeddings: Mapping[str, Embedding] = field(default_factory=dict, compare=False, repr=False)
    """Embedding of each column of texts of the training data, to be handed on."""
    kind: Kind = "table"

    @classmethod
    def fit(cls, data: LabeledData, backbone: Backbone, *, reason: str = "") -> "JoinedEncoder":
        """Embed the texts of the training part, and take mean and spread of all its columns."""
        has_numbers = any(bool((~rows.isnan()).any()) for rows in blocks(data.inputs))
        # First, as columns that cannot be used are named here, and embedding may take hours.
        numbers = TableEncoder.fit(data) if has_numbers else None
        embeddings = {name: Embedding.of(data.of_texts(name), backbone) for name in data.texts}
        texts = {}
        for name, embedding in embeddings.items():
            rows = embedding.features.within(MEMORY_BUDGET // len(data.texts))
            texts[name] = _scaled(TableEncoder.fit(as_table(data, rows)))
        return cls(backbone, numbers, texts, reason, embeddings)

    @classmethod
    def restore(
        cls, saved: dict[str, Any], folder: Path, backbone: str | None = None
    ) -> "JoinedEncoder":
        """Rebuild from what `save` wrote; the backbone must have the weights that it had then."""
        return cls(
            backbone_again(saved, "text", folder, backbone),
            None if saved["numbers"] is None else TableEncoder.restore(saved["numbers"]),
            {name: TableEncoder.restore(each) for name, each in saved["texts"].items()},
            saved["reason"],
        )

    def as_json(self) -> dict[str, Any]:
        """The backbone, whose weights stay where they are installed, and the encoders it joins."""
        return {
            "kind": "joined",
            "backbone": self.backbone.name,
            "identity": self.backbone.identity,
            "reason": self.reason,
            "numbers": None if self.numbers is None else self.numbers.as_json(),
            "texts": {name: each.as_json() for name, each in self.texts.items()},
        }

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """Columns of numbers and categories, then those of texts."""
        return (*(self.numbers.columns if self.numbers else ()), *self.texts)

    @property
    def categories(self) -> Mapping[str, tuple[str, ...]]:  # type: ignore[override]
        """Categories of the training data, by column."""
        return self.numbers.categories if self.numbers else {}

    @property
    def backbone_used(self) -> str:  # type: ignore[override]
        """The columns of texts, their backbone, and why it was chosen."""
        return f"{some([*self.texts])} by {self.backbone.name}, {self.reason}"

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The numbers of a row, and the features of its texts."""
        parts = [*([self.numbers] if self.numbers else []), *self.texts.values()]
        return (sum(part.input_shape[0] for part in parts),)

    def encode(self, data: LabeledData | Inputs) -> Inputs:
        """Numbers and features side by side, the latter from the cache; lazy if they do not fit."""
        if not isinstance(data, LabeledData):
            self._refuse()
        self.check_kind(data)
        self._check_texts(data)
        parts = [] if self.numbers is None else [self.numbers.encode(data)]
        for name, encoder in self.texts.items():
            features = again(self.embeddings.get(name), data.of_texts(name), self.backbone)
            parts.append(encoder.encode(features.within(MEMORY_BUDGET // len(self.texts))))
        tensors = [part for part in parts if isinstance(part, Tensor)]
        return torch.cat(tensors, dim=1) if len(tensors) == len(parts) else LazyJoined(tuple(parts))

    def too_far(self, data: LabeledData) -> list[str]:
        """Columns of numbers with values beyond their limits."""
        return self.numbers.too_far(data) if self.numbers else []

    def _check_texts(self, data: LabeledData) -> None:
        if missing := [name for name in self.texts if name not in data.texts]:
            raise DataError(
                f"{data.name} must have the texts of the training data, got no column of free text "
                f"called {some(missing)}{did_you_mean(missing[0], data.texts)}",
                remedy="load it with {texts}",
                texts=[*self.texts],
            )

    def _encode(self, inputs: Inputs, columns: Sequence[str]) -> NoReturn:
        self._refuse()

    def encode_one(self, sample: object, order: Sequence[int]) -> NoReturn:
        """Refuse: a row is in several parts."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise DataError(
            "a table with texts must be encoded as LabeledData, whose columns have names, got its "
            "inputs alone"
        )


@dataclass(frozen=True)
class LazyJoined(LazyRows):
    """Encoded parts of each row, some of them lazy, side by side."""

    parts: tuple[Inputs, ...]

    def __len__(self) -> int:
        return len(self.parts[0])

    def as_tensor(self, indices: Sequence[int]) -> Tensor:
        """Many rows, their parts side by side."""
        return torch.cat([rows_at(part, indices) for part in self.parts], dim=1)


def as_table(data: LabeledData, features: Inputs) -> LabeledData:
    """Features as the inputs of a table whose columns have no names."""
    return LabeledData(
        inputs=features, given=data.given, classes=data.classes, ids=data.ids, kind="table"
    )


def _scaled(features: TableEncoder) -> TableEncoder:
    """The features of a text, so small that hundreds of them do not drown a few numbers.

    Together they count as much as √d numbers, d being how many there are: half-way between a text
    that counts as one number and one that counts as d (bench/mixed_tables.py compares the three).
    """
    weight = len(features.mean) ** -SHRINK
    return replace(features, std=features.std / weight, limit=features.limit * weight)
