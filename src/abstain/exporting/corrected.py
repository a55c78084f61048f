"""The corrected labels of a data set: which samples stay, and under which class.

Everything that is exported, compared or shown as corrected reads them here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from abstain.auditing.answers import Answer
from abstain.auditing.folder import AuditFolder
from abstain.data import LabeledData
from abstain.exporting.files import Exported

WEIGHT = "weight"


@dataclass(frozen=True, kw_only=True)
class Corrected:
    """The labels of an audit, as given and as corrected, in the order of the source."""

    ids: list[str]
    classes: list[str]
    given: npt.NDArray[np.int64]
    """As audited: with planted errors, if there were any."""
    labels: npt.NDArray[np.int64]
    """The class of every sample, kept or not."""
    keep: npt.NDArray[np.bool_]
    answers: Mapping[int, Answer]
    """Answers by row."""
    weights: npt.NDArray[np.float64] | None = None
    unsure: int = 0
    """Flagged labels that were not replaced, as the confidence was too low."""

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """The samples that stay."""
        return np.flatnonzero(self.keep)

    @property
    def dropped(self) -> list[str]:
        """The ids of the others."""
        return [self.ids[row] for row in np.flatnonzero(~self.keep).tolist()]

    def exported(self, path: Path, reading: Mapping[str, Any], rows: int | None = None) -> Exported:
        """Say what was written: by default the samples that stay."""
        return Exported(
            path=path,
            rows=len(self.rows) if rows is None else rows,
            dropped=len(self.dropped),
            relabelled=int((self.labels != self.given)[self.keep].sum()),
            unsure=self.unsure,
            reading=reading,
        )

    @property
    def as_given(self) -> "Corrected":
        """All samples, with the labels that were audited."""
        return replace(self, labels=self.given, keep=np.ones(len(self.ids), bool))


def corrected(
    audit: AuditFolder,
    answers: Mapping[str, Answer],
    *,
    data: LabeledData | None = None,
    fix: str = "reviewed",
    min_confidence: float = 0.0,
    unsure: str = "keep",
) -> Corrected:
    """Correct the labels of an audit: by answers alone, or by the verdict too.

    Args:
        audit: The audit.
        answers: What reviewers decided, by id; of ids that were audited.
        data: What was audited, if its order is to be that of the result.
        fix: As in `export_cleaned`.
        min_confidence: As in `export_cleaned`.
        unsure: As in `export_cleaned`.
    """
    ids, classes = (audit.ids, audit.classes) if data is None else (data.ids, data.classes)
    row = {id_: k for k, id_ in enumerate(ids)}
    number = {name: k for k, name in enumerate(classes)}
    issues = audit.issues
    order = np.argsort([row[id_] for id_ in issues.column("id").to_pylist()])

    def column(name: str) -> npt.NDArray[np.generic]:
        return np.asarray(issues.column(name))[order]

    # From the verdict, not from the source: planted errors are to be corrected too.
    given = np.array([number[name] for name in column("given_label").tolist()], dtype=np.int64)
    labels, keep = given.copy(), np.ones(len(given), dtype=bool)
    flagged, weights = column("is_label_issue").astype(bool), None
    by_row = {row[id_]: answer for id_, answer in answers.items() if id_ in row}
    # Whatever becomes of the rest: what somebody checked is certain.
    flagged[[k for k, answer in by_row.items() if answer.kind != "skip"]] = False
    left = flagged
    if fix == "relabel":
        proposed = np.array([number[name] for name in column("predicted_label").tolist()])
        is_sure = column("confidence").astype(float) >= min_confidence
        left = flagged & ~(is_sure & (proposed != given))
        labels = np.where(flagged & ~left, proposed, given)
    elif fix == "weight":
        known = audit.weights
        of_id = dict(zip(*(known.column(x).to_pylist() for x in ("id", WEIGHT)), strict=True))
        weights = np.array([of_id[id_] for id_ in ids])
    if fix == "drop" or (fix == "relabel" and unsure == "drop"):
        keep &= ~left
    for k, answer in by_row.items():
        if answer.kind == "drop":
            keep[k] = False
        elif answer.label is not None:
            labels[k] = number[answer.label]
            if weights is not None:
                weights[k] = 1.0
    return Corrected(
        ids=list(ids),
        classes=list(classes),
        given=given,
        labels=labels,
        keep=keep,
        answers=by_row,
        weights=weights,
        unsure=int(left.sum()) if fix == "relabel" else 0,
    )
