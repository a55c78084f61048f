"""Labels to check at random: a table for whoever checks them, without what the audit thinks."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from abstain.arguments import typed
from abstain.auditing.answers import ANSWER, ID, NO_CLASS, Answers, answers_in
from abstain.auditing.folder import LARGEST_SAMPLE, AuditFolder
from abstain.errors import AbstainError
from abstain.exporting.files import Exported, Form, check_own_files, write_table
from abstain.exporting.issues import answer_columns
from abstain.exporting.rows import plain_rows
from abstain.support.optional import require
from abstain.support.wording import many

if TYPE_CHECKING:
    import pyarrow as pa


@typed()
def export_sample(audit: AuditFolder, out: str | os.PathLike[str], size: int) -> Exported:
    """Write labels to check, drawn at random, as CSV or Parquet.

    The first are drawn once for an audit: a larger size goes on where a smaller one ended. Answers
    go into the column `checked_label`, or, where no class can be given, `unsure` or `drop` into
    `unsure_or_drop`; those that are known already stand there.

    Args:
        audit: The audit.
        out: The file to write: .csv or .parquet.
        size: How many labels.
    """
    pa = require("pyarrow", "a table of labels to check")
    target, ids = Path(out), audit.ids
    most = min(LARGEST_SAMPLE, len(ids))
    if not 1 <= size <= most:
        rule = f"[1, {most}]" + (" (all labels)" if most == len(ids) else "")
        raise AbstainError(f"must lie in {rule}, got {size}", argument="size")
    check_own_files(audit, target)
    answers = audit.answers()
    _check_answers(target, answers)
    wrong = 1 - np.asarray(audit.weights.column("weight"))
    drawn = [ids[row] for row in audit.hand_out(ids, wrong, size).rows.tolist()]
    names = (ID, "given_label")
    given = dict(zip(*(audit.issues.column(x).to_pylist() for x in names), strict=True))
    columns: dict[str, Any] = {ID: pa.array(drawn, pa.string())}
    columns |= _inputs(audit, drawn, target.parent)
    columns["given_label"] = pa.array([given[x] for x in drawn], pa.string())
    columns |= answer_columns(drawn, answers, "")
    write_table(pa.table(columns), target, for_people=True)
    return Exported(path=target, rows=size)


def _check_answers(target: Path, known: Answers) -> None:
    """Answers that nobody has taken in yet are not written over."""
    if not target.exists():
        return
    try:
        lost = answers_in(target).keys() - known.by_id.keys()
    except AbstainError as error:
        raise AbstainError(
            f"must be a new file or a sample to write again, got {target}: {error}", argument="out"
        ) from error
    if lost:
        raise AbstainError(
            f"must not write over answers, got {target} with {many(len(lost), 'answer')} that the "
            "audit does not know",
            argument="out",
            remedy="take them in by abstain audit --resume … --reviewed, or name another file",
        )


def _inputs(audit: AuditFolder, drawn: list[str], place: Path) -> dict[str, "pa.ChunkedArray"]:
    """Show what a person checks a label by; nothing of data in memory, or of bare images."""
    sources = audit.summary["sources"]
    if sources["train"] is None:
        return {}
    data, folder = audit.load(shown_only=True), Form.of(sources).folder
    if data.kind == "image" and folder is None:
        return {}
    row = {id_: k for k, id_ in enumerate(data.ids)}
    rows = np.array([row[id_] for id_ in drawn], dtype=np.int64)
    table = plain_rows(folder, data, np.asarray(data.given), rows, place)
    own = (ID, "label", "given_label", ANSWER, NO_CLASS)
    return {name: table.column(name) for name in table.column_names if name not in own}
