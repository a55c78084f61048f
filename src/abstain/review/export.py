"""Corrected labels, out of the page: a table, an image folder, and the log of all decisions.

A table has all rows, those of the source's own file where it is one, with new columns. Labels that
nobody decided are as given.
"""

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from abstain.arguments import typed
from abstain.auditing.folder import AuditFolder
from abstain.data import LabeledData
from abstain.errors import AbstainError
from abstain.exporting.cleaned import (
    Exported,
    check_own_files,
    folder_of,
    source_files,
    write_table,
)
from abstain.exporting.corrected import Repaired, own_rows, plain_rows
from abstain.review.decisions import Answer, Decisions, whose
from abstain.review.store import FILE, Store
from abstain.support.optional import require
from abstain.support.spreadsheets import for_spreadsheets
from abstain.support.wording import some

if TYPE_CHECKING:
    import pyarrow as pa

CORRECTED = "corrected_label"
_COLUMNS = (CORRECTED, "decision", "decided_by", "note")


@dataclass(frozen=True, kw_only=True)
class Corrected:
    """The labels of an audit as they are after its review, in the order of the source."""

    ids: list[str]
    classes: list[str]
    given: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]
    answers: dict[int, Answer]
    """What was decided, by row."""

    @property
    def keep(self) -> npt.NDArray[np.bool_]:
        """Which samples stay: all but those that are to be dropped."""
        stays = np.ones(len(self.ids), bool)
        stays[[row for row, answer in self.answers.items() if answer.kind == "drop"]] = False
        return stays

    @property
    def dropped(self) -> list[str]:
        """The ids of the others."""
        return [self.ids[row] for row in np.flatnonzero(~self.keep).tolist()]


def corrected(audit: AuditFolder, decisions: Decisions) -> Corrected:
    """What the decisions make of the labels."""
    ids, classes, given = audit.ids, audit.classes, audit.judged.given
    row = {id_: k for k, id_ in enumerate(ids)}
    number = {name: k for k, name in enumerate(classes)}
    labels, answers = given.copy(), {}
    for id_ in decisions.ids:
        answer = decisions.answer(id_)
        if answer is None or id_ not in row:
            continue
        answers[row[id_]] = answer
        if answer.label is not None:
            labels[row[id_]] = number[answer.label]
    return Corrected(ids=ids, classes=classes, given=given, labels=labels, answers=answers)


@typed()
def export_corrected(
    audit: AuditFolder, out: str | os.PathLike[str], *, copies: bool = False
) -> Exported:
    """Write the corrected labels, and beside them the log.

    Args:
        audit: The audit, which must have been reviewed.
        out: What to write: .csv or .parquet for a table of all rows with the new column
            `corrected_label`; without an ending, for an image folder.
        copies: For an image folder: copies rather than links. Links are hard ones, which take no
            room and stay when the source goes; across file systems there are only copies.
    """
    target = Path(out)
    if not (audit.folder / FILE).exists():
        raise AbstainError(
            f"{audit.folder} must have been reviewed, got no decisions; review it with: "
            f"abstain review {quote(str(audit.folder))}"
        )
    with Store(audit.folder / FILE) as store:
        decisions = store.decisions
    found = corrected(audit, decisions)
    check_own_files(audit, target)
    is_table = target.suffix.lower() in (".csv", ".parquet")
    if is_table:
        table = _table(audit, found, decisions, target.parent)
        is_csv = target.suffix.lower() == ".csv"
        write_table(for_spreadsheets(table) if is_csv else table, target)
        rows = len(found.ids)
    elif target.suffix:
        raise AbstainError(
            f"must end in .csv or .parquet, or be a folder for images, got {target}",
            argument="out",
        )
    else:
        rows = _folder(audit, found, target, copies=copies)
    beside = target.with_name(f"{target.stem}-log.csv")
    write_table(for_spreadsheets(log_table(decisions, audit)), beside)
    changed = sum(found.labels[row] != found.given[row] for row in found.answers)
    reading: Mapping[str, Any] = {"label": CORRECTED} if is_table else {}
    dropped = len(found.ids) - int(found.keep.sum())
    return Exported(
        path=target, rows=rows, dropped=dropped, relabelled=int(changed), reading=reading
    )


def log_table(decisions: Decisions, audit: AuditFolder, address: str = "") -> "pa.Table":
    """Every entry of the log, whether it still holds, and a way back to its sample.

    Args:
        decisions: The log.
        audit: What was reviewed.
        address: Of the page, where one is open; without, links begin with what follows it.
    """
    pa = require("pyarrow", "a table")
    text = pa.string()
    entries = decisions.in_order()
    row = {id_: k for k, id_ in enumerate(audit.weights.column("id").to_pylist())}
    given = audit.judged.given
    names = audit.summary["classes"]
    rows = [row.get(x.id) for x in entries]
    columns: dict[str, Any] = {
        "seq": [x.seq for x in entries],
        "at": pa.array([x.at for x in entries], text),
        "who": pa.array([x.who for x in entries], text),
        "how": pa.array([x.mode for x in entries], text),
        "id": pa.array([x.id for x in entries], text),
        "given_label": pa.array([None if k is None else names[given[k]] for k in rows], text),
    }
    for name in ("before", "after"):
        answers = [getattr(x, name) for x in entries]
        columns[name] = pa.array([a and a.kind for a in answers], text)
        columns[f"{name}_label"] = pa.array([a and a.label for a in answers], text)
    columns["note"] = pa.array([x.note for x in entries], text)
    columns["seconds"] = pa.array([x.seconds for x in entries], pa.float64())
    columns["undoes"] = pa.array([x.undoes for x in entries], pa.int64())
    columns["undoes_of"] = pa.array([whose(decisions, x) for x in entries], text)
    columns["holds"] = [decisions.can_undo(x.seq) for x in entries]
    folder = folder_of(audit.summary["sources"])
    if audit.summary["inputs"] == "image" and folder is not None:
        columns["picture"] = pa.array([str(folder / x.id) for x in entries], text)
    columns["sample"] = pa.array([None if k is None else f"{address}#row={k}" for k in rows], text)
    return pa.table(columns)


def _table(audit: AuditFolder, found: Corrected, decisions: Decisions, place: Path) -> "pa.Table":
    """All rows, those of the source where it has some, with what became of their labels."""
    pa = require("pyarrow", "a table")
    table = _rows(audit, found, place)
    if taken := [name for name in _COLUMNS if name in table.column_names]:
        raise AbstainError(f"the source must have no column {taken[0]!r} of its own, got one")
    names = np.array(found.classes, dtype=object)
    keep = found.keep
    words, people, notes = [], [], []
    for row, id_ in enumerate(found.ids):
        answer, standing = found.answers.get(row), decisions.standing(id_)
        same = found.labels[row] == found.given[row]
        is_label = answer is not None and answer.kind == "label"
        words.append(("kept" if same else "changed") if is_label else answer and answer.kind)
        people.append(standing and standing.who)
        notes.append(decisions.note(id_) or None)
    after = pa.array(names[found.labels].tolist(), pa.string(), mask=~keep)
    for name, values in zip(_COLUMNS, (after, words, people, notes), strict=True):
        table = table.append_column(name, [pa.array(values, pa.string())])
    return table


def _rows(audit: AuditFolder, found: Corrected, place: Path) -> "pa.Table":
    pa = require("pyarrow", "a table")
    sources = audit.summary["sources"]
    names = np.array(found.classes, dtype=object)
    bare = pa.table(
        {
            "id": pa.array(found.ids, pa.string()),
            "given_label": pa.array(names[found.given].tolist(), pa.string()),
        }
    )
    if sources["train"] is None:
        return bare
    data, everything = audit.load().as_shown, np.arange(len(found.ids))
    files, folder = source_files(sources), folder_of(sources)
    if list(data.ids) != found.ids:
        raise AbstainError(f"{sources['train']} must be in the order that was audited")
    if files:
        as_given = Repaired(
            keep=everything, labels=found.given, weights=None, relabelled=0, unsure=0
        )
        return own_rows(files, sources["options"].get("label"), data, as_given, place)
    if data.kind == "image" and folder is None:
        return bare
    table = plain_rows(folder, data, found.given, everything, place)
    return table.rename_columns(
        ["given_label" if name == "label" else name for name in table.column_names]
    )


def _folder(audit: AuditFolder, found: Corrected, target: Path, *, copies: bool) -> int:
    """Images under the folder of their corrected class; how many."""
    source = folder_of(audit.summary["sources"])
    if audit.summary["inputs"] != "image" or source is None:
        raise AbstainError(
            f"must end in .csv or .parquet for what is no image folder, got {target}",
            argument="out",
        )
    if target.exists() and any(target.iterdir()):
        raise AbstainError(f"must be a new or empty folder, got {target}", argument="out")
    for label in found.classes:
        if Path(label).name != label or label in ("", ".", ".."):
            raise AbstainError(f"a class must be a name that a folder can have, got {label!r}")
    data: LabeledData = audit.load()
    assert set(data.ids) >= set(found.ids)
    rows = np.flatnonzero(found.keep).tolist()
    root = source.resolve()
    ids = [found.ids[row] for row in rows]
    outside = [x for x in ids if not (source / x).resolve().is_relative_to(root)]
    if outside:  # the page shows none of them either
        raise AbstainError(
            f"links out of {source} are not followed, got {some(outside, 3)}",
            remedy="put the files there, or export a table",
        )
    taken: set[Path] = set()
    for row in rows:
        label, origin = found.classes[found.labels[row]], source / found.ids[row]
        name = Path(found.ids[row]).name
        if found.labels[row] != found.given[row]:  # two classes may have a 1.png each
            name = f"{found.classes[found.given[row]]}-{name}"
        place = target / label / name
        count = 1
        while place in taken:
            count += 1
            place = target / label / f"{Path(name).stem}-{count}{Path(name).suffix}"
        taken.add(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        _put(origin, place, copies=copies)
    return len(rows)


def _put(origin: Path, place: Path, *, copies: bool) -> None:
    if not copies:
        with suppress(OSError):  # of another file system there are only copies
            os.link(origin.resolve(), place)
            return
    shutil.copyfile(origin, place)
