"""A sample as a person would look at it: a thumbnail, the beginning of a text, a few columns."""

import base64
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import Tensor, as_tensor

from abstain.auditing.folder import Absent
from abstain.data import LabeledData
from abstain.data.encoders.spread import spread_of
from abstain.showing.pictures import encoded, image_of
from abstain.support.wording import cut

_SIDE = 112
_LEAST_PIXELS, _PIXELATED = 20, 64
_TEXT = 280
_COLUMNS = 6

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Thumbnail:
    """An image that the page holds itself."""

    source: str
    width: int
    height: int
    is_sharp: bool
    """Whether its pixels are to be seen as they are."""


@dataclass(frozen=True)
class Excerpt:
    """The beginning of a text."""

    text: str


@dataclass(frozen=True)
class Row:
    """A few columns of a row, and the means of these in some classes; its texts, if it has any."""

    heads: list[str]
    lines: list[tuple[str, list[str]]]
    """The name of a column, and a value under each head."""
    texts: list[tuple[str, str]]
    """The name of a column of texts, and the beginning of its text."""
    left_out: int


Shown: TypeAlias = Thumbnail | Excerpt | Row


class Samples:
    """Shows samples of a data set, until the page would become too heavy."""

    def __init__(self, data: LabeledData, *, bytes_left: int = 2_000_000) -> None:
        self.data = data
        self._bytes_left = bytes_left

    def show(self, index: int, proposed: int | None = None) -> Shown | None:
        """One sample; None where it cannot be shown or has no room any more.

        A row of numbers is shown beside the means of its class as given and as proposed.
        """
        if isinstance(self.data.inputs, Absent):
            return None
        if self.data.kind == "text":
            return Excerpt(cut(str(self.data.inputs[index]), _TEXT))
        if self.data.kind == "table":
            return self._row(index, proposed) if self._width or self.data.texts else None
        return self._image(index) if self._bytes_left > 0 else None

    @cached_property
    def _width(self) -> int:
        return len(as_tensor(self.data.inputs[0]))

    def _image(self, index: int) -> Thumbnail | None:
        try:
            pixels = as_tensor(self.data.inputs[index]).numpy()
        except Exception:  # a file may be gone since: the report is worth more than a thumbnail
            return None
        source, (width, height) = data_uri(pixels)
        self._bytes_left -= len(source)
        # Drawings stay sharp, unless pixels are so few that only a blur makes a picture of them;
        # photographs never look better for it.
        is_sharp = len(pixels) != 3 and _LEAST_PIXELS <= max(width, height) <= _PIXELATED
        return Thumbnail(source, width, height, is_sharp)

    def _row(self, index: int, proposed: int | None) -> Row:
        row = np.asarray(self.data.inputs[index], dtype=np.float64)
        given = int(self.data.given[index])
        names = self.data.columns or tuple(f"column {k}" for k in range(len(row)))
        chosen = list(range(min(_COLUMNS, len(row))))
        heads, columns = ["this row"], [self.data.named(row.tolist())]
        if self._means is not None:
            place, means, spread = self._compared(row, *self._means)
            # What is furthest from the class as given tells most about a wrong label.
            away = np.nan_to_num(np.abs(place - means[given]) / spread)
            chosen = [int(k) for k in np.argsort(-away, kind="stable")[:_COLUMNS]]
            shown = dict.fromkeys([given] if proposed is None else [given, proposed])
            heads += [f"mean of {cut(self.data.classes[j], 18)}" for j in shown]
            columns += [
                [
                    f"{x:.0%} alike" if name in self.data.categories else self.data.read(name, x)
                    for name, x in zip(names, means[j].tolist(), strict=True)
                ]
                for j in shown
            ]
        texts = [(name, str(column[index])) for name, column in self.data.texts.items()][:_COLUMNS]
        return Row(
            heads,
            [(cut(names[k], 28), [_cell(values[k]) for values in columns]) for k in chosen],
            texts=[(cut(name, 28), cut(text, _TEXT) or _cell(None)) for name, text in texts],
            left_out=len(row) + len(self.data.texts) - len(chosen) - len(texts),
        )

    @cached_property
    def _means(self) -> tuple[Floats, Floats] | None:
        """Means of each class and spread of all; None where the rows are not in memory."""
        if not isinstance(self.data.inputs, Tensor):
            return None
        known = spread_of(self.data.inputs)
        absurd = known.is_beyond(self.data.inputs)  # one would be the mean
        rows = self.data.inputs.double().masked_fill(absurd, np.nan).numpy()
        given = self.data.given.numpy()
        sums, counts = np.zeros((2, self.data.num_classes, rows.shape[1]))
        np.add.at(sums, given, np.nan_to_num(rows))
        np.add.at(counts, given, ~np.isnan(rows))
        spread = np.ma.masked_invalid(rows).std(axis=0).filled(0.0)
        spread[spread == 0] = 1.0
        # A class may have no value of a column at all.
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan), spread

    def _compared(
        self, row: Floats, means: Floats, spread: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """The same with categories as numbers: 1 for that of the row, or for none, 0 for others."""
        if not self.data.categories or not isinstance(self.data.inputs, Tensor):
            return row, means, spread
        row, means, spread = row.copy(), means.copy(), spread.copy()
        given = self.data.given.numpy()
        counts = np.bincount(given, minlength=self.data.num_classes)
        for k, name in enumerate(self.data.columns):
            if name in self.data.categories:
                values = self.data.inputs[:, k].numpy()
                # To have none is something that rows have in common, too.
                alike = np.isnan(values) if np.isnan(row[k]) else values == row[k]
                same = np.bincount(given[alike], minlength=self.data.num_classes)
                means[:, k] = same / np.maximum(counts, 1)
                spread[k] = alike.std() or 1.0
                row[k] = 1.0
        return row, means, spread


def _cell(value: float | str | None) -> str:
    """A value with four digits, of thousands all.

    >>> _cell(0.123456), _cell(23910.0), _cell(1e9), _cell(None)
    ('0.1235', '23,910', '1e+09', 'missing')
    """
    if value is None:
        return "missing"
    if isinstance(value, str):
        return cut(value, 18)
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:,.4g}"


def data_uri(pixels: npt.NDArray[Any], side: int = _SIDE) -> tuple[str, tuple[int, int]]:
    """An image (channels, height, width) as a data URI, and its width and height in pixels.

    >>> data_uri(np.zeros((1, 8, 8), dtype=np.uint8))[0][:22]
    'data:image/png;base64,'
    """
    image = image_of(pixels)
    content, kind = encoded(image, side, sharp=_PIXELATED, quality=80, optimize=True)
    return f"data:{kind};base64,{base64.b64encode(content).decode()}", image.size
