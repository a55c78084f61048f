"""Rows of an Arrow table as numbers, texts or encoded images, in memory or read when asked for.

In numbers a date is its days since 1970, and a category its place among all of them.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from abstain.data.free_text import is_free_text, most_categories
from abstain.data.inputs import LazyRows
from abstain.errors import DataError
from abstain.support.wording import did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

_MICROSECONDS = 24 * 3600 * 1e6  # of a day
_BLOCK = 1 << 12
_PRECISIONS = [*itertools.product(("us", "ns"), (None, "UTC"))]
"""In which Arrow reads moments that are written as texts: microseconds hold the year 9999."""


class ArrowRows:
    """A table that is either held or opened from an Arrow file when first needed.

    Pickled to a worker process, a table on disk travels as its path and is mapped again there.
    """

    def __init__(self, table: "pa.Table | None" = None, path: Path | None = None) -> None:
        self._table = table
        self.path = path

    @property
    def table(self) -> "pa.Table":
        """The table, memory-mapped when it lies on disk."""
        if self._table is None:
            import pyarrow as pa

            if self.path is None or not self.path.exists():
                raise DataError(f"the decoded table {self.path} is gone; load the source again")
            self._table = pa.ipc.open_file(pa.memory_map(str(self.path))).read_all()
        return self._table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def value(self, column: str, row: int) -> object:
        """One value as a Python object."""
        return self.table.column(column)[row].as_py()

    def __getstate__(self) -> dict[str, object]:
        return {"_table": None if self.path else self._table, "path": self.path}


class Rows:
    """Some rows of a table: `keep` says which, in which order; None stands for all."""

    def __init__(self, rows: ArrowRows, keep: Sequence[int] | None = None) -> None:
        self.rows = rows
        self.keep = None if keep is None else np.asarray(keep, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.rows) if self.keep is None else len(self.keep)

    def row(self, index: int) -> int:
        """The row of the table that a sample stands in."""
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index %= len(self)
        return index if self.keep is None else int(self.keep[index])


class LazyTexts(Rows):
    """Texts of one column, read when asked for; empty where there is none."""

    def __init__(self, rows: ArrowRows, column: str) -> None:
        super().__init__(rows)
        self.column = column

    def __getitem__(self, index: int, /) -> str:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int], /) -> list[str]:
        """Many texts at once."""
        column = self.rows.table.column(self.column)
        values = [column[self.row(i)].as_py() for i in indices]  # `take` copies all of the column
        return ["" if value is None else str(value) for value in values]


class LazyTable(Rows, LazyRows):
    """float32 features of several columns, read when asked for."""

    def __init__(
        self,
        rows: ArrowRows,
        columns: Sequence[str],
        categories: Mapping[str, Sequence[str]],
    ) -> None:
        super().__init__(rows)
        self.columns = tuple(columns)
        self.categories = categories

    def as_tensor(self, indices: Sequence[int]) -> Tensor:
        """Many rows as one tensor."""
        part = self.rows.table.select(self.columns).take([self.row(i) for i in indices])
        return torch.from_numpy(as_numbers(part, self.columns, self.categories))


class ImageBlobs(Rows):
    """Encoded images of one column: bytes, paths, or the Hugging Face struct of both."""

    def __init__(
        self, rows: ArrowRows, column: str, folder: Path, keep: Sequence[int] | None = None
    ) -> None:
        super().__init__(rows, keep)
        self.column = column
        self.folder = folder

    def __getitem__(self, index: int, /) -> bytes:
        value = self.rows.value(self.column, self.row(index))
        if isinstance(value, dict):
            value = value.get("bytes") or value.get("path")
        if isinstance(value, bytes):
            return value
        if not value:
            raise OSError("no image in this row")
        return (self.folder / str(value)).read_bytes()

    def subset(self, keep: Sequence[int]) -> "ImageBlobs":
        """The same images, fewer of them."""
        return ImageBlobs(self.rows, self.column, self.folder, [self.row(i) for i in keep])


def is_text(type_: "pa.DataType") -> bool:
    """Whether a column of this type holds texts, also where each is written only once."""
    import pyarrow.types as types

    if types.is_dictionary(type_):
        type_ = type_.value_type
    return bool(types.is_string(type_) or types.is_large_string(type_))


def holds_dates(column: "pa.ChunkedArray") -> bool:
    """Whether a column holds days or moments: by its type, or as texts that are all ISO 8601.

    Arrow finds such texts by itself in a CSV, and in all other tables they are to be the same. The
    first texts nearly always decide; no more than a few are looked at at once.

    >>> import pyarrow as pa
    >>> holds_dates(pa.chunked_array([["2024-02-29", None, "2024-03-01T12:30"]]))
    True
    >>> holds_dates(pa.chunked_array([["2024-02-29", "yesterday"]]))
    False
    """
    if not is_text(column.type):
        return _is_date(column.type)
    fitting, has_any = _PRECISIONS, False
    for start in range(0, len(column), _BLOCK):
        texts = _texts(column.slice(start, _BLOCK))
        fitting = [one for one in fitting if _moments(texts, [one]) is not None]
        if not fitting:
            return False
        has_any = has_any or texts.null_count < len(texts)
    return has_any


def holds_free_text(column: "pa.ChunkedArray") -> bool:
    """Whether a column holds texts, but no categories; the first few hundred nearly always decide.

    >>> import pyarrow as pa
    >>> holds_free_text(pa.chunked_array([["it does not start", None, "the screen is black"]]))
    True
    """
    if not is_text(column.type) or holds_dates(column):
        return False
    different: dict[str, None] = {}
    filled = 0
    for start in range(0, len(column), _BLOCK):
        texts = _texts(column.slice(start, _BLOCK)).drop_null()
        filled += len(texts)
        different.update(dict.fromkeys(texts.unique().to_pylist()))
        if len(different) > most_categories(len(column)):
            break
    return is_free_text(different, filled)


def categories_of(
    table: "pa.Table", columns: Sequence[str], known: Mapping[str, Sequence[str]] | None = None
) -> dict[str, tuple[str, ...]]:
    """The categories of each column that holds texts, sorted; those known already where given.

    >>> import pyarrow as pa
    >>> table = pa.table({"size": [1.5, 2.0, 3.0], "city": ["Rome", "", " Oslo"]})
    >>> categories_of(table, ["size", "city"])
    {'city': ('Oslo', 'Rome')}
    """
    known = known or {}
    by_column = {}
    for name in columns:
        if name in known:
            by_column[name] = tuple(known[name])
        elif is_text(table.schema.field(name).type) and not holds_dates(table.column(name)):
            values = _texts(table.column(name)).drop_null().unique().to_pylist()
            by_column[name] = tuple(sorted(values))
    return by_column


def unknown_categories(
    table: "pa.Table", columns: Sequence[str], known: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Each column with texts that are none of its known categories, and what these are.

    >>> import pyarrow as pa
    >>> table = pa.table({"plan": ["gold", "GOLD", "", "GOLD"]})
    >>> list(unknown_categories(table, ["plan"], {"plan": ("basic", "gold")}))
    ['plan (GOLD in row 1 and 1 more; did you mean gold?)']
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    for name in columns:
        if name in known:
            texts = _texts(table.column(name))
            names = pa.array(known[name], pa.string())
            strange = pc.and_(pc.is_valid(texts), pc.invert(pc.is_in(texts, value_set=names)))
            rows = pc.indices_nonzero(strange)
            if len(rows):
                first = texts[rows[0].as_py()].as_py()
                more = f" and {len(rows) - 1:,} more" if len(rows) > 1 else ""
                yield f"{name} ({first} in row {rows[0]}{more}{did_you_mean(first, known[name])})"


def as_numbers(
    table: "pa.Table", columns: Sequence[str], categories: Mapping[str, Sequence[str]]
) -> NDArray[np.float32]:
    """float32 (rows, columns); NaN where a value is missing, or is a category that is not known.

    >>> import pyarrow as pa
    >>> table = pa.table({"size": [1.5, None, 3.0], "city": ["Rome", "", " Oslo"]})
    >>> as_numbers(table, ["size", "city"], {"city": ("Oslo", "Rome")}).tolist()
    [[1.5, 1.0], [nan, nan], [3.0, 0.0]]
    """
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is named as such
        arrays = [
            _numbers(table.column(name), categories.get(name)).astype(np.float32)
            for name in columns
        ]
    return np.stack(arrays, axis=1) if arrays else np.empty((len(table), 0), dtype=np.float32)


def _numbers(column: "pa.ChunkedArray", categories: Sequence[str] | None) -> NDArray[np.float64]:
    import pyarrow as pa
    import pyarrow.compute as pc

    scale = 1.0
    if categories is not None:
        known = pa.array(categories, pa.string())
        column = pc.index_in(_texts(column), value_set=known)
    elif is_text(column.type):
        column = _moments(_texts(column), _PRECISIONS)
    if _is_date(column.type):
        moments = column.cast(pa.timestamp("us"), safe=False)  # nanoseconds are cut off
        column, scale = moments.cast(pa.int64()), _MICROSECONDS
    # Not safe: of whole numbers beyond 2⁵³ (keys, the year 9999) the last digits do not matter.
    numbers: NDArray[np.float64] = column.cast(pa.float64(), safe=False).to_numpy() / scale
    return numbers


def _is_date(type_: "pa.DataType") -> bool:
    import pyarrow.types as types

    return bool(types.is_date(type_) or types.is_timestamp(type_))


def _moments(
    texts: "pa.ChunkedArray", precisions: Sequence[tuple[str, str | None]]
) -> "pa.ChunkedArray | None":
    """Texts as moments, in the first precision that holds them all; None where none does."""
    import pyarrow as pa

    for unit, zone in precisions:
        with suppress(pa.ArrowInvalid):
            return texts.cast(pa.timestamp(unit, zone))
    return None


def _texts(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """Cast to texts without the spaces around, which nobody sees."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pc.utf8_trim_whitespace(column.cast(pa.string()))
    return pc.if_else(pc.equal(texts, ""), None, texts)
