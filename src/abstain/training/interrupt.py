"""Ctrl-C while training: finish the step, save, and stop."""

import signal
import threading
import time
from types import FrameType
from typing import Any

# A launcher passes on to its processes the Ctrl-C that they have had from the terminal.
_AS_ONE = 1.0  # seconds


class Interrupted(Exception):  # noqa: N818
    """Training was interrupted and saved; not an error, and nothing is lost."""


class InterruptFlag:
    """While in its context, the first SIGINT or SIGTERM only raises a flag; a later one kills.

    What follows within a second counts as the first.

    >>> with InterruptFlag() as interrupted:
    ...     bool(interrupted)
    False
    """

    def __init__(self) -> None:
        self._raised_at: float | None = None
        self._previous: dict[signal.Signals, Any] = {}

    def __bool__(self) -> bool:
        return self._raised_at is not None

    def __enter__(self) -> "InterruptFlag":
        # Only the main thread may set handlers; elsewhere the flag is simply never raised.
        if threading.current_thread() is threading.main_thread():
            for kind in (signal.SIGINT, signal.SIGTERM):
                self._previous[kind] = signal.signal(kind, self._raise)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _raise(self, kind: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._raised_at is None:
            self._raised_at = now
        elif now - self._raised_at > _AS_ONE:
            self._restore()
            signal.raise_signal(kind)

    def _restore(self) -> None:
        for kind, handler in self._previous.items():
            signal.signal(kind, handler)
        self._previous = {}
