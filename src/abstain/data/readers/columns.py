"""Choose the columns of a table for label, ids and features, and tell their kind."""

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from abstain.data.contract import Kind
from abstain.data.readers.images import SUFFIXES
from abstain.data.readers.rows import holds_dates, is_text
from abstain.errors import DataError, MissingColumnError
from abstain.support.wording import did_you_mean, some

if TYPE_CHECKING:
    import pyarrow as pa

_LOOKED_AT = 100
_NAMELESS = re.compile(r"|Unnamed: 0(\.\d+)?")  # in CSV, and as pandas reads that
_PREFERRED: dict[Kind, tuple[str, ...]] = {
    "image": ("image", "img"),
    "text": ("text",),
    "table": (),
}


@dataclass(frozen=True)
class ChosenColumns:
    """The feature columns of one kind."""

    kind: Kind
    columns: tuple[str, ...]


def label_column(table: "pa.Table", label: str | None, where: object) -> str:
    """The label column asked for, or the one called `label`."""
    wanted = label or "label"
    if wanted not in table.column_names:
        raise DataError(
            f"must name a column of {where}, got {wanted!r}{' (the default)' * (not label)}; "
            f"its columns are {some(table.column_names, 20)}"
            f"{did_you_mean(wanted, table.column_names)}",
            argument="label",
        )
    return wanted


def check_ignored(table: "pa.Table", ignore: Sequence[str], where: object) -> None:
    """Raise where a column that is to be ignored is not there: it may be misspelt."""
    _check_names("ignore", ignore, table, where)


def _check_names(argument: str, names: Sequence[str], table: "pa.Table", where: object) -> None:
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise MissingColumnError(
            argument,
            where,
            f"{some(missing)}; its columns are {some(table.column_names, 20)}"
            f"{did_you_mean(missing[0], table.column_names)}",
        )


def class_names(table: "pa.Table", label: str) -> tuple[str, ...]:
    """Class names from the Hugging Face metadata of a table, if it has any."""
    metadata = (table.schema.metadata or {}).get(b"huggingface")
    if not metadata:
        return ()
    feature = json.loads(metadata).get("info", {}).get("features", {}).get(label, {})
    return tuple(feature.get("names") or ()) if isinstance(feature, dict) else ()


def choose_features(
    table: "pa.Table", features: Sequence[str] | None, *, apart: Sequence[str], where: object
) -> ChosenColumns:
    """The feature columns: those asked for, or those that are there, found by looking at them.

    A column of images (bytes or paths) makes an image set, a column of text a text set, columns of
    numbers a table. Where kinds mix, a column called `image` or `text` decides; else texts beside
    numbers, or beside other texts, are columns of a table, and images are the user's choice.
    """
    names = list(features) if features is not None else _found(table, apart)
    _check_names("features", names, table, where)
    if features is not None and apart[0] in names:
        raise DataError(
            f"must not hold the label column, got {apart[0]!r}; leave it out", argument="features"
        )
    kinds: dict[Kind, list[str]] = {}
    for name in names:
        kinds.setdefault(_kind(table, name, where), []).append(name)
    if not kinds:
        raise DataError(f"{where} must have feature columns besides {some(list(apart))}, got none")
    if features is None and (preferred := _preferred(kinds)):
        return preferred
    if "image" not in kinds and len(names) > 1:
        return ChosenColumns("table", tuple(names))
    if len(kinds) > 1:
        mixed = "; ".join(f"{kind}: {some(columns)}" for kind, columns in kinds.items())
        raise DataError(
            f"feature columns of {where} must be of one kind, got {mixed}",
            remedy="choose with {features}",
            features=None,
        )
    kind, columns = next(iter(kinds.items()))
    if len(columns) > 1:
        raise DataError(
            f"{where} must have one {kind} column, got {some(columns)}",
            remedy="choose with {features}",
            features=None,
        )
    return ChosenColumns(kind, tuple(columns))


def choose_to_show(table: "pa.Table", *, apart: Sequence[str], where: object) -> ChosenColumns:
    """Choose what a person would look at: an image, else the one text, else every column."""
    kinds: dict[Kind, list[str]] = {}
    for name in _found(table, apart):
        with suppress(DataError):  # of no kind: it cannot be shown
            kinds.setdefault(_kind(table, name, where), []).append(name)
    if preferred := _preferred(kinds):
        return preferred
    if "image" in kinds:
        return ChosenColumns("image", (kinds["image"][0],))
    if len(kinds.get("text", ())) == 1:
        return ChosenColumns("text", (kinds["text"][0],))
    return ChosenColumns("table", tuple(itertools.chain.from_iterable(kinds.values())))


def _found(table: "pa.Table", apart: Sequence[str]) -> list[str]:
    """The columns that are features by default."""
    return [name for name in table.column_names if name not in apart and not _is_index(table, name)]


def _is_index(table: "pa.Table", name: str) -> bool:
    """Whether pandas wrote a column to number the rows: in sorted data it reveals every label."""
    import pyarrow.types as types

    if name.startswith("__"):  # in Parquet
        return True
    column = table.column(name)
    if not _NAMELESS.fullmatch(name) or not types.is_integer(column.type):
        return False
    return len(column.unique()) == len(column)


def _preferred(kinds: Mapping[Kind, Sequence[str]]) -> ChosenColumns | None:
    """The column whose name is that of its kind, if there is one."""
    for kind, preferred in _PREFERRED.items():
        called = [name for name in kinds.get(kind, ()) if name.lower() in preferred]
        if len(called) == 1:
            return ChosenColumns(kind, (called[0],))
    return None


def _kind(table: "pa.Table", name: str, where: object) -> Kind:
    import pyarrow.types as types

    column = table.column(name)
    type_ = column.type
    if types.is_dictionary(type_):
        type_ = type_.value_type
    if types.is_binary(type_) or types.is_large_binary(type_):
        return "image"
    if types.is_struct(type_) and type_.get_field_index("bytes") >= 0:
        return "image"
    if types.is_integer(type_) or types.is_floating(type_) or types.is_boolean(type_):
        return "table"
    if types.is_decimal(type_) or types.is_null(type_) or holds_dates(column):
        return "table"
    if is_text(type_):
        seen = [value for value in column[:_LOOKED_AT].to_pylist() if value]
        is_path = seen and all(value.lower().endswith(SUFFIXES) for value in seen)
        return "image" if is_path else "text"
    vectors = "give its vectors as an array of features, or " * types.is_nested(type_)
    raise DataError(
        f"column {name!r} of {where} must hold numbers, text or images, got {type_}",
        remedy=f"{vectors}leave it out with {{ignore}}",
        ignore=name,
    )
