"""How far something is so, where a threshold would make chance decide."""


def ramp(x: float, ends: tuple[float, float]) -> float:
    """0 up to the first end, 1 from the second on, a straight line between.

    >>> ramp(0.25, (0.2, 0.3)), ramp(7, (0.2, 0.3))
    (0.5, 1.0)
    """
    return min(max((x - ends[0]) / (ends[1] - ends[0]), 0.0), 1.0)
