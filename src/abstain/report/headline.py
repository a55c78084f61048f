"""The estimate, and what it means for somebody who will look at labels."""

import re

from abstain.auditing.result import Audit
from abstain.report.charts import interval_scale
from abstain.report.layout import number
from abstain.report.markup import Child, Markup, cut, element, foreign
from abstain.report.numbers import count, expectation, percent, rough, rough_interval
from abstain.support.wording import many

_TOPS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)


def headline(audit: Audit) -> Markup:
    """How many labels are wrong, how sure that is, and how far a reviewer's hour will go."""
    rate = audit.noise_rate
    top = next((edge for edge in _TOPS if rate.high <= 0.95 * edge), 1.0)
    expected = audit.verdict.expected_wrong(audit.budget)
    worst, _, ends = expectation(expected).partition(" ")
    return element(
        "header",
        element(
            "p", "Label audit of ", element("b", foreign(cut(audit.data.name, 60))), class_="kicker"
        ),
        element(
            "h1",
            None if audit.is_known else "About ",
            element("em", rough(rate)),
            " of the labels are wrong.",
        ),
        element(
            "figure",
            interval_scale(
                rate, top, f"{rough(rate)}, between {rough_interval(rate)}, {audit.basis}"
            ),
            element(
                "figcaption",
                element("span", "0%"),
                element(
                    "span",
                    f"{audit.confidence:.0%} interval ",
                    element("b", rough_interval(rate)),
                    f", {audit.basis}",
                ),
                element("span", percent(top, 0)),
            ),
            class_="estimate",
        ),
        _caution(audit.caution) if audit.caution else None,
        element(
            "dl",
            _figure(
                count(len(audit.data)),
                f"labels in {many(audit.data.num_classes, 'class', 'classes')}",
            ),
            _figure(
                count(audit.flagged),
                f"labels flagged{': look at these first' if audit.flagged else ''}",
            ),
            _figure(worst, f"of the {count(audit.budget)} worst are expected to be wrong {ends}"),
            _left(audit),
            class_="figures",
        ),
        _planted(audit),
        class_="top",
    )


def _left(audit: Audit) -> Markup | None:
    """What is still to be found, once somebody has begun to look."""
    reviewed = len(audit.kept.answers)
    if not reviewed:
        return None
    left, _, ends = expectation(audit.left_wrong).partition(" ")
    return _figure(
        left, f"wrong labels are left among those not reviewed {ends}; reviewed: {count(reviewed)}"
    )


def _caution(text: str) -> Markup:
    """Options are kept whole: a narrow page would break them after their hyphens."""
    what, command, rest = re.split(r"(abstain (?:sample|audit) .*)?$", text, maxsplit=1)
    command, rest = command or "", rest or ""
    parts = re.split(r"(--[a-z-]+)", what)
    shown: list[Child] = [
        element("span", part, class_="option") if part.startswith("--") else part for part in parts
    ]
    shown.append(element("code", foreign(command + rest)))
    return element("p", shown, class_="caution")


def _planted(audit: Audit) -> Markup | None:
    """What was right of it all, which is known where errors were planted."""
    found, planted = audit.detection, audit.planted
    if found is None or planted is None or audit.is_known:
        return None
    expected = audit.verdict.expected_wrong(audit.budget).value
    worst = int(planted[audit.order[: audit.budget]].sum())
    rows = [
        ("noise rate", rough(audit.noise_rate), percent(float(planted.mean()))),
        (f"wrong among the {count(audit.budget)} worst", count(expected), count(worst)),
    ]
    heads = [element("th", name, scope="col") for name in ("estimated", "in truth")]
    return element(
        "aside",
        element(
            "p",
            element("b", f"{many(int(planted.sum()), 'error')} planted on purpose. "),
            "The audit was not told which. Errors already in the data count as correct here. "
            f"Of the {many(audit.flagged, 'flagged label')} "
            f"{percent(found.precision)} are among them, and these are {percent(found.recall)} of "
            f"{'the errors not reviewed' if audit.reviewed else 'all errors'}. A wrong label ranks "
            f"before a right one in {percent(found.auroc)} of all pairs; average "
            f"precision {found.average_precision:.3f}.",
        ),
        element(
            "table",
            element("thead", element("tr", element("td"), heads)),
            element(
                "tbody",
                [
                    element("tr", element("th", name, scope="row"), number(said), number(truth))
                    for name, said, truth in rows
                ],
            ),
        ),
        class_="planted",
    )


def _figure(figure: str, what: str) -> Markup:
    return element("div", element("dd", figure), element("dt", what))
