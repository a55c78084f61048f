"""The data set that was audited, with corrected labels: a source to train on."""

import io
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from abstain.arguments import typed
from abstain.auditing.folder import AuditFolder
from abstain.data import BUILTIN, LabeledData
from abstain.data.features import SUFFIX, is_feature_file
from abstain.errors import AbstainError
from abstain.exporting.corrected import Corrected, corrected
from abstain.exporting.files import Exported, Form, check_own_files, write_file, write_table
from abstain.exporting.rows import plain_arrays, table_of

Fix = Literal["drop", "relabel", "weight", "reviewed"]
Unsure = Literal["keep", "drop"]
SURE_ENOUGH = 0.5
"""Least confidence with which a flagged label is replaced: more probably right than not."""


@typed()
def export_cleaned(
    audit: AuditFolder,
    out: str | os.PathLike[str],
    fix: Fix = "relabel",
    *,
    min_confidence: float = SURE_ENOUGH,
    unsure: Unsure = "keep",
    whole_paths: bool = False,
) -> Exported:
    """The data set that was audited, as a source to train on, with its labels corrected.

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
        whole_paths: Write paths of images that hold wherever the file is moved, rather than those
            from its folder.
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
    loaded, sources = audit.load(), audit.summary["sources"]
    data = loaded.as_shown
    answers, sure = audit.answers().by_id, min_confidence
    found = corrected(audit, answers, data=data, fix=fix, min_confidence=sure, unsure=unsure)
    reading = reading_of_cleaned(sources, target)
    if found.dropped and loaded.shown is not None:
        _check_beside(target, reading["features"])
    if target.suffix.lower() == ".npz" and Form.of(sources) == Form():
        stream = io.BytesIO()
        np.savez_compressed(stream, **plain_arrays(data, found, target))
        write_file(target, lambda path: path.write_bytes(stream.getbuffer()))
    else:
        table = table_of(sources, data, found, None if whole_paths else target.parent)
        if table is None:
            raise AbstainError(
                f"must end in .npz for images that are no files, got {target}",
                argument="out",
                remedy="write them to {out}",
                out=str(target.with_suffix(".npz")),
            )
        write_table(table, target)
    if loaded.shown is not None:
        reading["features"] = _features_of_kept(loaded, found, target, reading["features"])
    return found.exported(target, reading)


def reading_of_cleaned(
    sources: Mapping[str, Any], target: str | os.PathLike[str]
) -> dict[str, Any]:
    """The options of `abstain.train` with which a cleaned set is read.

    >>> options = {"label": "stars", "image_size": 64, "skip_bad": True}
    >>> reading_of_cleaned({"train": "reviews.csv", "options": options}, "clean.csv")
    {'label': 'stars', 'image_size': 64}
    >>> reading_of_cleaned({"train": "mnist", "options": {"features": "clip.npy"}}, "clean.npz")
    {'features': 'clip.npy'}
    """
    kept = {"features"} if is_feature_file(sources["options"].get("features")) else set()
    if Form.of(sources).files:
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
    data: LabeledData, found: Corrected, target: Path, features: str | os.PathLike[str]
) -> str:
    """The file of features that fits the rows that were written: the old one, or one beside."""
    if not found.dropped:
        return str(features)
    beside, kept = target.with_suffix(SUFFIX), np.asarray(data.inputs)[found.rows]
    write_file(beside, lambda path: np.save(path, kept))
    return str(beside)
