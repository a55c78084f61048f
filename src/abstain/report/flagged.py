"""The labels themselves: the worst first, and those of identical samples that disagree."""

from dataclasses import dataclass

from abstain.auditing.result import Audit
from abstain.showing.as_html import Samples, Shown

# How many are shown at once, and how many more on request.
_SHOWN = {"image": (24, 48), "text": (12, 24), "table": (8, 24)}
_LEAST_BELIEVED = 12
_GROUPS, _MEMBERS = 8, 6
# Longer names of classes need wider cards.
_SHORT_NAME = 6


@dataclass(frozen=True)
class Card:
    """A label as it is, and as it should be."""

    index: int
    shown: Shown | None
    given: int
    proposed: int
    confidence: float
    is_planted: bool | None
    """Whether it was made wrong on purpose; None where none were."""


@dataclass(frozen=True)
class Flagged:
    """The flagged labels, worst first; the least believed ones where none is flagged."""

    at_once: list[Card]
    on_request: list[Card]
    left_out: int
    roomy: bool


@dataclass(frozen=True)
class Group:
    """Samples that are the same and labelled differently."""

    shown: Shown | None
    members: list[int]
    left_out: int


def worst_labels(
    audit: Audit,
    at_once: int | None = None,
    on_request: int | None = None,
    *,
    picture_bytes: int = 2_000_000,
) -> Flagged | None:
    """List the worst labels; None where all labels were reviewed.

    Args:
        audit: The audit.
        at_once: How many are shown; by default, as many as a page has room for.
        on_request: How many more are shown on request.
        picture_bytes: How many bytes their pictures may take.
    """
    if audit.is_known:
        return None
    flagged = audit.verdict.is_label_issue
    worst = audit.order[flagged[audit.order]] if audit.flagged else audit.order[:_LEAST_BELIEVED]
    usual = _SHOWN[audit.labels.kind]
    at_once = usual[0] if at_once is None else at_once
    on_request = usual[1] if on_request is None else on_request
    samples = Samples(audit.shown, bytes_left=picture_bytes)
    cards = [_card(audit, index, samples) for index in worst[: at_once + on_request].tolist()]
    return Flagged(
        at_once=cards[:at_once],
        on_request=cards[at_once:],
        left_out=len(worst) - len(cards),
        roomy=max(map(len, audit.labels.classes)) > _SHORT_NAME,
    )


def duplicates(audit: Audit) -> list[Group]:
    """Identical samples whose labels disagree: at most one of them can be right."""
    found, samples = audit.duplicates, Samples(audit.shown, bytes_left=300_000)
    groups = []
    for number in range(min(_GROUPS, len(found))):
        members = found.members[found.group == number].tolist()
        left_out = max(0, len(members) - _MEMBERS)
        groups.append(Group(samples.show(members[0]), members[:_MEMBERS], left_out))
    return groups


def _card(audit: Audit, index: int, samples: Samples) -> Card:
    proposed = int(audit.verdict.predicted_label[index])
    return Card(
        index=index,
        shown=samples.show(index, proposed),
        given=int(audit.given[index]),
        proposed=proposed,
        confidence=float(audit.verdict.confidence[index]),
        is_planted=None if audit.planted is None else bool(audit.planted[index]),
    )
