"""The verdict as a file for other programs: all labels, or the data set with its labels repaired.

A repaired data set keeps what the source had, so that it can be trained on like the source: the
columns of a table, the images of a folder (as a CSV of paths and labels), the arrays of an `.npz`.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from torch import Tensor

from abstain.arguments import typed
from abstain.audit import SavedAudit
from abstain.data import BUILTIN, LabeledData
from abstain.data.arrow_files import read_rows
from abstain.data.cache import publish
from abstain.data.columns import label_column
from abstain.data.given_features import SUFFIX, is_feature_file, with_features
from abstain.data.layout import TABLE_SUFFIXES, canonical, split_folders, table_files
from abstain.data.options import Options
from abstain.data.require import require
from abstain.errors import AbstainError

if TYPE_CHECKING:
    import pyarrow as pa

Fix = Literal["drop", "relabel", "weight"]
Unsure = Literal["keep", "drop"]
WEIGHT = "weight"
SURE_ENOUGH = 0.5
"""What is proposed takes the place of a flagged label where it is more probably right than not."""


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What was written, and what had been done to it."""

    path: Path
    rows: int
    dropped: int = 0
    relabelled: int = 0
    unsure: int = 0
    """Flagged labels that were to be replaced, and were not: nothing surer was proposed."""
    reading: Mapping[str, Any] = field(default_factory=dict)
    """What has to be said to train on it, as options of `abstain.train`."""


@typed()
def export_issues(
    audit: SavedAudit, path: str | os.PathLike[str], *, flagged: bool = False
) -> Exported:
    """The table of issues as CSV or Parquet, by the ending of the name."""
    _check_own_files(audit, Path(path))
    table = audit.issues
    if flagged:
        table = table.filter(table.column("is_label_issue"))
    _write_table(table, Path(path))
    return Exported(path=Path(path), rows=table.num_rows)


@typed()
def export_cleaned(
    audit: SavedAudit,
    path: str | os.PathLike[str],
    fix: Fix = "relabel",
    *,
    min_confidence: float = SURE_ENOUGH,
    unsure: Unsure = "keep",
) -> Exported:
    """The data set that was audited, as a source to train on, with its labels repaired.

    Args:
        audit: The audit.
        path: What to write: .csv or .parquet; .npz where images lie in memory.
        fix: What becomes of a flagged label: its sample is dropped; the proposed label takes its
            place where the confidence is high enough; or it stays, with the probability of being
            right as the `weight` of every sample, for `abstain train --weights weight`. Of features
            that were given in a file, those of the kept samples are written beside.
        min_confidence: From which on a label is replaced; unless told, where what is proposed is
            more probably right than not.
        unsure: What becomes of a flagged sample whose label is not replaced, for want of
            confidence: it stays as it is, or is dropped.
    """
    for name, value, known in (("fix", fix, Fix), ("unsure", unsure, Unsure)):
        if value not in get_args(known):
            raise AbstainError(f"{name} must be one of {', '.join(get_args(known))}, got {value!r}")
    if not 0 <= min_confidence <= 1:
        raise AbstainError(f"min_confidence must lie in [0, 1], got {min_confidence}")
    target = Path(path)
    _check_own_files(audit, target)
    data = audit.load()
    repaired = _repair(audit, data, fix, min_confidence, unsure)
    rows, folder = _own_rows(audit, data), _folder_of(_sources(audit))
    said = reading_of_cleaned(_sources(audit), target)
    if len(repaired.keep) < len(data) and is_feature_file(said.get("features")):
        _check_beside(target, said["features"])
    if rows is not None:
        _write_table(_repaired_rows(rows, data, repaired, target), target)
    elif target.suffix.lower() == ".npz" and folder is None:
        _write_arrays(data, repaired, target)
    elif data.kind == "image" and folder is None:
        raise AbstainError(f"out must end in .npz for images that are no files, got {target}")
    else:
        _write_table(_plain_rows(folder, data, repaired, target), target)
    if is_feature_file(said.get("features")):
        said["features"] = _features_of_kept(data, repaired, target, said["features"])
    return Exported(
        path=target,
        rows=len(repaired.keep),
        dropped=len(data) - len(repaired.keep),
        relabelled=repaired.relabelled,
        unsure=repaired.unsure,
        reading=said,
    )


def reading_of_cleaned(
    sources: Mapping[str, Any], target: str | os.PathLike[str]
) -> dict[str, Any]:
    """What has to be said to train on a cleaned set, as options of `abstain.train`.

    >>> said = {"label": "stars", "image_size": 64, "skip_bad": True}
    >>> reading_of_cleaned({"train": "reviews.csv", "options": said}, "clean.csv")
    {'label': 'stars', 'image_size': 64}
    >>> reading_of_cleaned({"train": "mnist", "options": {"features": "clip.npy"}}, "clean.npz")
    {'features': 'clip.npy'}
    """
    kept = {"features"} if is_feature_file(sources["options"].get("features")) else set()
    if _table_files(sources):
        kept = {"label", "features", "ignore", "image_size"}
    elif Path(target).suffix.lower() != ".npz":
        kept.add("image_size")
    return {name: value for name, value in sources["options"].items() if name in kept}


def command(name: str, source: str | os.PathLike[str], options: Mapping[str, Any]) -> str:
    """A command to be copied, with the options that its source is to be read with.

    >>> command("train", "clean.csv", {"label": "my stars", "ignore": ["a", "b"]})
    "abstain train clean.csv --label 'my stars' --ignore a --ignore b"
    """
    words = ["abstain", name, os.fspath(source)]
    for option, value in options.items():
        for one in value if isinstance(value, list | tuple) else [value]:
            words += [f"--{option.replace('_', '-')}", str(one)]
    return shlex.join(words)


def default_suffix(source: str, inputs: str) -> str:
    """The ending under which a cleaned data set is best written.

    >>> default_suffix("mnist", "image"), default_suffix("photos/", "image")
    ('.npz', '.csv')
    >>> default_suffix("reviews.parquet", "text")
    '.parquet'
    """
    suffix = Path(source).suffix.lower()
    if suffix in (".npz", ".parquet"):
        return suffix
    no_files = source in BUILTIN or source.startswith("hf:")
    return ".npz" if no_files and inputs == "image" else ".csv"


@dataclass(frozen=True, kw_only=True)
class _Repaired:
    """Which samples stay, in the order of the source, and under which class."""

    keep: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]
    """The class of every sample, kept or not."""
    weights: npt.NDArray[np.float64] | None
    relabelled: int
    unsure: int


def _repair(
    audit: SavedAudit, data: LabeledData, fix: str, min_confidence: float, unsure: Unsure
) -> _Repaired:
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
    left = flagged & ~chosen
    drops = fix == "drop" or (fix == "relabel" and unsure == "drop")
    return _Repaired(
        keep=np.flatnonzero(~left) if drops else np.arange(len(data)),
        labels=labels,
        weights=weights,
        relabelled=int(chosen.sum()),
        unsure=int(left.sum()) if fix == "relabel" else 0,
    )


def _check_own_files(audit: SavedAudit, target: Path) -> None:
    """Neither the data that were audited nor the verdict on them are ever written over."""
    sources = _sources(audit)
    own = [Path(str(sources["train"])), *_table_files(sources), *audit.folder.iterdir()]
    if target.exists() and any(path.exists() and target.samefile(path) for path in own):
        raise AbstainError(f"out must be no file of the source or of the audit, got {target}")


def _check_beside(target: Path, features: str | os.PathLike[str]) -> None:
    """What nobody named is not written over, unless it was written with the target before."""
    beside = target.with_suffix(SUFFIX)
    if beside.exists() and (not target.exists() or beside.samefile(features)):
        raise AbstainError(
            f"out must leave {beside} as it is, where the features of the kept samples would be "
            f"written, got {target}; name another file"
        )


def _features_of_kept(
    data: LabeledData, repaired: _Repaired, target: Path, features: str | os.PathLike[str]
) -> str:
    """The file of features that fits the rows that were written: the old one, or one beside."""
    if len(repaired.keep) == len(data):
        return str(features)
    beside = target.with_suffix(SUFFIX)
    kept = np.asarray(with_features(data, features).inputs)[repaired.keep]
    _publish(beside, lambda path: np.save(path, kept))
    return str(beside)


def _sources(audit: SavedAudit) -> Mapping[str, Any]:
    sources: Mapping[str, Any] = audit.summary["sources"]
    return sources


def _folder_of(sources: Mapping[str, Any]) -> Path | None:
    """The image folder that was audited, if it was one."""
    path = Path(str(sources["train"])).expanduser()
    is_table = path.is_dir() and bool(table_files(path)) and not split_folders(path)
    return path if path.is_dir() and not is_table else None


def _table_files(sources: Mapping[str, Any]) -> list[Path]:
    """The files of the table that was audited; none for other sources."""
    source = str(sources["train"])
    path = Path(source).expanduser()
    if source in BUILTIN or source.startswith("hf:") or _folder_of(sources) is not None:
        return []
    if path.suffix.lower() in TABLE_SUFFIXES:
        return [path]
    if path.is_dir():
        return list(table_files(path)[canonical(sources["options"].get("split", "train"))])
    return []


def _own_rows(audit: SavedAudit, data: LabeledData) -> "tuple[pa.Table, str, Path] | None":
    """The table that was audited, its label column and its folder; None for other sources."""
    sources = _sources(audit)
    files = _table_files(sources)
    if not files:
        return None
    label = sources["options"].get("label")
    table = read_rows(files, Options(label=label)).table
    ids = [str(k) for k in range(table.num_rows)]
    if "id" in table.column_names:
        ids = [str(value) for value in table.column("id").to_pylist()]
    # Rows whose images could not be read were no part of the audit, and are none of the result.
    known = set(data.ids)
    table = table.take([k for k, id_ in enumerate(ids) if id_ in known])
    return table, label_column(table, label, Path(sources["train"])), files[0].parent


def _repaired_rows(
    rows: "tuple[pa.Table, str, Path]", data: LabeledData, repaired: _Repaired, target: Path
) -> "pa.Table":
    """The rows of the source with repaired labels, each in the type that it had."""
    pa = require("pyarrow", "a table")
    table, label, folder = rows
    column = table.column(label)
    first = {int(k): row for row, k in reversed(list(enumerate(data.given.tolist())))}
    # A class that no row has can only be named by its number, as sources with names number them.
    value = [column[first[k]].as_py() if k in first else k for k in range(data.num_classes)]
    labels = pa.array([value[k] for k in repaired.labels.tolist()], column.type)
    table = table.set_column(table.column_names.index(label), table.schema.field(label), labels)
    if data.kind == "image":
        table = _moved(table, data.columns[0], folder, target.parent)
    if repaired.weights is not None:
        table = _with_weights(table, repaired.weights)
    return table.take(repaired.keep)


def _plain_rows(
    folder: Path | None, data: LabeledData, repaired: _Repaired, target: Path
) -> "pa.Table":
    """A table of what has no table of its own: paths of images, texts, or numbers."""
    pa = require("pyarrow", "a table")
    names = np.array(data.classes, dtype=object)
    columns: dict[str, Any] = {"id": pa.array(list(data.ids), pa.string())}
    if folder is not None and data.kind == "image":
        columns["image"] = [_relative(folder / name, target.parent) for name in data.ids]
    elif data.kind == "text":
        columns["text"] = [str(data.inputs[k]) for k in range(len(data))]
    else:
        rows = [data.named(np.asarray(data.inputs[k]).tolist()) for k in range(len(data))]
        heads = data.columns or [f"x{k}" for k in range(len(rows[0]))]
        columns |= dict(zip(heads, map(list, zip(*rows, strict=True)), strict=True))
    columns["label"] = pa.array(names[repaired.labels], pa.string())
    table = pa.table(columns)
    if repaired.weights is not None:
        table = _with_weights(table, repaired.weights)
    return table.take(repaired.keep)


def _with_weights(table: "pa.Table", weights: npt.NDArray[np.float64]) -> "pa.Table":
    if WEIGHT in table.column_names:
        raise AbstainError(
            f"the source must have no column {WEIGHT!r} of its own to get one, got one; train "
            "with --weights AUDIT/weights.parquet instead"
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


def _write_arrays(data: LabeledData, repaired: _Repaired, target: Path) -> None:
    if not isinstance(data.inputs, Tensor):
        raise AbstainError(
            f"out must end in .csv or .parquet for what are no arrays in memory, got {target}; or "
            "train with --weights AUDIT/weights.parquet"
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
    _publish(target, lambda path: _save_arrays(path, arrays))


def _save_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    with path.open("wb") as stream:
        np.savez_compressed(stream, **arrays)


def _write_table(table: "pa.Table", target: Path) -> None:
    pa = require("pyarrow", "writing a table")
    csv = require("pyarrow.csv", "writing a table")
    parquet = require("pyarrow.parquet", "writing a table")
    suffix = target.suffix.lower()
    if suffix == ".parquet":
        _publish(target, lambda path: parquet.write_table(table, path))
    elif suffix == ".csv":
        nested: Sequence[str] = [
            field.name
            for field in table.schema
            if pa.types.is_nested(field.type) or pa.types.is_binary(field.type)
        ]
        if nested:
            raise AbstainError(f"out must end in .parquet, as CSV cannot hold {nested[0]!r}")
        _publish(target, lambda path: csv.write_csv(table, path))
    else:
        raise AbstainError(f"out must end in .csv or .parquet, got {target}")


def _publish(target: Path, write: Any) -> None:  # noqa: ANN401
    if not target.absolute().parent.is_dir():
        raise AbstainError(f"out must lie in a folder that exists, got {target}")
    try:
        publish(target, write)
    except OSError as error:
        raise AbstainError(f"out must be a file that can be written, got {target}: {error}") from (
            error
        )
