"""The table of issues as a file, with the answers that came in since it was written."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from abstain.arguments import typed
from abstain.auditing.answers import ANSWER, NO_CLASS, Answers
from abstain.auditing.folder import AuditFolder
from abstain.exporting.files import Exported, check_own_files, write_table
from abstain.support.optional import require

if TYPE_CHECKING:
    import pyarrow as pa


@typed()
def export_issues(
    audit: AuditFolder, out: str | os.PathLike[str], *, flagged: bool = False
) -> Exported:
    """Write the table of issues as CSV or Parquet, by the ending of the name."""
    target = Path(out)
    check_own_files(audit, target)
    table = with_answers(audit.issues, audit.answers())
    if flagged:
        table = table.filter(table.column("is_label_issue"))
    if target.suffix.lower() == ".csv":
        types = require("pyarrow.types", "the table of issues")
        lists = [x.name for x in table.schema if types.is_nested(x.type)]  # which CSV cannot hold
        table = table.drop_columns(lists)
    write_table(table, target, for_people=True)
    return Exported(path=target, rows=table.num_rows)


def with_answers(issues: "pa.Table", answers: Answers) -> "pa.Table":
    """The table of issues with the answers that came in since it was written."""
    pa = require("pyarrow", "the table of issues")
    ids, flags = (issues.column(name).to_pylist() for name in ("id", "is_label_issue"))
    open_ = [flag and id_ not in answers.by_id for flag, id_ in zip(flags, ids, strict=True)]
    columns = {"is_label_issue": pa.array(open_), **answer_columns(ids, answers)}
    for name, values in columns.items():
        issues = issues.set_column(issues.column_names.index(name), name, [values])
    return issues


def answer_columns(
    ids: Sequence[str], answers: Answers, nothing: str | None = None
) -> dict[str, "pa.Array"]:
    """The columns of the answers to some labels."""
    pa = require("pyarrow", "the table of issues")
    kinds = {id_: x.kind for id_, x in answers.by_id.items() if x.label is None}
    return {
        name: pa.array([known.get(id_, nothing) for id_ in ids], pa.string())
        for name, known in ((ANSWER, answers.labels), (NO_CLASS, kinds))
    }
