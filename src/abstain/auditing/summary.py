"""The verdict in plain values: summary.json."""

from typing import TYPE_CHECKING, Any

import numpy as np

from abstain.auditing.findings import plain
from abstain.checks.check import Checks

if TYPE_CHECKING:
    from abstain.auditing.result import Audit

FORMAT = 1
# Beyond this many classes a matrix is no longer for people, and summary.json is.
_SHOWN_CLASSES = 100
_SHOWN_PAIRS = 50


def summary_of(audit: "Audit") -> dict[str, Any]:
    """The verdict of an audit in plain values."""
    classes = audit.labels.classes
    counts = np.bincount(audit.given, minlength=len(classes)).tolist()
    flagged = np.bincount(
        audit.given[audit.verdict.is_label_issue], minlength=len(classes)
    ).tolist()
    pairs = zip(
        *(
            x[:_SHOWN_PAIRS].tolist()
            for x in (audit.pairs.given, audit.pairs.predicted, audit.pairs.count)
        ),
        strict=True,
    )
    summary: dict[str, Any] = {
        "format": FORMAT,
        "kind": "audit",
        "name": audit.labels.name,
        "inputs": audit.labels.kind,
        "sources": dict(audit.sources),
        "samples": len(audit.labels),
        "skipped": len(audit.labels.skipped),
        "classes": list(classes),
        **audit.findings.as_json(),
        "caution": audit.caution,
        "budget": audit.budget,
        "expected_wrong": plain(audit.findings.expected_wrong(audit.budget)),
        "budgets": [
            {"budget": size, "expected_wrong": plain(audit.findings.expected_wrong(size))}
            for size in audit.budgets
        ],
        "per_class": [
            {"class": name, "samples": n, "flagged": k, "wrong": plain(rate)}
            for name, n, k, rate in zip(
                classes, counts, flagged, audit.findings.per_class, strict=True
            )
        ],
        "pairs": [{"given": classes[i], "predicted": classes[j], "count": n} for i, j, n in pairs],
        "held_out": audit.held_out and {"accuracy": audit.held_out.accuracy},
        "disagreeing_duplicates": len(audit.duplicates),
        "checks": _found_else(audit.checks),
        "seconds": round(audit.seconds, 3),
    }
    if len(classes) <= _SHOWN_CLASSES:
        summary["transition"] = audit.verdict.transition.round(6).tolist()
    if audit.run:
        summary["method"] = audit.run.plan.method
        summary["backbone"] = audit.run.plan.backbone
        summary["backbone_used"] = audit.run.backbone
        summary["training"] = dict(audit.run.summary)
    if audit.detection and (planted := audit.planted) is not None:
        worst = int(planted[audit.order[: audit.budget]].sum())
        summary["detection"] = {**audit.detection.as_json(), "wrong_among_worst": worst}
    return summary


def _found_else(checks: Checks | None) -> dict[str, Any] | None:
    """The number of samples with each other issue, and the checks that were skipped."""
    if checks is None:
        return None
    columns = [{"column": x.column, "skill": round(x.skill, 4)} for x in checks.giveaways]
    return {**checks.summary, "giveaways": columns, "skipped": dict(checks.skipped)}
