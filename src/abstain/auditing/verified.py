"""The progress of checking a random sample, and the answers missing until it measures the rate."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from abstain.support.wording import many

_GAPS = 0.1  # share of a sample that may stay without an answer


@dataclass(frozen=True, kw_only=True)
class Verified:
    """Progress of checking a random sample, and the answers missing until it measures the rate."""

    enough: int
    """Classes that measure the rate."""
    counted: int = 0
    """Classes that were given, and count."""
    unsure: int = 0
    """Answers without a class, which count as wrong and as right: the interval has both."""
    dropped: int = 0
    skipped: int = 0
    """Samples among these without any answer, which count as unsure ones."""
    waiting: int = 0
    """Answers that do not count yet, as too many samples before them have none."""
    gaps: int = 0
    """Samples without an answer before the last one that has one."""

    @property
    def answered(self) -> int:
        """The number of answers that count."""
        return self.counted + self.unsure + self.dropped

    @property
    def missing(self) -> int:
        """The number of classes that are missing until the rate is measured."""
        return max(0, self.enough - self.counted)

    @property
    def more(self) -> str:
        """The answers that are missing, as the subject of a sentence."""
        answers = ("more answer with a class measures", "more answers with a class measure")
        return many(self.missing, *answers)

    @property
    def why(self) -> str:
        """The reasons why the rate is not measured, or not more exactly; empty without any.

        >>> Verified(enough=30, counted=10, unsure=2, waiting=5, gaps=3).why
        '20 more answers with a class measure the rate; waiting for 3 samples before them: 5 \
answers; without a class, and taken as wrong and as right: 2 unsure'
        """
        words = []
        if self.missing:
            words.append(f"{self.more} the rate")
        if self.waiting:
            words.append(
                f"waiting for {many(self.gaps, 'sample')} before them: "
                f"{many(self.waiting, 'answer')}"
            )
        kinds = ((self.unsure, "unsure"), (self.dropped, "dropped"), (self.skipped, "skipped"))
        if without := " and ".join(f"{n:,} {kind}" for n, kind in kinds if n):
            words.append(f"without a class, and taken as wrong and as right: {without}")
        return "; ".join(words)

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return {**asdict(self), "missing": self.missing, "why": self.why}


def gone_through(known: npt.NDArray[np.bool_], drawn: npt.NDArray[np.bool_]) -> int:
    """Count the labels at the head of a sample that somebody went through.

    That is up to the last one checked for the sample, if nearly all before it are known. What lies
    beyond, or between many gaps, was reviewed for its score, or was easy: such labels are no random
    choice.

    Args:
        known: Of each label of the sample, in its order, whether it has an answer.
        drawn: Whether that was given for the sample.

    >>> known = np.array([True, True, True, False, True])
    >>> gone_through(known, drawn=np.array([True, False, True, False, False]))
    3
    """
    nearly_all = np.cumsum(known) >= (1 - _GAPS) * np.arange(1, len(known) + 1)
    ends = np.flatnonzero(drawn & known & nearly_all)
    return int(ends[-1]) + 1 if len(ends) else 0
