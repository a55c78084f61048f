"""Columns of a table as numbers: dates are days, a category is its place among all of them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

_MICROSECONDS = 24 * 3600 * 1e6  # of a day


def is_text(type_: "pa.DataType") -> bool:
    """Whether a column of this type holds texts, also where each is written only once."""
    import pyarrow.types as types

    if types.is_dictionary(type_):
        type_ = type_.value_type
    return bool(types.is_string(type_) or types.is_large_string(type_))


def is_date(type_: "pa.DataType") -> bool:
    """Whether a column of this type holds days or moments."""
    import pyarrow.types as types

    return bool(types.is_date(type_) or types.is_timestamp(type_))


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
    found = {}
    for name in columns:
        if name in known:
            found[name] = tuple(known[name])
        elif is_text(table.schema.field(name).type):
            values = _texts(table.column(name)).unique().to_pylist()
            found[name] = tuple(sorted(value for value in values if value))
    return found


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
    elif is_date(column.type):
        column, scale = column.cast(pa.timestamp("us")).cast(pa.int64()), _MICROSECONDS
    numbers: NDArray[np.float64] = column.cast(pa.float64()).to_numpy() / scale
    return numbers


def _texts(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """Without the spaces around, which nobody sees; also of what looks like numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.utf8_trim_whitespace(column.cast(pa.string()))
