"""The noise rate that a checked random sample measures, and which answers count for it."""

import numpy as np
import numpy.typing as npt

from abstain.scores.interval import Interval
from abstain.scores.sampling import Sample, measured_rate
from abstain.scores.verdict import Verdict

MEASURED_CONFIDENCE = 0.95
"""How often an interval that was measured on a random sample covers, whatever the noise."""
ENOUGH = 30
"""Least answers to a random sample that measure the rate: fewer are less certain than the
estimate."""
_GAPS = 0.1  # share of a sample that may stay without an answer


def gone_through(
    known: npt.NDArray[np.bool_], drawn: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Places in a sample that were checked, as far as somebody went through it.

    That is up to the last one checked for the sample, if nearly all before it are known. What lies
    beyond, or between many gaps, was reviewed for its score, or was easy: such labels are no random
    choice.

    Args:
        known: Of each label of the sample, in its order, whether it was reviewed.
        drawn: Whether that was done for the sample.

    >>> known = np.array([True, True, True, False, True])
    >>> gone_through(known, drawn=np.array([True, False, True, False, False]))
    array([0, 1, 2])
    """
    nearly_all = np.cumsum(known) >= (1 - _GAPS) * np.arange(1, len(known) + 1)
    ends = np.flatnonzero(drawn & nearly_all)
    return np.flatnonzero(known[: ends[-1] + 1]) if len(ends) else np.arange(0)


def measure(verdict: Verdict, sample: Sample, places: npt.NDArray[np.int64]) -> Interval:
    """The noise rate by the answers at some places of a sample; valid whatever the noise.

    Args:
        verdict: What was reviewed.
        sample: Labels drawn at random.
        places: What `gone_through` gave.
    """
    rows = sample.rows[places]
    wrong = verdict.reviewed[rows] != verdict.given[rows]
    rate = measured_rate(sample.stratum[places], wrong, sample.sizes, MEASURED_CONFIDENCE)
    # What was reviewed for another reason is no part of the sample, but known all the same.
    found_right = int(verdict.is_reviewed.sum()) - verdict.found_wrong
    least, most = verdict.found_wrong / len(verdict), 1 - found_right / len(verdict)
    low, value, high = np.clip([rate.low, rate.value, rate.high], least, most).tolist()
    return Interval(value=value, low=low, high=high)
