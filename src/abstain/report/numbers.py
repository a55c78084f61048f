"""Numbers as people read them."""

import math

from abstain.scores.interval import Interval


def percent(share: float, decimals: int | None = None) -> str:
    """A share in per cent, with as many decimals as it needs.

    >>> percent(0.2034), percent(0.5), percent(0.00042), percent(0.0), percent(1.0), percent(0.9998)
    ('20.3%', '50.0%', '0.04%', '0%', '100%', '99.98%')
    """
    if math.isnan(share):
        return "–"
    value = 100 * share
    if decimals is None:
        if value in (0, 100):
            return f"{value:.0f}%"
        edge = min(value, 100 - value)
        decimals = 1 if edge >= 0.1 else min(4, -math.floor(math.log10(max(edge, 1e-4))))
    return f"{value:.{decimals}f}%"


def width(share: float) -> str:
    """Width of the bar of a share.

    >>> width(0.25), width(1.2)
    ('25.00%', '100.00%')
    """
    return f"{100 * min(max(share, 0), 1):.2f}%"


def count(number: float) -> str:
    """A whole number with its thousands apart.

    >>> count(12345.4)
    '12,345'
    """
    return f"{round(number):,}"


def interval(found: Interval) -> str:
    """The ends of an interval of shares.

    >>> interval(Interval(value=0.2, low=0.18, high=0.223))
    '18.0–22.3%'
    """
    low, high = percent(found.low), percent(found.high)
    return f"{low.removesuffix('%')}–{high}"


def rough(found: Interval) -> str:
    """The value of an interval of shares, without decimals that its width makes meaningless.

    >>> rough(Interval(value=0.2034, low=0.12, high=0.3))
    '20%'
    >>> rough(Interval(value=0.2034, low=0.2, high=0.207))
    '20.3%'
    """
    is_wide = found.high - found.low > 0.02 and 0.01 <= found.value <= 0.99
    return percent(found.value, 0 if is_wide else None)


def rough_interval(found: Interval) -> str:
    """The ends of an interval of shares, rounded in the same way.

    >>> rough_interval(Interval(value=0.2034, low=0.124, high=0.3))
    '12–30%'
    """
    if found.high - found.low <= 0.02 or found.low < 0.01:
        return interval(found)
    return f"{100 * found.low:.0f}–{percent(found.high, 0)}"


def span(found: Interval) -> str:
    """The ends of an interval of shares in words, rounded in the same way.

    >>> span(Interval(value=0.2034, low=0.124, high=0.3))
    '12 to 30%'
    >>> span(Interval(value=0.5, low=0.5, high=0.5))
    '50.0%'
    """
    low, high = rough_interval(found).removesuffix("%").split("–")
    return f"{high}%" if low == high else f"{low} to {high}%"


def expectation(found: Interval) -> str:
    """An expected number and, where they are others, the ends of its interval.

    >>> expectation(Interval(value=93.4, low=88.0, high=97.1))
    '93 (88 to 97)'
    >>> expectation(Interval(value=99.9, low=99.8, high=100.0))
    '100'
    """
    value, low, high = count(found.value), count(found.low), count(found.high)
    return value if low == high else f"{value} ({low} to {high})"


def ticks(low: float, high: float, number: int = 5, *, whole: bool = False) -> list[float]:
    """Round numbers that span an interval, about `number` of them.

    >>> ticks(0.0, 0.87)
    [0.0, 0.2, 0.4, 0.6, 0.8]
    >>> ticks(1.0, 12.0, whole=True)
    [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]
    """
    if not high > low:
        high = low + (abs(low) or 1.0)
    rough = (high - low) / number
    power = 10.0 ** math.floor(math.log10(rough))
    factors = (1, 2, 5, 10) if whole else (1, 2, 2.5, 5, 10)
    step = next(f * power for f in factors if f * power >= 0.85 * rough)
    step = max(step, 1.0) if whole else step
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(k * step, 10) for k in range(first, last + 1)]
