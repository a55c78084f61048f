"""Labels to check at random: a table for whoever checks them, without what the audit thinks."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from abstain.arguments import typed
from abstain.auditing.reviewed import ANSWER, ID, LARGEST_SAMPLE, kept_answers, sample_of
from abstain.auditing.saved import SavedAudit
from abstain.data.require import require
from abstain.errors import AbstainError
from abstain.report.export import Exported, check_own_files, folder_of, write_table
from abstain.report.repair import plain_rows

if TYPE_CHECKING:
    import pyarrow as pa


@typed()
def export_sample(audit: SavedAudit, path: str | os.PathLike[str], size: int) -> Exported:
    """Write labels to check, drawn at random, as CSV or Parquet.

    The first are drawn once for an audit: a larger size goes on where a smaller one ended. Answers
    go into the column `checked_label`; those that are known already stand there.

    Args:
        audit: The audit.
        path: What to write: .csv or .parquet.
        size: How many labels.
    """
    pa = require("pyarrow", "a table of labels to check")
    target, ids = Path(path), audit.weights.column(ID).combine_chunks()
    most = min(LARGEST_SAMPLE, len(ids))
    if not 1 <= size <= most:
        rule = f"[1, {most}]" + (" (all labels)" if most == len(ids) else "")
        raise AbstainError(f"size must lie in {rule}, got {size}")
    check_own_files(audit, target)
    # Before the data are read: they may be gone, and ids are enough to check labels elsewhere.
    sample = sample_of(audit.folder, ids, 1 - np.asarray(audit.weights.column("weight")))
    drawn = [ids[row].as_py() for row in sample.rows[:size].tolist()]
    given = dict(
        zip(*(audit.issues.column(x).to_pylist() for x in (ID, "given_label")), strict=True)
    )
    answers = kept_answers(audit.folder)
    columns: dict[str, Any] = {ID: pa.array(drawn, pa.string())}
    columns |= _inputs(audit, drawn, target.parent)
    columns["given_label"] = pa.array([given[x] for x in drawn], pa.string())
    columns[ANSWER] = pa.array([answers.get(x, "") for x in drawn], pa.string())
    write_table(pa.table(columns), target)
    return Exported(path=target, rows=size)


def _inputs(audit: SavedAudit, drawn: list[str], place: Path) -> dict[str, "pa.ChunkedArray"]:
    """What a person has to see to check a label; nothing of data in memory, or of bare images."""
    sources = audit.summary["sources"]
    if sources["train"] is None:
        return {}
    data, folder = audit.load(), folder_of(sources)
    if data.kind == "image" and folder is None:
        return {}
    row = {id_: k for k, id_ in enumerate(data.ids)}
    rows = np.array([row[id_] for id_ in drawn], dtype=np.int64)
    table = plain_rows(folder, data, np.asarray(data.given), rows, place)
    own = (ID, "label", "given_label", ANSWER)
    return {name: table.column(name) for name in table.column_names if name not in own}
