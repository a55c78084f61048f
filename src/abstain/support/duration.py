"""Durations as people write them: 90s, 10m, 1h30m, or a number of seconds."""

import math
import re

from abstain.errors import AbstainError

_NUMBER = r"(\d+(?:\.\d+)?)"
_FORM = re.compile(f"(?:{_NUMBER}h)?(?:{_NUMBER}m)?(?:{_NUMBER}s?)?")


def seconds_of(duration: float | str, argument: str) -> float:
    """A duration in seconds.

    Args:
        duration: A number of seconds, or a text.
        argument: Whose value it is, for the error.

    >>> [seconds_of(x, "budget") for x in (90, "90s", "10m", "1h30m", "1.5h")]
    [90.0, 90.0, 600.0, 5400.0, 5400.0]
    >>> seconds_of("soon", "budget")
    Traceback (most recent call last):
    abstain.errors.AbstainError: budget must be a duration such as 90s, 10m or 1h30m, got 'soon'
    """
    text = str(duration).strip().lower()
    match = _FORM.fullmatch(text)
    if isinstance(duration, bool) or not text or match is None:
        raise AbstainError(
            f"must be a duration such as 90s, 10m or 1h30m, got {duration!r}", argument=argument
        )
    parts = (float(part or 0) for part in match.groups())
    return math.fsum(part * unit for part, unit in zip(parts, (3600, 60, 1), strict=True))


def spoken(seconds: float) -> str:
    """A duration for people, to the second.

    >>> [spoken(x) for x in (0.4, 43.2, 90, 600, 5400)]
    ['0s', '43s', '1m30s', '10m', '1h30m']
    """
    hours, rest = divmod(round(seconds), 3600)
    parts = {"h": hours, "m": rest // 60, "s": rest % 60}
    return "".join(f"{number}{unit}" for unit, number in parts.items() if number) or "0s"
