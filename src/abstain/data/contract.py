"""The contract of all sources: inputs, given labels, class names and an id per sample."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Literal, Protocol, TypeAlias, overload

import numpy as np
from torch import Tensor

from abstain.errors import DataError
from abstain.support.wording import many, some

Kind: TypeAlias = Literal["image", "table", "text"]


class Inputs(Protocol):
    """The type of `LabeledData.inputs`: a tensor, texts, or something that decodes lazily."""

    def __len__(self) -> int:
        """The number of samples."""
        ...

    def __getitem__(self, index: int, /) -> object:
        """One sample, decoded."""
        ...


@dataclass(frozen=True, kw_only=True, repr=False)
class LabeledData:
    """A labelled data set, from any source.

    `given` labels train; `true` labels, where they are known, only evaluate. Every sample keeps its
    id from here to the report.

    >>> import torch
    >>> data = LabeledData(inputs=torch.zeros(3, 2), given=torch.tensor([0, 1, 1]),
    ...                    classes=("cat", "dog"), ids=("a", "b", "c"), kind="table")
    >>> len(data), data.num_classes
    (3, 2)
    >>> data
    <LabeledData data: 3 samples of 2 classes, table>
    """

    inputs: Inputs
    """uint8 images (N, channels, height, width), float32 features (N, columns), texts, or lazy.

    A feature is NaN where the table has no value, and of a column of categories it is their number.
    Images that a program gave as floats stay float32. Lazy inputs are picklable, map-style, and
    give one sample per index: what does not fit in memory is decoded only there.
    """
    given: Tensor
    """int64 class indices (N); all −1 when the source was read without labels."""
    classes: tuple[str, ...]
    ids: Sequence[str]
    kind: Kind
    true: Tensor | None = None
    name: str = "data"
    skipped: tuple[str, ...] = field(default=())
    """Ids that could not be read and were left out on request."""
    scaled: bool = False
    """Whether images had several sizes and were scaled to a common one that nobody asked for."""
    columns: tuple[str, ...] = ()
    """Names of the columns that the inputs were read from; () where the source has no columns."""
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For each column of categories their names; a number is a place among them, from 0."""
    dates: tuple[str, ...] = ()
    """Columns whose numbers are days since 1970."""
    unknown: tuple[str, ...] = ()
    """Columns with categories that the training did not have, with these; they count as missing."""
    texts: Mapping[str, Inputs] = field(default_factory=dict)
    """A table's columns of free text beside those of the inputs: a text for each sample.

    It is empty where the table has none.
    """
    weights: Tensor | None = None
    """float32 (N): how much each sample counts in training; None where all count alike."""
    shown: "LabeledData | None" = None
    """The same samples as a person is shown them, where that differs from what the model sees.

    Where the inputs are embeddings, for example, the photos that they were computed from.
    """

    def __post_init__(self) -> None:
        sizes = {"inputs": len(self.inputs), "given": len(self.given), "ids": len(self.ids)}
        if self.true is not None:
            sizes["true"] = len(self.true)
        if self.weights is not None:
            sizes["weights"] = len(self.weights)
        if self.shown is not None:
            sizes["shown"] = len(self.shown)
        sizes |= {name: len(texts) for name, texts in self.texts.items()}
        if len(set(sizes.values())) > 1:
            raise DataError(f"inputs, given and ids must have one length, got {sizes}")

    def __repr__(self) -> str:
        """Summarise in a line: a notebook would print every sample."""
        return (
            f"<LabeledData {self.name}: {many(len(self), 'sample')} of "
            f"{many(self.num_classes, 'class', 'classes')}, "
            f"{self.kind}>"
        )

    def __len__(self) -> int:
        return len(self.given)

    def named(self, row: Sequence[float]) -> list[float | str | None]:
        """A row of a table as people read it: categories by name, None for what is missing.

        >>> import torch
        >>> data = LabeledData(inputs=torch.tensor([[0.5, 1.0, 365.0]]), given=torch.tensor([0]),
        ...                    classes=("yes",), ids=("a",), kind="table",
        ...                    columns=("size", "city", "day"), dates=("day",),
        ...                    categories={"city": ("Oslo", "Rome")})
        >>> data.named([0.5, 1.0, 365.0]), data.named([float("nan"), 0.0, 1.0])
        ([0.5, 'Rome', '1971-01-01'], [None, 'Oslo', '1970-01-02'])
        """
        return [*map(self.read, self.columns or [""] * len(row), row)]

    def read(self, column: str, value: float) -> float | str | None:
        """A number of a column as people read it."""
        if math.isnan(value):
            return None
        if column in self.dates:
            return str(date(1970, 1, 1) + timedelta(days=math.floor(value)))
        return self.categories[column][int(value)] if column in self.categories else value

    def row(self, index: int) -> dict[str, float | str | None]:
        """A row of a table as people read it, by the names of its columns, texts last.

        >>> import torch
        >>> data = LabeledData(inputs=torch.tensor([[0.69]]), given=torch.tensor([0]),
        ...                    classes=("yes",), ids=("a",), kind="table", columns=("size",),
        ...                    texts={"note": ["as new"]})
        >>> data.row(0)
        {'size': 0.69, 'note': 'as new'}
        """
        # As it was written, 0.69: in double precision single is 0.6899999976158142.
        values = [float(str(x)) for x in np.asarray(self.inputs[index], dtype=np.float32)]
        names = self.columns or [f"column {k}" for k in range(len(values))]
        texts = {name: str(column[index]) or None for name, column in self.texts.items()}
        return {**dict(zip(names, self.named(values), strict=True)), **texts}

    def of_texts(self, column: str) -> "LabeledData":
        """The texts of one column as data of their own: what a backbone is given."""
        return replace(
            self,
            inputs=self.texts[column],
            kind="text",
            name=f"{column!r} of {self.name}",
            columns=(column,),
            categories={},
            dates=(),
            unknown=(),
            texts={},
            shown=None,
        )

    @property
    def as_shown(self) -> "LabeledData":
        """The samples as a person sees them, under the same labels.

        >>> import torch
        >>> texts = LabeledData(inputs=["fine", "dull"], given=torch.tensor([0, 1]), kind="text",
        ...                     classes=("+", "-"), ids=("a", "b"))
        >>> data = replace(texts, inputs=torch.rand(2, 384), kind="table", shown=texts)
        >>> data.kind, data.as_shown.kind, texts.as_shown is texts
        ('table', 'text', True)
        """
        if self.shown is None:
            return self
        return replace(
            self.shown,
            given=self.given,
            classes=self.classes,
            true=self.true,
            weights=self.weights,
        )

    @property
    def num_classes(self) -> int:
        """The number of classes that labels can name."""
        return len(self.classes)


@dataclass(frozen=True)
class NumberedIds(Sequence[str]):
    """Row numbers as ids, made when asked for: a hundred million of them take no memory.

    >>> NumberedIds(3, prefix="train-", width=6)[-1]
    'train-000002'
    """

    total: int
    prefix: str = ""
    width: int = 0

    def __len__(self) -> int:
        return self.total

    @overload
    def __getitem__(self, index: int, /) -> str: ...
    @overload
    def __getitem__(self, index: slice, /) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice, /) -> str | tuple[str, ...]:
        rows = range(self.total)[index]
        if isinstance(rows, range):
            return tuple(self._name(row) for row in rows)
        return self._name(rows)

    def _name(self, row: int) -> str:
        return f"{self.prefix}{row:0{self.width}d}"


def check_unique(ids: Sequence[str], name: str) -> None:
    """Raise when two samples share an id, or when one cannot be written down."""
    if isinstance(ids, NumberedIds):
        return
    foreign = [id_ for id_ in ids if not id_.isascii() and not is_utf8(id_)]
    if foreign:
        shown = [id_.encode("utf-8", "backslashreplace").decode() for id_ in foreign]
        raise DataError(f"ids of {name} must be UTF-8, got {some(shown)}; rename these files")
    if len(set(ids)) == len(ids):
        return
    twice = [id_ for id_, count in Counter(ids).items() if count > 1]
    raise DataError(
        f"ids of {name} must be unique, got {some(twice)} at least twice; "
        "give every sample its own id, or drop the id column so that row numbers are used"
    )


def is_utf8(text: str) -> bool:
    """Whether a text can be written: names of files and cut emoji may hold half a pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
