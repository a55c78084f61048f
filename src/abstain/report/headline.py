"""The estimate, and what it means for somebody who will look at labels."""

import re
from dataclasses import dataclass

from abstain.auditing.findings import Findings
from abstain.auditing.result import Audit
from abstain.report.numbers import rough, span
from abstain.scores.interval import Interval

_TOPS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
_OPEN = 0.2
"""Width of the interval above which the labels alone leave the noise rate open."""


@dataclass(frozen=True)
class Caution:
    """The limits of the estimate, and the command that measures the rate."""

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
    """The number of wrong labels, its uncertainty, and the gain of an hour of review."""

    top: float
    """End of the scale of the noise rate."""
    rate: str
    """The noise rate: its interval, as the middle of a wide one says little."""
    likely: str
    """Its middle; empty where the interval has none to speak of."""
    estimated: str
    """The estimate in whose place a measured rate stands; empty where nothing was measured."""
    is_open: bool
    """Whether the interval is so wide that a check comes before all else."""
    expected: Interval
    """Wrong labels among the worst."""
    caution: Caution | None
    planted: Planted | None


def headline(audit: Audit) -> Headline:
    """Compute the figures at the top of the page."""
    return Headline(
        top=next((edge for edge in _TOPS if audit.noise_rate.high <= 0.95 * edge), 1.0),
        rate=rate_in_words(audit.findings),
        likely=likely_rate(audit.findings),
        estimated=replaced_estimate(audit.findings),
        is_open=is_open(audit.findings),
        expected=audit.findings.expected_wrong(audit.budget),
        caution=_caution(audit.caution) if audit.caution else None,
        planted=_planted(audit),
    )


def rate_in_words(findings: Findings) -> str:
    """The noise rate as people are told it: its interval, or the number where it is known."""
    return rough(findings.rate) if findings.is_known else span(findings.rate)


def likely_rate(findings: Findings) -> str:
    """The middle of the noise rate; empty where it is known, or the interval is one number.

    It is empty for an estimate after reviews, too: its value follows the answers more slowly than
    its interval does, and may lie at the edge of that.
    """
    middle, is_held_back = rough(findings.rate), findings.reviewed and findings.measured is None
    return "" if is_held_back or span(findings.rate) == middle else middle


def replaced_estimate(findings: Findings) -> str:
    """The estimate in whose place a measured rate stands; empty where nothing was measured."""
    return span(findings.verdict.rate) if findings.measured else ""


def is_open(findings: Findings) -> bool:
    """Whether the labels alone leave the noise rate open: the interval is wider than 20 points."""
    rate = findings.rate
    return findings.measured is None and not findings.is_known and rate.high - rate.low > _OPEN


def _caution(text: str) -> Caution:
    what, command, _ = re.split(r"(abstain (?:sample|verify) .*)?$", text, maxsplit=1)
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
