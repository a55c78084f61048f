"""The rows of a corrected data set, in the form of its source, so that they are read like it.

The columns of a table, the images of a folder (as a table of paths and labels), or arrays.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from abstain.data import LabeledData
from abstain.data.readers.arrow_files import read_rows
from abstain.data.readers.columns import label_column
from abstain.data.reading import ReadOptions
from abstain.errors import AbstainError
from abstain.exporting.corrected import WEIGHT, Corrected
from abstain.exporting.files import Form
from abstain.support.optional import require

if TYPE_CHECKING:
    import pyarrow as pa


def table_of(
    sources: Mapping[str, Any], data: LabeledData, labels: Corrected, place: Path | None
) -> "pa.Table | None":
    """The samples that stay, as a table in the form of their source; None of images in memory.

    Args:
        sources: Where the data came from.
        data: What was audited, in the order of its labels.
        labels: Its labels.
        place: The folder that the table will lie in; None for paths that hold in any.
    """
    folder, files = Form.of(sources)
    if files:
        return _own_rows(files, sources["options"].get("label"), data, labels, place)
    if data.kind == "image" and folder is None:
        return None
    table = plain_rows(folder, data, labels.labels, labels.rows, place)
    return table if labels.weights is None else _with_weights(table, labels.weights[labels.rows])


def _own_rows(
    files: Sequence[Path],
    label: str | None,
    data: LabeledData,
    labels: Corrected,
    place: Path | None,
) -> "pa.Table":
    """The rows of the table that was audited, with corrected labels in the type that they had."""
    pa = require("pyarrow", "a table")
    table = read_rows(files, ReadOptions(label=label)).table
    ids = [str(k) for k in range(table.num_rows)]
    if "id" in table.column_names:
        ids = [str(value) for value in table.column("id").to_pylist()]
    # Rows whose images could not be read were no part of the audit, and are none of the result.
    known = set(data.ids)
    table = table.take([k for k, id_ in enumerate(ids) if id_ in known])
    label = label_column(table, label, files[0])
    column = table.column(label)
    first = {int(k): row for row, k in reversed(list(enumerate(data.given.tolist())))}
    # A class that no row has can only be named by its number, as sources with names number them.
    value = [column[first[k]].as_py() if k in first else k for k in range(data.num_classes)]
    after = pa.array([value[k] for k in labels.labels.tolist()], column.type)
    table = table.set_column(table.column_names.index(label), table.schema.field(label), after)
    if data.kind == "image":
        table = _moved(table, data.columns[0], files[0].parent, place)
    if labels.weights is not None:
        table = _with_weights(table, labels.weights)
    return table.take(labels.rows)


def plain_rows(
    folder: Path | None,
    data: LabeledData,
    labels: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    place: Path | None,
) -> "pa.Table":
    """A table of what has no table of its own: paths of images, texts, or numbers.

    Args:
        folder: Of images, if they lie in one.
        data: What was audited.
        labels: The class of every sample.
        rows: Which samples to write, in this order.
        place: The folder that the table will lie in; None for paths that hold in any.
    """
    pa = require("pyarrow", "a table")
    names = np.array(data.classes, dtype=object)
    chosen = rows.tolist()
    ids = [data.ids[k] for k in chosen]
    columns: dict[str, Any] = {"id": pa.array(ids, pa.string())}
    if folder is not None and data.kind == "image":
        columns["image"] = [_relative(folder / name, place) for name in ids]
    elif data.kind == "text":
        columns["text"] = [str(data.inputs[k]) for k in chosen]
    else:
        values = [data.row(k).values() for k in chosen]
        heads = (*data.columns, *data.texts) or [f"x{k}" for k in range(len(values[0]))]
        columns |= dict(zip(heads, map(list, zip(*values, strict=True)), strict=True))
    columns["label"] = pa.array(names[labels[rows]], pa.string())
    return pa.table(columns)


def plain_arrays(data: LabeledData, labels: Corrected, target: Path) -> dict[str, Any]:
    """The arrays of an `.npz` that is to be the target."""
    if not isinstance(data.inputs, Tensor) or data.texts:
        raise AbstainError(
            f"must end in .csv or .parquet for what are no arrays in memory, got {target}",
            argument="out",
            remedy="or run: abstain train SOURCE --weights AUDIT/weights.parquet",
        )
    rows = labels.rows
    arrays: dict[str, Any] = {
        "x": data.inputs.numpy()[rows],
        "y": labels.labels[rows],
        "classes": np.array(data.classes),
        "ids": np.array(list(data.ids))[rows],
    }
    if labels.weights is not None:
        arrays[WEIGHT] = labels.weights[rows]
    return arrays


def _with_weights(table: "pa.Table", weights: npt.NDArray[np.float64]) -> "pa.Table":
    """A table with the weight of each row."""
    if WEIGHT in table.column_names:
        raise AbstainError(
            f"the source must have no column {WEIGHT!r} of its own to get one, got one",
            remedy="run instead: abstain train SOURCE --weights AUDIT/weights.parquet",
        )
    return table.append_column(WEIGHT, [weights])


def _moved(table: "pa.Table", column: str, old: Path, new: Path | None) -> "pa.Table":
    """Paths of images as seen from where the table will lie; embedded images stay."""
    pa = require("pyarrow", "a table")
    values = table.column(column)
    if not pa.types.is_string(values.type) and not pa.types.is_large_string(values.type):
        return table
    paths = [None if path is None else _relative(old / path, new) for path in values.to_pylist()]
    return table.set_column(table.column_names.index(column), column, pa.array(paths, values.type))


def _relative(path: Path, folder: Path | None) -> str:
    """A path as seen from a folder, or whole."""
    if folder is None:
        return path.absolute().as_posix()
    return Path(os.path.relpath(path.absolute(), folder.absolute())).as_posix()
