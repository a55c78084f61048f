"""The evidence of a verdict, kept in `evidence.parquet`: enough for new answers.

Columns, in the order of the source: the given label, the evidence on it, the group of identical
samples with other labels (−1 for none), whether the label was held out, and the label before errors
were planted, if any were.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from abstain.errors import AbstainError
from abstain.scores.evidence import Evidence
from abstain.scores.held_out import HeldOut
from abstain.scores.summaries import Duplicates
from abstain.support.optional import require

if TYPE_CHECKING:
    import pyarrow as pa

    from abstain.auditing.result import Audit

EVIDENCE = "evidence.parquet"
_COLUMNS = ("log_odds", "rival", "rival_share", "abstention")


@dataclass(frozen=True, kw_only=True)
class VerdictInputs:
    """The evidence of a verdict, without the samples."""

    evidence: Evidence
    given: npt.NDArray[np.int64]
    duplicates: Duplicates
    true: npt.NDArray[np.int64] | None = None
    """The labels before errors were planted; None where none were."""
    held_out: HeldOut | None = None
    skipped: tuple[str, ...] = ()

    @classmethod
    def read(cls, folder: Path) -> "VerdictInputs":
        """Read it from the folder of an audit, or raise an error if there is none."""
        parquet = require("pyarrow.parquet", "reading an audit")
        path = folder / EVIDENCE
        try:
            table = parquet.read_table(path)
            about = {k.decode(): json.loads(v) for k, v in table.schema.metadata.items()}
            columns = {name: np.array(table.column(name)) for name in table.column_names}
            rows = np.flatnonzero(columns["held_out"])
            return cls(
                evidence=Evidence(
                    memorised=about["memorised"], **{x: columns[x] for x in _COLUMNS}
                ),
                given=columns["given"],
                duplicates=_members(columns["duplicates"]),
                true=columns.get("true"),
                held_out=HeldOut(**about["held_out"], rows=rows) if len(rows) else None,
                skipped=tuple(about["skipped"]),
            )
        except FileNotFoundError:
            raise _earlier(folder, f"{folder} must hold {EVIDENCE}") from None
        except KeyError as error:
            raise _earlier(folder, f"{path} must hold {error}") from error
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise AbstainError(f"{path} must be as abstain wrote it: {error}") from error


def evidence_table(audit: "Audit") -> "pa.Table":
    """The table to keep of an audit."""
    pa = require("pyarrow", "keeping evidence")
    evidence, found, held_out = audit.verdict.evidence, audit.duplicates, audit.held_out
    group, was_held_out = np.full(len(audit.given), -1, np.int32), np.zeros(len(audit.given), bool)
    group[found.members] = found.group
    columns = {"given": audit.given, **{name: getattr(evidence, name) for name in _COLUMNS}}
    about: dict[str, Any] = {"memorised": evidence.memorised, "skipped": audit.labels.skipped}
    if held_out is not None:
        was_held_out[held_out.rows] = True
        about["held_out"] = {"epoch": held_out.epoch, "accuracy": held_out.accuracy}
    columns |= {"duplicates": group, "held_out": was_held_out}
    if audit.planted is not None and audit.labels.true is not None:
        columns["true"] = audit.labels.true.numpy()
    table = pa.table(columns)
    return table.replace_schema_metadata({name: json.dumps(x) for name, x in about.items()})


def _members(group: npt.NDArray[np.int32]) -> Duplicates:
    """The groups of identical samples, from the group of each sample, −1 for none."""
    members = np.argsort(group, kind="stable")
    members = members[group[members] >= 0]
    return Duplicates(members=members, group=group[members].astype(np.int64))


def _earlier(folder: Path, rule: str) -> AbstainError:
    return AbstainError(
        f"{rule}, got an audit of an earlier version; add it with: "
        f"abstain audit --resume {quote(str(folder))}"
    )
