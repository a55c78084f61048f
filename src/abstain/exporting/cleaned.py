"""An audit as a file for other programs: all labels, or the data set with corrected labels.

What becomes of the labels and the rows is in `abstain.exporting.corrected`; here are the files.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from abstain.arguments import typed
from abstain.auditing.answers import ANSWER, NO_CLASS, Answers
from abstain.auditing.folder import OWN_FILES, AuditFolder
from abstain.data import BUILTIN, LabeledData
from abstain.data.features import SUFFIX, is_feature_file
from abstain.data.readers.splits import TABLE_SUFFIXES, canonical, split_folders, table_files
from abstain.errors import AbstainError
from abstain.exporting.corrected import (
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
"""Least confidence with which a flagged label is replaced: more probably right than not."""


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What was written, and what had been done to it."""

    path: Path
    rows: int
    dropped: int = 0
    relabelled: int = 0
    unsure: int = 0
    """Flagged labels that were not replaced: the confidence in what is proposed was too low."""
    reading: Mapping[str, Any] = field(default_factory=dict)
    """How it is to be read for training, as options of `abstain.train`."""


@typed()
def export_issues(
    audit: AuditFolder, out: str | os.PathLike[str], *, flagged: bool = False
) -> Exported:
    """The table of issues as CSV or Parquet, by the ending of the name."""
    target = Path(out)
    check_own_files(audit, target)
    table = with_answers(audit.issues, audit.answers())
    if flagged:
        table = table.filter(table.column("is_label_issue"))
    if target.suffix.lower() == ".csv":
        types = require("pyarrow.types", "the table of issues")
        lists = [x.name for x in table.schema if types.is_nested(x.type)]  # which CSV cannot hold
        table = for_spreadsheets(table.drop_columns(lists))
    write_table(table, target)
    return Exported(path=target, rows=table.num_rows)


def with_answers(issues: "pa.Table", answers: Answers) -> "pa.Table":
    """The table of issues with the answers that came in since it was written."""
    pa = require("pyarrow", "the table of issues")
    ids, flags = (issues.column(name).to_pylist() for name in ("id", "is_label_issue"))
    by_id, labels = answers.by_id, answers.labels
    kinds = {id_: x.kind for id_, x in by_id.items() if x.label is None}
    columns = {
        "is_label_issue": [f and id_ not in by_id for f, id_ in zip(flags, ids, strict=True)],
        ANSWER: pa.array([labels.get(id_) for id_ in ids], pa.string()),
        NO_CLASS: pa.array([kinds.get(id_) for id_ in ids], pa.string()),
    }
    for name, values in columns.items():
        issues = issues.set_column(issues.column_names.index(name), name, [values])
    return issues


@typed()
def export_cleaned(
    audit: AuditFolder,
    out: str | os.PathLike[str],
    fix: Fix = "relabel",
    *,
    min_confidence: float = SURE_ENOUGH,
    unsure: Unsure = "keep",
) -> Exported:
    """The data set that was audited, as a source to train on, with its labels repaired.

    Args:
        audit: The audit.
        out: The file to write: .csv or .parquet; .npz where images lie in memory.
        fix: What becomes of a flagged label: its sample is dropped; the proposed label takes its
            place where the confidence is high enough; or it stays, with the probability of being
            right as the `weight` of every sample, for `abstain train --weights weight`; or only
            labels that somebody reviewed are replaced. Of features that were given in a file, those
            of the kept samples are written beside.
        min_confidence: The least confidence with which a label is replaced; by default, what is
            proposed must be more probably right than not.
        unsure: What becomes of a flagged sample whose label is not replaced, as the confidence is
            too low: it stays as it is, or is dropped. What reviewers dropped leaves in any case.
    """
    for name, value, known in (("fix", fix, Fix), ("unsure", unsure, Unsure)):
        if value not in get_args(known):
            raise AbstainError(
                f"must be one of {', '.join(get_args(known))}, got {value!r}", argument=name
            )
    if not 0 <= min_confidence <= 1:
        raise AbstainError(f"must lie in [0, 1], got {min_confidence}", argument="min_confidence")
    target = Path(out)
    check_own_files(audit, target)
    loaded, sources = audit.load(), _sources(audit)
    data = loaded.as_shown
    repaired = repair(audit, data, fix, min_confidence, unsure)
    files, folder = source_files(sources), folder_of(sources)
    reading = reading_of_cleaned(sources, target)
    if len(repaired.keep) < len(data) and loaded.shown is not None:
        _check_beside(target, reading["features"])
    if files:
        label = sources["options"].get("label")
        write_table(own_rows(files, label, data, repaired, target.parent), target)
    elif target.suffix.lower() == ".npz" and folder is None:
        arrays = plain_arrays(data, repaired, target)
        _publish(target, lambda path: _save_arrays(path, arrays))
    elif data.kind == "image" and folder is None:
        raise AbstainError(
            f"must end in .npz for images that are no files, got {target}",
            argument="out",
            remedy="write them to {out}",
            out=str(target.with_suffix(".npz")),
        )
    else:
        table = plain_rows(folder, data, repaired.labels, repaired.keep, target.parent)
        if repaired.weights is not None:
            table = with_weights(table, repaired.weights[repaired.keep])
        write_table(table, target)
    if loaded.shown is not None:
        reading["features"] = _features_of_kept(loaded, repaired, target, reading["features"])
    return Exported(
        path=target,
        rows=len(repaired.keep),
        dropped=len(data) - len(repaired.keep),
        relabelled=repaired.relabelled,
        unsure=repaired.unsure,
        reading=reading,
    )


def reading_of_cleaned(
    sources: Mapping[str, Any], target: str | os.PathLike[str]
) -> dict[str, Any]:
    """How a cleaned set is to be read for training, as options of `abstain.train`.

    >>> options = {"label": "stars", "image_size": 64, "skip_bad": True}
    >>> reading_of_cleaned({"train": "reviews.csv", "options": options}, "clean.csv")
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


def check_own_files(audit: AuditFolder, target: Path) -> None:
    """Refuse to write over the data that were audited, or over files of the audit."""
    sources = _sources(audit)
    own = [Path(str(sources["train"])), *source_files(sources), *audit.folder.iterdir()]
    is_to_be = target.name in OWN_FILES and target.absolute().parent == audit.folder.absolute()
    if is_to_be or (
        target.exists() and any(path.exists() and target.samefile(path) for path in own)
    ):
        raise AbstainError(
            f"must be no file of the source or of the audit, got {target}", argument="out"
        )


def _check_beside(target: Path, features: str | os.PathLike[str]) -> None:
    """Refuse to write over features that an earlier export to the same target did not write."""
    beside = target.with_suffix(SUFFIX)
    if beside.exists() and (not target.exists() or beside.samefile(features)):
        raise AbstainError(
            f"must leave {beside} as it is, where the features of the kept samples would be "
            f"written, got {target}",
            argument="out",
            remedy="name another file",
        )


def _features_of_kept(
    data: LabeledData, repaired: Repaired, target: Path, features: str | os.PathLike[str]
) -> str:
    """The file of features that fits the rows that were written: the old one, or one beside."""
    if len(repaired.keep) == len(data):
        return str(features)
    beside = target.with_suffix(SUFFIX)
    kept = np.asarray(data.inputs)[repaired.keep]
    _publish(beside, lambda path: np.save(path, kept))
    return str(beside)


def _sources(audit: AuditFolder) -> Mapping[str, Any]:
    sources: Mapping[str, Any] = audit.summary["sources"]
    return sources


def folder_of(sources: Mapping[str, Any]) -> Path | None:
    """The image folder that was audited, if it was one."""
    if sources["train"] in BUILTIN:  # also beside a folder of that name
        return None
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
    """Write a table by the ending of its name, whole or not at all."""
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
            raise AbstainError(
                f"must end in .parquet, as CSV cannot hold {nested[0]!r}", argument="out"
            )
        _publish(target, lambda path: csv.write_csv(table, path))
    else:
        raise AbstainError(f"must end in .csv or .parquet, got {target}", argument="out")


def _publish(target: Path, write: Any) -> None:  # noqa: ANN401
    if not target.absolute().parent.is_dir():
        raise AbstainError(f"must lie in a folder that exists, got {target}", argument="out")
    try:
        publish(target, write)
    except OSError as error:
        raise AbstainError(
            f"must be a file that can be written, got {target}: {error}", argument="out"
        ) from error
