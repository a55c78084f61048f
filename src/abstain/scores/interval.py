"""A value with the interval that it lies in."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A value, and the ends of its interval.

    >>> 0.2 in Interval(value=0.15, low=0.1, high=0.25)
    True
    """

    value: float
    low: float
    high: float

    def __contains__(self, truth: float) -> bool:
        return self.low <= truth <= self.high
