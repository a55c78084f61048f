"""The verdict as a file for other programs: all labels, or the data set with its labels repaired.

What becomes of the labels and the rows is in `abstain.report.repair`; here are the files.
"""

import os
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from abstain.arguments import typed
from abstain.auditing.reviewed import OWN_FILES, kept_answers
from abstain.auditing.saved import SavedAudit
from abstain.data import BUILTIN, LabeledData
from abstain.data.given_features import SUFFIX, is_feature_file, with_features
from abstain.data.layout import TABLE_SUFFIXES, canonical, split_folders, table_files
from abstain.errors import AbstainError
from abstain.report.repair import (
    Repaired,
    own_rows,
    plain_arrays,
    plain_rows,
    repair,
    with_weights,
)
from abstain.support.files import publish
from abstain.support.optional import require
from abstain.support.spreadsheets import for_spreadsheets

if TYPE_CHECKING:
    import pyarrow as pa

Fix = Literal["drop", "relabel", "weight", "reviewed"]
Unsure = Literal["keep", "drop"]
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
    check_own_files(audit, Path(path))
    table = with_answers(audit.issues, kept_answers(audit.folder).answers)
    if flagged:
        table = table.filter(table.column("is_label_issue"))
    if Path(path).suffix.lower() == ".csv":
        table = for_spreadsheets(table)
    write_table(table, Path(path))
    return Exported(path=Path(path), rows=table.num_rows)


def with_answers(issues: "pa.Table", answers: Mapping[str, str]) -> "pa.Table":
    """The table of issues with what was reviewed since it was written."""
    pa = require("pyarrow", "the table of issues")
    ids, flags = (issues.column(name).to_pylist() for name in ("id", "is_label_issue"))
    columns = {
        "is_label_issue": [f and id_ not in answers for f, id_ in zip(flags, ids, strict=True)],
        "checked_label": pa.array([answers.get(id_) for id_ in ids], pa.string()),
    }
    for name, values in columns.items():
        issues = issues.set_column(issues.column_names.index(name), name, [values])
    return issues


@typed()
def export_cleaned(
    audit: SavedAudit,
    path: str | os.PathLike[str],
    fix: Fix = "relabel",
    *,
    min_confidence: float = SURE_ENOUGH,
    unsure: Unsure = "keep",
    dropped: Collection[str] = (),
) -> Exported:
    """The data set that was audited, as a source to train on, with its labels repaired.

    Args:
        audit: The audit.
        path: What to write: .csv or .parquet; .npz where images lie in memory.
        fix: What becomes of a flagged label: its sample is dropped; the proposed label takes its
            place where the confidence is high enough; or it stays, with the probability of being
            right as the `weight` of every sample, for `abstain train --weights weight`; or only
            labels that somebody reviewed are replaced. Of features that were given in a file, those
            of the kept samples are written beside.
        min_confidence: From which on a label is replaced; unless told, where what is proposed is
            more probably right than not.
        unsure: What becomes of a flagged sample whose label is not replaced, for want of
            confidence: it stays as it is, or is dropped.
        dropped: Ids of samples that reviewers want out of the data set.
    """
    for name, value, known in (("fix", fix, Fix), ("unsure", unsure, Unsure)):
        if value not in get_args(known):
            raise AbstainError(f"{name} must be one of {', '.join(get_args(known))}, got {value!r}")
    if not 0 <= min_confidence <= 1:
        raise AbstainError(f"min_confidence must lie in [0, 1], got {min_confidence}")
    target = Path(path)
    check_own_files(audit, target)
    data, sources = audit.load(), _sources(audit)
    repaired = repair(audit, data, fix, min_confidence, unsure, dropped)
    files, folder = source_files(sources), folder_of(sources)
    said = reading_of_cleaned(sources, target)
    if len(repaired.keep) < len(data) and is_feature_file(said.get("features")):
        _check_beside(target, said["features"])
    if files:
        label = sources["options"].get("label")
        write_table(own_rows(files, label, data, repaired, target.parent), target)
    elif target.suffix.lower() == ".npz" and folder is None:
        arrays = plain_arrays(data, repaired, target)
        _publish(target, lambda path: _save_arrays(path, arrays))
    elif data.kind == "image" and folder is None:
        raise AbstainError(f"out must end in .npz for images that are no files, got {target}")
    else:
        table = plain_rows(folder, data, repaired.labels, repaired.keep, target.parent)
        if repaired.weights is not None:
            table = with_weights(table, repaired.weights[repaired.keep])
        write_table(table, target)
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
    if source_files(sources):
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


def check_own_files(audit: SavedAudit, target: Path) -> None:
    """Neither the data that were audited nor the verdict on them are ever written over."""
    sources = _sources(audit)
    own = [Path(str(sources["train"])), *source_files(sources), *audit.folder.iterdir()]
    is_to_be = target.name in OWN_FILES and target.absolute().parent == audit.folder.absolute()
    if is_to_be or (
        target.exists() and any(path.exists() and target.samefile(path) for path in own)
    ):
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
    data: LabeledData, repaired: Repaired, target: Path, features: str | os.PathLike[str]
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


def folder_of(sources: Mapping[str, Any]) -> Path | None:
    """The image folder that was audited, if it was one."""
    path = Path(str(sources["train"])).expanduser()
    is_table = path.is_dir() and bool(table_files(path)) and not split_folders(path)
    return path if path.is_dir() and not is_table else None


def source_files(sources: Mapping[str, Any]) -> list[Path]:
    """The files of the table that was audited; none for other sources."""
    source = str(sources["train"])
    path = Path(source).expanduser()
    if source in BUILTIN or source.startswith("hf:") or folder_of(sources) is not None:
        return []
    if path.suffix.lower() in TABLE_SUFFIXES:
        return [path]
    if path.is_dir():
        return list(table_files(path)[canonical(sources["options"].get("split", "train"))])
    return []


def _save_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    with path.open("wb") as stream:
        np.savez_compressed(stream, **arrays)


def write_table(table: "pa.Table", target: Path) -> None:
    """Write a table as its name says, whole or not at all."""
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
