"""Tables: numbers to mean 0 and spread 1, as the training part has them; a 0 or 1 per category."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor

from abstain.data.contract import Inputs, Kind, LabeledData
from abstain.data.encoders.base import Encoder, LazyEncoded
from abstain.data.encoders.spread import is_beyond, spread_of
from abstain.data.encoders.table_checks import check_dates, check_no_texts, is_date, is_number
from abstain.data.free_text import most_categories
from abstain.data.inputs import blocks, check_finite, rows_at
from abstain.errors import DataError
from abstain.support.wording import did_you_mean, many, some

_FORMS = {
    "write dates as 2024-02-29": re.compile(r"\d{1,4}([./-])\d{1,2}\1\d{1,4}( .*)?"),
    "write numbers as 1234.5": re.compile(r"[^\w.]*\d[\d.,' ]*[^\w.]*"),  # $1,234.50 and 12%
}
"""Forms of texts that are probably dates or numbers, but that the reader cannot be sure of."""


@dataclass(frozen=True)
class TableEncoder(Encoder):
    """Remembers names, order, mean and spread of the columns, and their categories.

    What a model sees of a row: its numbers, missing ones as the mean; a 0 or 1 for every category;
    and for every column that had gaps in training, a 0 or 1 that says whether the value is missing.
    """

    mean: Tensor
    std: Tensor
    limit: Tensor
    """Largest distance of a standardised number from 0."""
    columns: tuple[str, ...] = ()
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    gaps: tuple[int, ...] = ()
    """Columns with missing values, by number."""
    dates: tuple[str, ...] = ()
    """Columns of dates, which are numbers too."""
    kind: Kind = "table"

    @classmethod
    def fit(cls, data: LabeledData) -> Self:
        """Mean and spread of the columns that hold values, and which of them had gaps."""
        if data.texts and not data.columns:
            raise DataError(
                f"{data.name} must have columns of numbers or categories to be learnt without a "
                f"backbone, got only texts in {some([*data.texts])}",
                remedy="name one with {backbone}",
                backbone="small:wordllama",
            )
        _check_repeated(data)
        spread = spread_of(data.inputs)
        # Of a column without a value nothing is learnt; where none has a name, none is left out.
        used = ((spread.missing < len(data)) | (not data.columns)).nonzero().flatten()
        if not len(used):
            raise DataError(
                f"feature columns of {data.name} must hold values, got none in {some(data.columns)}"
            )
        columns = tuple(data.columns[k] for k in used.tolist()) if data.columns else ()
        return cls(
            mean=spread.mean[used],
            std=spread.std[used],
            columns=columns,
            categories={x: known for x, known in data.categories.items() if x in columns},
            gaps=tuple(spread.missing[used].nonzero().flatten().tolist()),
            dates=data.dates,
            limit=spread.limit[used],
        )

    @classmethod
    def restore(cls, saved: dict[str, Any]) -> Self:
        """Rebuild from what `save` wrote."""
        return cls(
            mean=torch.tensor(saved["mean"]),
            std=torch.tensor(saved["std"]),
            limit=torch.tensor(saved["limit"]),
            columns=tuple(saved["columns"]),
            categories={name: tuple(known) for name, known in saved["categories"].items()},
            gaps=tuple(saved["gaps"]),
            dates=tuple(saved["dates"]),
        )

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The numbers, categories and gaps of a row."""
        categories = sum(len(known) - 1 for known in self.categories.values())
        return (len(self.mean) + categories + len(self.gaps),)

    def encode_one(self, sample: object, order: Sequence[int]) -> Tensor:
        """One row, its columns put in order."""
        return self._encoded(torch.as_tensor(sample, dtype=torch.float32)[None, list(order)])[0]

    def encode_rows(self, inputs: Inputs, indices: Sequence[int], order: Sequence[int]) -> Tensor:
        """Some rows at once, their columns put in order."""
        return self._encoded(_columns(rows_at(inputs, indices), order).float())

    def as_json(self) -> dict[str, Any]:
        """All fields as plain values."""
        return {
            "kind": self.kind,
            "columns": self.columns,
            "mean": self.mean.tolist(),
            "std": self.std.tolist(),
            "limit": self.limit.tolist(),
            "categories": self.categories,
            "gaps": self.gaps,
            "dates": self.dates,
        }

    def encode(self, data: LabeledData | Inputs) -> Inputs:
        """The numbers of each row; new categories and the training's must be numbered alike."""
        if isinstance(data, LabeledData):
            check_no_texts(data, self.columns, self.categories, self.dates)
            self.check_kind(data)
            check_dates(data, self.columns, self.dates)
            self._check_categories(data)
        return super().encode(data)

    def _check_categories(self, data: LabeledData) -> None:
        # A column that is not there is named later.
        shared = [x for x in self.categories if x in data.columns or not data.columns]
        if any(tuple(data.categories.get(name, ())) != self.categories[name] for name in shared):
            raise DataError(
                "must be numbered as those of the training data",
                argument="categories",
                remedy="load the new data with {categories}",
                categories=None,
            )

    def too_far(self, data: LabeledData) -> list[str]:
        """Columns with values beyond the limit, each with the first of them.

        >>> rows = torch.arange(40.0)[:, None]
        >>> rows[7] = 1e30
        >>> data = LabeledData(inputs=rows, given=torch.zeros(40, dtype=torch.int64), kind="table",
        ...                    classes=("a",), ids=[str(k) for k in range(40)], columns=("size",))
        >>> TableEncoder.fit(data).too_far(data)
        ['size (1e+30 in row 7)']
        """
        order = self._order(data.columns, len(self.mean))
        count = torch.zeros(len(self.mean), dtype=torch.int64)
        first: dict[int, tuple[int, float]] = {}
        start = 0
        for rows in blocks(data.inputs):
            values = _columns(rows, order).float()
            ends = self._standardised(torch.stack([values.amin(0), values.amax(0)]))
            if (is_beyond(ends, self.limit) | ends.isnan()).any():  # NaN where a value is missing
                far = is_beyond(self._standardised(values), self.limit)
                count += far.sum(0)
                for k in far.any(0).nonzero().flatten().tolist():
                    row = int(far[:, k].nonzero()[0])
                    first.setdefault(k, (start + row, float(values[row, k])))
            start += len(rows)
        far_values = []
        for k, name in self._numbered():
            if k in first and name not in self.categories:
                row, value = first[k]
                read = data.read(name, value)
                shown = f"{read:.7g}" if isinstance(read, float) else read
                more = f" and {int(count[k]) - 1:,} more" if count[k] > 1 else ""
                far_values.append(f"{name or f'column {k}'} ({shown} in row {row}{more})")
        return far_values

    def _encode(self, inputs: Inputs, columns: Sequence[str]) -> Inputs:
        if len(inputs) == 0:
            return torch.empty((0, *self.input_shape))
        order = self._order(columns, len(torch.as_tensor(inputs[0])))
        if not isinstance(inputs, Tensor):
            return LazyEncoded(inputs, self, order)
        rows = _columns(inputs, order).float()
        whole = [
            k for k, name in self._numbered() if k not in self.gaps and name not in self.categories
        ]
        names = [self.columns[k] for k in whole] if self.columns else ()
        check_finite(_columns(rows, whole), names, where="the new data")
        return self._encoded(rows)

    def _encoded(self, rows: Tensor) -> Tensor:
        """Rows whose columns are in order, as the model sees them."""
        numbers = self._standardised(rows)
        numbers.clamp_(-self.limit, self.limit)
        if not self.gaps and not self.categories:
            return numbers
        missing = rows.isnan()
        parts = []
        for k, name in self._numbered():
            if name in self.categories:
                # A category that training did not have is missing: none of those it had.
                numbered = torch.arange(len(self.categories[name]))
                parts.append((rows[:, k, None] == numbered).float())
            else:
                parts.append(numbers[:, k, None].masked_fill(missing[:, k, None], 0.0))
        return torch.cat([*parts, missing[:, list(self.gaps)].float()], dim=1)

    def _standardised(self, rows: Tensor) -> Tensor:
        return (rows - self.mean).div_(self.std)

    def _numbered(self) -> list[tuple[int, str]]:
        return list(enumerate(self.columns or [""] * len(self.mean)))

    def _order(self, columns: Sequence[str], width: int) -> tuple[int, ...]:
        """Places of the model's columns in the new data; in order if they have no names."""
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
                f"new data must have {many(len(self.mean), 'column')} as the training data had, "
                f"got {width}"
            )
        return tuple(range(width))


def _columns(rows: Tensor, order: Sequence[int]) -> Tensor:
    """Some columns in an order; as they are, rather than a copy, where these are all in order."""
    in_order = list(order) == list(range(rows.shape[1]))
    return rows if in_order else rows[:, list(order)]


def _check_repeated(data: LabeledData) -> None:
    """Raise where texts are not categories, as hardly any two rows have the same."""
    for name, known in data.categories.items():
        if len(known) > most_categories(len(data)):
            words = [text for text in known if not is_number(text) and not is_date(text)]
            if len(words) < len(known) / 2:
                far_values = f"{some(words)} among them" if words else f"texts such as {known[0]!r}"
                remedy = "leave such values empty" if words else "convert it to numbers"
                raise DataError(
                    f"column {name!r} of {data.name} must hold numbers or dates in every row, got "
                    f"{far_values}",
                    remedy=f"{remedy}, or leave it out with {{ignore}}",
                    ignore=name,
                )
            forms = [form for form, like in _FORMS.items() if all(map(like.fullmatch, known))]
            written = "".join(f"{form}; " for form in forms[:1])
            raise DataError(
                f"column {name!r} of {data.name} must repeat its texts to count as categories (at "
                f"most {most_categories(512)}, each in two rows or more), or be sentences for a "
                f"backbone, got {len(known)} different ones in {many(len(data), 'row')} "
                f"({some(known, 3)})",
                remedy=f"{written}leave it out with {{ignore}}, or train on it alone, as text, "
                "with {features}",
                ignore=name,
                features=name,
            )
