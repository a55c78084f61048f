"""Corrected labels out of the log: as files with the log beside, and as downloads of the page."""

import os
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from abstain.arguments import typed
from abstain.auditing.folder import AuditFolder
from abstain.errors import AbstainError
from abstain.exporting.cleaned import default_suffix, export_cleaned
from abstain.exporting.files import Exported, Form, write_table
from abstain.exporting.reviewed import Decided, export_reviewed
from abstain.review.decisions import Decisions, whose
from abstain.review.sharing import share
from abstain.review.store import FILE, Store
from abstain.review.unchanged import check_for_export
from abstain.support.optional import require

if TYPE_CHECKING:
    import pyarrow as pa

    from abstain.review.session import Session


What: TypeAlias = Literal["corrected", "cleaned", "log"]
FOLDER = "exports"
"""In the audit's folder: downloads are written there, too."""


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
    if not (audit.folder / FILE).exists() and not audit.answers().by_id:
        raise AbstainError(
            f"{audit.folder} must have been reviewed, got no decisions; review it with: "
            f"abstain review {quote(str(audit.folder))}"
        )
    check_for_export(audit)
    with Store(audit.folder / FILE) as store:
        share(store, audit.folder)  # answers of files alone become entries of a new log
        log = store.decisions
    done = export_reviewed(audit, target, _all_decided(log), copies=copies)
    beside = target.with_name(f"{target.stem}-log.csv")
    write_table(log_table(log, audit), beside, for_people=True)
    return done


def _all_decided(log: Decisions) -> dict[str, Decided]:
    return {id_: _decided(log, id_) for id_ in log.ids}


def _decided(log: Decisions, id_: str) -> Decided:
    held = log.standing(id_)
    note = log.note(id_)
    return Decided(None, None, note) if held is None else Decided(held.after, held.who, note)


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
    given = audit.verdict_inputs.given
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
    folder = Form.of(audit.summary["sources"]).folder
    if audit.summary["inputs"] == "image" and folder is not None:
        columns["picture"] = pa.array([str(folder / x.id) for x in entries], text)
    columns["sample"] = pa.array([None if k is None else f"{address}#row={k}" for k in rows], text)
    return pa.table(columns)


def write_download(session: "Session", what: str, address: str) -> Path:
    """Write what is asked for, as it is now.

    Args:
        session: The review.
        what: The corrected labels, a set to train on, or the log.
        address: Of the page, for links back to a sample.
    """
    if what not in get_args(What):
        raise AbstainError(f"must be one of {', '.join(get_args(What))}, got {what!r}")
    audit = session.audit
    place = audit.folder / FOLDER
    if place.is_symlink():
        raise AbstainError(
            f"{place} must be a folder of its own, got a link to {place.resolve()}",
            remedy="remove the link",
        )
    try:
        place.mkdir(exist_ok=True)
    except OSError as error:
        raise AbstainError(f"{place} must be a folder to write to, got: {error}") from error
    name = Path(str(audit.summary["name"])).stem or "audit"
    if what == "log":
        target = place / f"{name}-log.csv"
        write_table(log_table(session.store.decisions, audit, address), target, for_people=True)
        return target
    session.check_unchanged()
    # With whole paths of images: a browser puts the file into another folder.
    if what == "corrected":
        target = place / f"{name}-corrected.csv"
        decided = _all_decided(session.store.decisions)
        export_reviewed(audit, target, decided, copies=False, whole_paths=True)
    else:
        source, inputs = str(audit.summary["sources"]["train"]), audit.summary["inputs"]
        target = place / f"{name}-cleaned{default_suffix(source, inputs)}"
        session.share()
        export_cleaned(audit, target, "reviewed", whole_paths=True)
    return target


def offered(audit: AuditFolder) -> list[str]:
    """List the downloads of an audit: of data in memory there is no source to correct."""
    in_memory = audit.summary["sources"]["train"] is None
    return [what for what in get_args(What) if not (in_memory and what == "cleaned")]
