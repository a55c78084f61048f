"""Before and after a review: what became of the labels, and of a model that is trained on them.

The figures come from two audits: that of the labels as given, with the decisions on them, and that
of the labels as they were corrected. `before-after.html` shows them to others.
"""

import os
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from abstain import __version__
from abstain.arguments import typed
from abstain.auditing.answers import Answer
from abstain.auditing.findings import Findings
from abstain.auditing.folder import AuditFolder
from abstain.data import LabeledData
from abstain.errors import AbstainError
from abstain.exporting.corrected import Corrected, corrected
from abstain.report.markup import environment
from abstain.report.numbers import rough, rough_interval
from abstain.report.page import policy_of, style_sheet
from abstain.review.decisions import Agreement
from abstain.review.standing import Standing
from abstain.review.store import FILE, Store
from abstain.scores.interval import Interval
from abstain.scores.verdict import CONFIDENCE
from abstain.showing.as_html import Samples, Shown
from abstain.support.files import publish_text
from abstain.support.wording import some
from abstain.training.saving.run_folder import RunFolder

PAGE = "before-after.html"
_SHOWN = {"image": 24, "text": 8, "table": 6}


@dataclass(frozen=True, kw_only=True)
class Line:
    """A figure before and after; a count, a share, or a share with its interval."""

    what: str
    before: Interval | float | int | None
    after: Interval | float | int | None
    note: str = ""

    @property
    def is_count(self) -> bool:
        """Whether it counts labels."""
        return isinstance(self.before, int) and isinstance(self.after, int)


@dataclass(frozen=True, kw_only=True)
class Example:
    """A label that was corrected."""

    id: str
    shown: Shown | None
    given: str
    corrected: str


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Labels as given and as corrected."""

    name: str
    kind: str
    lines: list[Line]
    decided: dict[str, int]
    """Number of labels that were changed, kept, dropped, left unsure."""
    people: list[str]
    agreements: list[Agreement]
    disputes: int
    examples: list[Example]
    caution: str
    """Caution about the comparison; empty if there is none."""


def lines_of(standing: Standing, after: AuditFolder | None) -> list[Line]:
    """The figures, as far as they are known.

    Both sides of a line know the same decisions. "Before" is the noise rate of the labels as given,
    "after" that of what is left once the decisions are put in: it cannot rise by what was learnt.

    Args:
        standing: The audit before, and the decisions on it.
        after: The audit of the labels as they were corrected, if there is one.
    """
    findings, found = standing.findings, corrected(standing.audit, standing.store.decisions.answers)
    keep = found.keep
    of_kind = f"{findings.confidence:.0%} intervals"
    lines = [
        Line(what="labels", before=len(keep), after=int(keep.sum())),
        Line(
            what="noise rate, by the decisions",
            before=findings.rate,
            after=findings.rate_left,
            note=f"{findings.basis}, {of_kind}",
        ),
    ]
    if after is not None and (again := _found_again(after, found)) is not None:
        own = Interval(**{x: after.summary["noise_rate"][x] for x in ("value", "low", "high")})
        lines.append(
            Line(
                what="noise rate, estimated by both audits, given the decisions",
                before=findings.verdict.rate,
                after=again.verdict.rate,
                note=f"{CONFIDENCE:.0%} intervals; the summary of the second audit, which does "
                f"not know them, says {rough(own)} ({rough_interval(own)})",
            )
        )
    true = _true_labels(standing)
    if true is not None:
        lines.append(
            Line(
                what="labels that are right, by the truth",
                before=float((found.given == true).mean()),
                after=float((found.labels[keep] == true[keep]).mean()),
                note="errors were planted on purpose",
            )
        )
    if after is not None:
        both = [audit.summary for audit in (standing.audit, after)]
        lines += _of_models("held-out labels that the model predicts", "held_out", both)
        lines += _of_models("accuracy on the test labels", "training", both, "test_accuracy")
    return lines


def _found_again(after: AuditFolder, found: Corrected) -> Findings | None:
    """The findings of the audit of corrected labels, told which of these a reviewer gave.

    None where it is an audit of other labels.
    """
    inputs, classes = after.verdict_inputs, after.classes
    kept = np.flatnonzero(found.keep)
    names = [np.array(x) for x in (found.classes, classes)]
    if not np.array_equal(names[0][found.labels[kept]], names[1][inputs.given]):
        return None
    answers = {
        row: Answer("label", str(names[1][inputs.given[row]]))
        for row, before in enumerate(kept.tolist())
        if before in found.answers and found.answers[before].label is not None
    }
    return Findings.of(inputs.evidence, inputs.given, classes, answers)


def _of_models(
    what: str, part: str, both: list[Any], name: str = "accuracy", note: str = ""
) -> list[Line]:
    before, after = ((summary.get(part) or {}).get(name) for summary in both)
    known = before is not None or after is not None
    return [Line(what=what, before=before, after=after, note=note)] if known else []


@typed()
def compare(
    before: str | os.PathLike[str],
    after: str | os.PathLike[str],
    *,
    data: LabeledData | None = None,
) -> Comparison:
    """Labels as given beside labels as they were corrected.

    Args:
        before: Folder of an audit that was reviewed.
        after: Folder of the audit of what `abstain export --to cleaned --fix reviewed` wrote.
        data: What was audited before, where that lay in memory.
    """
    first, second = AuditFolder.open(before), AuditFolder.open(after)
    log = first.folder / FILE
    # Answers that came by a file need no log; none is left behind for them.
    store = Store(log if log.exists() else Path(":memory:"))
    with closing(Standing(first, store)) as standing:
        decisions = standing.store.decisions
        found = corrected(first, decisions.answers)
        if not found.answers:
            raise AbstainError(
                f"must have been reviewed, got {before}, of which nothing was decided",
                argument="before",
            )
        return Comparison(
            name=str(first.summary["name"]),
            kind=str(first.summary["inputs"]),
            lines=lines_of(standing, second),
            decided=_counts(standing.findings),
            people=decisions.people,
            agreements=decisions.agreements(),
            disputes=len(decisions.disputes()),
            examples=_examples(standing, found, data),
            caution=_caution(first, second, int(found.keep.sum())),
        )


def _caution(before: AuditFolder, after: AuditFolder, expected: int) -> str:
    """Say what makes the comparison doubtful: other labels, another training."""
    got, words = int(after.summary["samples"]), []
    if got != expected:
        words.append(
            f"{after.folder} has {got:,} labels, and these decisions leave {expected:,}: it may be "
            "an audit of other labels, or decisions came in since."
        )
    one, other = (_recipe(audit.folder) for audit in (before, after))
    if changed := [name for name in one.keys() & other.keys() if one[name] != other[name]]:
        words.append(
            f"The models were trained in different ways ({some(sorted(changed), 3)}), so that not "
            "all of their difference comes from the labels."
        )
    return " ".join(words)


def _recipe(folder: Path) -> dict[str, Any]:
    try:
        recipe = RunFolder(folder).metadata()["plan"]
    except AbstainError:  # of probabilities, without a training
        return {}
    return {name: value for name, value in recipe.items() if not name.startswith(("flip", "seed"))}


def _counts(findings: Findings) -> dict[str, int]:
    return {
        "changed": findings.found_wrong,
        "kept": findings.reviewed - findings.found_wrong,
        "dropped": findings.dropped,
        "unsure": findings.unsure,
    }


def _examples(standing: Standing, found: Corrected, data: LabeledData | None) -> list[Example]:
    """Some labels that were changed, those first that were believed least."""
    try:
        shown = (data or standing.audit.load(shown_only=True)).as_shown
    except AbstainError:  # the figures are worth more than pictures of samples that are gone
        return []
    changed = found.labels != found.given
    rows = [row for row in standing.queue.order.tolist() if changed[row]]
    place, samples = {id_: k for k, id_ in enumerate(shown.ids)}, Samples(shown)
    return [
        Example(
            id=found.ids[row],
            shown=samples.show(place[found.ids[row]], int(found.labels[row])),
            given=found.classes[found.given[row]],
            corrected=found.classes[found.labels[row]],
        )
        for row in rows[: _SHOWN[shown.kind]]
    ]


def _true_labels(standing: Standing) -> npt.NDArray[np.int64] | None:
    """The labels before errors were planted; None where none were."""
    return standing.audit.verdict_inputs.true


@typed()
def write_before_after(comparison: Comparison, path: str | os.PathLike[str]) -> None:
    """Write the comparison as a single HTML file, whole or not at all."""
    style = style_sheet()
    text = (
        environment()
        .get_template("before_after.html")
        .render(
            found=comparison,
            version=__version__,
            today=date.today().isoformat(),
            style=Markup(style),
            policy=policy_of(style),
        )
    )
    try:
        publish_text(Path(path), text)
    except OSError as error:
        raise AbstainError(
            f"must be a file that can be written, got {path}: {error}", argument="out"
        ) from error
