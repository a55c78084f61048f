"""The estimate, and what it means for somebody who will look at labels."""

import re

from abstain.audit import Audit
from abstain.data.wording import many
from abstain.report.charts import interval_scale
from abstain.report.layout import number
from abstain.report.markup import Child, Markup, cut, element, foreign
from abstain.report.numbers import count, expectation, interval, percent

_TOPS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)


def headline(audit: Audit) -> Markup:
    """How many labels are wrong, how sure that is, and how far a reviewer's hour will go."""
    rate = audit.noise_rate
    if rate.low <= 0:
        sentence: list[Child] = ["At most ", element("em", percent(rate.high))]
    else:
        sentence = ["About ", element("em", percent(rate.value))]
    top = next((edge for edge in _TOPS if rate.high <= 0.95 * edge), 1.0)
    expected = audit.estimate.expected_wrong(audit.budget)
    worst, _, ends = expectation(expected).partition(" ")
    return element(
        "header",
        element(
            "p", "Label audit of ", element("b", foreign(cut(audit.data.name, 60))), class_="kicker"
        ),
        element("h1", sentence, " of the labels are wrong."),
        element(
            "figure",
            interval_scale(rate, top, f"Estimate {percent(rate.value)}, between {interval(rate)}"),
            element(
                "figcaption",
                element("span", "0%"),
                element("span", "95% interval ", element("b", interval(rate))),
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
            class_="figures",
        ),
        _planted(audit),
        class_="top",
    )


def _caution(text: str) -> Markup:
    """Options are kept whole: a narrow page would break them after their hyphens."""
    parts = re.split(r"(--[a-z-]+)", text)
    shown = [
        element("span", part, class_="option") if part.startswith("--") else part for part in parts
    ]
    return element("p", shown, class_="caution")


def _planted(audit: Audit) -> Markup | None:
    """What was right of it all, which is known where errors were planted."""
    found, planted = audit.detection, audit.planted
    if found is None or planted is None:
        return None
    expected = audit.estimate.expected_wrong(audit.budget).value
    worst = int(planted[audit.order[: audit.budget]].sum())
    rows = [
        ("share of wrong labels", percent(audit.noise_rate.value), percent(found.rate)),
        (f"wrong among the {count(audit.budget)} worst", count(expected), count(worst)),
    ]
    heads = [element("th", name, scope="col") for name in ("estimated", "in truth")]
    return element(
        "aside",
        element(
            "p",
            element("b", f"{many(found.wrong, 'error')} planted on purpose. "),
            "The audit did not know which, and what was wrong before counts as right here. Of the "
            f"{many(audit.flagged, 'flagged label')} "
            f"{percent(found.precision)} are among them, and these are {percent(found.recall)} of "
            f"all errors. A wrong label ranks before a right one in {percent(found.auroc)} of all "
            f"pairs; average precision {found.average_precision:.3f}.",
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
