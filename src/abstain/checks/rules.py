"""Results of a check for each sample: a score in [0, 1], the lower the worse, and a flag."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float32]
Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

FRACTION = 1 / 3
"""A third of the usual, or three times as much, is an issue."""
_FENCE = 1 / 0.37 - 1
"""Interquartile ranges above a quartile, as in cleanlab's Datalab."""


@dataclass(frozen=True)
class Issues:
    """The flag and the score of each sample."""

    is_issue: Mask
    """(N,)"""
    score: Floats
    """(N,) in [0, 1], the lower the worse."""


def below(measure: npt.ArrayLike, fraction: float = FRACTION) -> Issues:
    """Issues are measures below a fraction of 1, which is the usual one; the score there is 0.5.

    >>> found = below([0.0, 1 / 3, 1.0])
    >>> found.score.tolist(), found.is_issue.tolist()
    ([0.0, 0.5, 0.75], [True, False, False])
    """
    values = np.asarray(measure, np.float64)
    score = values / (values + fraction)
    return Issues(values < fraction, score.astype(np.float32))


def low(measure: npt.ArrayLike) -> Issues:
    """Issues are measures below a third of the median."""
    return below(_multiples(measure))


def odd(measure: npt.ArrayLike) -> Issues:
    """Issues are measures below a third of the median, or above three times.

    >>> odd([10.0, 10.0, 10.0, 2.0, 40.0]).is_issue.tolist()
    [False, False, False, True, True]
    """
    multiples = _multiples(measure)
    with np.errstate(divide="ignore"):
        return below(np.minimum(multiples, 1 / multiples))


def far_out(measure: npt.ArrayLike) -> Issues:
    """Issues are measures 1.7 interquartile ranges above the upper quartile.

    The score there is 0.5.

    >>> far_out([*np.linspace(1, 2, 99), 20.0]).is_issue.nonzero()[0].tolist()
    [99]
    """
    values = np.asarray(measure, np.float64)
    quarter, median, three = np.percentile(values, [25, 50, 75])
    fence = three + _FENCE * (three - quarter)
    if fence == median:  # half of the values are the same: there is no spread to measure by
        return Issues(np.zeros(len(values), bool), np.ones(len(values), np.float32))
    score = 0.5 ** (np.maximum(values - median, 0) / (fence - median))
    return Issues(values > fence, score.astype(np.float32))


def _multiples(measure: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Divide by the median; what is not known counts as 1, and so does all if the median is 0."""
    values = np.asarray(measure, np.float64)
    known = ~np.isnan(values)
    median = float(np.median(values[known])) if known.any() else 0.0
    return np.where(known, values / median, 1) if median > 0 else np.ones(len(values))
