"""Estimates of parts of a set of labels, brought to the measured number of wrong labels in it."""

import math

from abstain.scores.interval import Interval


def to_measured(
    part: Interval, size: int, *, estimated: float, measured: Interval, total: int
) -> Interval:
    """The number of wrong labels in a part, such that all parts add up to the measured number.

    Where fewer are wrong than was estimated, each part has its share of the wrong labels; where
    more are, each has its share of the right ones. So none has more than is left, or than it holds.
    The interval has both uncertainties: of the estimate, and of the measured number.

    Args:
        part: Estimated number of wrong labels in the part.
        size: How many labels it has.
        estimated: Estimated number of wrong labels in the whole set.
        measured: Measured number.
        total: How many labels the whole set has.

    >>> half = Interval(value=60, low=50, high=70)
    >>> less = Interval(value=50.0, low=40.0, high=60.0)
    >>> found = to_measured(half, 100, estimated=100, measured=less, total=1000)
    >>> round(found.low, 1), found.value, round(found.high, 1)
    (22.2, 30.0, 37.8)
    """

    def moved(wrong: float, whole: float) -> float:
        if whole < estimated:
            return wrong * whole / estimated
        right = total - estimated
        return size - (size - wrong) * ((total - whole) / right if right else 1.0)

    value = moved(part.value, measured.value)
    below = [value - moved(part.low, measured.value), value - moved(part.value, measured.low)]
    above = [moved(part.high, measured.value) - value, moved(part.value, measured.high) - value]
    # The other labels hold at most all that is wrong, and at most as many as they are.
    least, most = max(0.0, measured.low - (total - size)), min(float(size), measured.high)
    return Interval(
        value=value,
        low=min(max(value - math.hypot(*below), least), value),
        high=max(min(value + math.hypot(*above), most), value),
    )
