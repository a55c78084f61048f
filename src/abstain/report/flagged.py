"""The labels themselves: the worst first, and those that contradict each other."""

from abstain.auditing.result import Audit
from abstain.report.charts import bar
from abstain.report.layout import class_name, sample_id, section
from abstain.report.markup import Markup, element
from abstain.report.numbers import percent
from abstain.report.samples import Samples
from abstain.support.wording import many

# How many are shown at once, and how many more on request.
_SHOWN = {"image": (24, 48), "text": (12, 24), "table": (8, 24)}
_LEAST_TRUSTED = 12
_GROUPS, _MEMBERS = 8, 6
# Longer names of classes need wider cards.
_SHORT_NAME = 6


def worst_labels(audit: Audit) -> Markup | None:
    """The flagged labels, worst first, as they are and as they should be."""
    if audit.is_known:
        return None
    flagged = audit.verdict.is_label_issue
    worst = [int(i) for i in audit.order[flagged[audit.order]]]
    note = "Worst first. Struck out: the label as given. After the arrow: what is proposed instead."
    if not worst:
        worst = [int(i) for i in audit.order[:_LEAST_TRUSTED]]
        note = "None was flagged. These are the labels that the model believes least."
    at_once, on_request = _SHOWN[audit.data.kind]
    samples = Samples(audit.data)
    proposed = audit.verdict.predicted_label
    cards = [
        _card(audit, index, samples.show(index, int(proposed[index])))
        for index in worst[: at_once + on_request]
    ]
    more, rest = cards[at_once:], len(worst) - len(cards)
    roomy = max(map(len, audit.data.classes)) > _SHORT_NAME
    style = f"cards {audit.data.kind}{' roomy' * roomy}"
    return section(
        "Worst labels",
        note,
        element("ol", cards[:at_once], class_=style),
        element(
            "details",
            element("summary", f"Show {len(more)} more"),
            element("ol", more, class_=style),
        )
        if more
        else None,
        element("p", f"{many(rest, 'more label')} flagged: see issues.csv.", class_="note")
        if rest
        else None,
    )


def duplicates(audit: Audit) -> Markup | None:
    """Samples that are the same and labelled differently: at most one label can be right."""
    found = audit.duplicates
    if not len(found):
        return None
    samples = Samples(audit.data, bytes_left=300_000)
    groups = []
    for number in range(min(_GROUPS, len(found))):
        members = found.members[found.group == number].tolist()
        said = [
            element("li", element("b", class_name(audit, audit.given[i])), sample_id(audit, i))
            for i in members[:_MEMBERS]
        ]
        if len(members) > _MEMBERS:
            said.append(element("li", f"and {len(members) - _MEMBERS} more"))
        groups.append(element("li", samples.show(members[0]), element("ul", said)))
    rest = len(found) - len(groups)
    return section(
        "Same input, other label",
        f"{many(len(found), 'group')} of identical samples whose labels disagree: of each "
        "group, at most one label can be right.",
        element("ol", groups, class_=f"groups {audit.data.kind}"),
        element("p", f"{many(rest, 'more group')}.", class_="note") if rest else None,
    )


def _card(audit: Audit, index: int, shown: Markup | None) -> Markup:
    given, proposed = int(audit.given[index]), int(audit.verdict.predicted_label[index])
    confidence = float(audit.verdict.confidence[index])
    sure = percent(confidence, 0)
    if given == proposed:
        turn = [element("span", class_name(audit, given), class_="given"), " in doubt"]
    else:
        turn = [
            element("s", class_name(audit, given), class_="given"),
            " ",
            element("span", "→", class_="arrow"),
            " ",
            element("b", class_name(audit, proposed), class_="proposed"),
        ]
    planted = None if audit.planted is None else bool(audit.planted[index])
    truth = {None: None, True: "planted", False: "not planted"}[planted]
    return element(
        "li",
        shown or element("p", "not shown", class_="absent"),
        element(
            "div",
            element("p", turn, class_="turn"),
            element(
                "p",
                bar(confidence),
                element("span", sure),
                class_="sure",
                title="confidence in what is proposed",
            )
            if given != proposed
            else None,
            element("p", sample_id(audit, index), class_="source"),
            element("p", truth, class_="truth") if truth else None,
            class_="said",
        ),
        class_="missed" if planted is False else None,
    )
