"""A data set with its labels repaired by the verdict: which samples stay, and under which class.

It keeps what the source had, so that it can be trained on like the source: the columns of a table,
the images of a folder (as a table of paths and labels), the arrays of an `.npz`.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from abstain.auditing.folder import AuditFolder
from abstain.data import LabeledData
from abstain.data.readers.arrow_files import read_rows
from abstain.data.readers.columns import label_column
from abstain.data.reading import ReadOptions
from abstain.errors import AbstainError
from abstain.support.optional import require

if TYPE_CHECKING:
    import pyarrow as pa

WEIGHT = "weight"


@dataclass(frozen=True, kw_only=True)
class Repaired:
    """Which samples stay, in the order of the source, and under which class."""

    keep: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]
    """The class of every sample, kept or not."""
    weights: npt.NDArray[np.float64] | None
    relabelled: int
    unsure: int


def repair(
    audit: AuditFolder,
    data: LabeledData,
    fix: str,
    min_confidence: float,
    unsure: str,
) -> Repaired:
    """What `export_cleaned` does to the labels, by the verdict."""
    row = {id_: k for k, id_ in enumerate(data.ids)}
    number = {name: k for k, name in enumerate(data.classes)}
    issues = audit.issues.to_pydict()
    place = np.array([row[id_] for id_ in issues["id"]], dtype=np.int64)
    # From the verdict, not from the source: planted errors are to be repaired too.
    labels = np.empty(len(data), dtype=np.int64)
    labels[place] = [number[name] for name in issues["given_label"]]
    flagged = np.zeros(len(data), dtype=bool)
    flagged[place] = issues["is_label_issue"]
    chosen = np.zeros(len(data), dtype=bool)
    if fix == "relabel":
        proposed, confidence = labels.copy(), np.zeros(len(data))
        proposed[place] = [number[name] for name in issues["predicted_label"]]
        confidence[place] = issues["confidence"]
        chosen = flagged & (confidence >= min_confidence) & (proposed != labels)
        labels = np.where(chosen, proposed, labels)
    weights = None
    if fix == "weight":
        weights = np.empty(len(data))
        known = audit.weights.to_pydict()
        weights[[row[id_] for id_ in known["id"]]] = known[WEIGHT]
    # What somebody checked is certain, whatever becomes of the rest.
    answers = audit.answers()
    for id_, name in answers.labels.items():
        chosen[row[id_]] = number[name] != labels[row[id_]] or chosen[row[id_]]
        labels[row[id_]] = number[name]
        flagged[row[id_]] = False
        if weights is not None:
            weights[row[id_]] = 1.0
    left = flagged & ~chosen
    drops = fix == "drop" or (fix == "relabel" and unsure == "drop")
    stays = ~left if drops else np.ones(len(data), dtype=bool)
    stays[[row[id_] for id_ in answers.of_kind("drop")]] = False
    return Repaired(
        keep=np.flatnonzero(stays),
        labels=labels,
        weights=weights,
        relabelled=int(chosen.sum()),
        unsure=int(left.sum()) if fix == "relabel" else 0,
    )


def own_rows(
    files: Sequence[Path], label: str | None, data: LabeledData, repaired: Repaired, place: Path
) -> "pa.Table":
    """The rows of the table that was audited, with repaired labels, each in the type that it had.

    Args:
        files: The files of the table.
        label: The label column that was asked for.
        data: What was audited of it.
        repaired: Its labels.
        place: The folder that the table will lie in.
    """
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
    labels = pa.array([value[k] for k in repaired.labels.tolist()], column.type)
    table = table.set_column(table.column_names.index(label), table.schema.field(label), labels)
    if data.kind == "image":
        table = _moved(table, data.columns[0], files[0].parent, place)
    if repaired.weights is not None:
        table = with_weights(table, repaired.weights)
    return table.take(repaired.keep)


def plain_rows(
    folder: Path | None,
    data: LabeledData,
    labels: npt.NDArray[np.int64],
    keep: npt.NDArray[np.int64],
    place: Path,
) -> "pa.Table":
    """A table of what has no table of its own: paths of images, texts, or numbers.

    Args:
        folder: Of images, if they lie in one.
        data: What was audited.
        labels: The class of every sample.
        keep: Which samples to write, in this order.
        place: The folder that the table will lie in.
    """
    pa = require("pyarrow", "a table")
    names = np.array(data.classes, dtype=object)
    chosen = keep.tolist()
    ids = [data.ids[k] for k in chosen]
    columns: dict[str, Any] = {"id": pa.array(ids, pa.string())}
    if folder is not None and data.kind == "image":
        columns["image"] = [_relative(folder / name, place) for name in ids]
    elif data.kind == "text":
        columns["text"] = [str(data.inputs[k]) for k in chosen]
    else:
        rows = [data.row(k).values() for k in chosen]
        heads = (*data.columns, *data.texts) or [f"x{k}" for k in range(len(rows[0]))]
        columns |= dict(zip(heads, map(list, zip(*rows, strict=True)), strict=True))
    columns["label"] = pa.array(names[labels[keep]], pa.string())
    return pa.table(columns)


def plain_arrays(data: LabeledData, repaired: Repaired, target: Path) -> dict[str, Any]:
    """The arrays of an `.npz` that is to be the target."""
    if not isinstance(data.inputs, Tensor) or data.texts:
        raise AbstainError(
            f"must end in .csv or .parquet for what are no arrays in memory, got {target}",
            argument="out",
            remedy="or run: abstain train SOURCE --weights AUDIT/weights.parquet",
        )
    keep = repaired.keep
    arrays: dict[str, Any] = {
        "x": data.inputs.numpy()[keep],
        "y": repaired.labels[keep],
        "classes": np.array(data.classes),
        "ids": np.array(list(data.ids))[keep],
    }
    if repaired.weights is not None:
        arrays[WEIGHT] = repaired.weights[keep]
    return arrays


def with_weights(table: "pa.Table", weights: npt.NDArray[np.float64]) -> "pa.Table":
    """A table with the weight of each row."""
    if WEIGHT in table.column_names:
        raise AbstainError(
            f"the source must have no column {WEIGHT!r} of its own to get one, got one",
            remedy="run instead: abstain train SOURCE --weights AUDIT/weights.parquet",
        )
    return table.append_column(WEIGHT, [weights])


def _moved(table: "pa.Table", column: str, old: Path, new: Path) -> "pa.Table":
    """Paths of images as seen from where the table will lie; embedded images stay."""
    pa = require("pyarrow", "a table")
    values = table.column(column)
    if not pa.types.is_string(values.type) and not pa.types.is_large_string(values.type):
        return table
    paths = [None if path is None else _relative(old / path, new) for path in values.to_pylist()]
    return table.set_column(table.column_names.index(column), column, pa.array(paths, values.type))


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path.absolute(), folder.absolute())).as_posix()
