"""The estimate, and what it means for somebody who will look at labels."""

import re
from dataclasses import dataclass

from abstain.auditing.result import Audit
from abstain.scores.interval import Interval

_TOPS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Caution:
    """What to know before one believes the estimate, and the command that measures the rate."""

    words: list[str]
    """The text in pieces; those that begin with `--` are options."""
    command: str


@dataclass(frozen=True)
class Planted:
    """The truth about errors that were planted on purpose."""

    errors: int
    rate: float
    among_worst: int


@dataclass(frozen=True)
class Headline:
    """How many labels are wrong, how sure that is, and how far a reviewer's hour will go."""

    top: float
    """Where the scale of the noise rate ends."""
    expected: Interval
    """Wrong labels among the worst."""
    caution: Caution | None
    planted: Planted | None


def headline(audit: Audit) -> Headline:
    """What the top of the page shows."""
    return Headline(
        top=next((edge for edge in _TOPS if audit.noise_rate.high <= 0.95 * edge), 1.0),
        expected=audit.verdict.expected_wrong(audit.budget),
        caution=_caution(audit.caution) if audit.caution else None,
        planted=_planted(audit),
    )


def _caution(text: str) -> Caution:
    what, command, _ = re.split(r"(abstain (?:sample|audit) .*)?$", text, maxsplit=1)
    return Caution(words=re.split(r"(--[a-z-]+)", what), command=command or "")


def _planted(audit: Audit) -> Planted | None:
    planted = audit.planted
    if planted is None or audit.is_known:
        return None
    return Planted(
        errors=int(planted.sum()),
        rate=float(planted.mean()),
        among_worst=int(planted[audit.order[: audit.budget]].sum()),
    )
