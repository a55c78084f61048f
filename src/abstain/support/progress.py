"""Progress of long work: bars on a terminal, and a line a minute in a log.

Whether it is shown is set once, by `showing`, for all that is done within; by default it is not.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from threading import Event, Thread
from typing import ParamSpec, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

EVERY = 60.0
"""Seconds between the lines of a log."""
_WIDTH = 160


_shown: ContextVar[bool] = ContextVar("progress is shown", default=False)
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


@contextmanager
def showing(show: bool = True) -> Iterator[None]:
    """Show the progress of what is done within; False leaves it as it is."""
    token = _shown.set(show or _shown.get())
    try:
        yield
    finally:
        _shown.reset(token)


def with_progress(verb: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Let a function show its progress where its argument `show` is true.

    >>> @with_progress
    ... def count(*, show: bool = False) -> str:
    ...     with counting(2, "labels") as advance:
    ...         advance(2)
    ...     return "done"
    >>> count(show=True)
    'done'
    """

    @wraps(verb)
    def shown(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        with showing(bool(named.get("show"))):
            return verb(*arguments, **named)

    return shown


class Rate(ProgressColumn):
    """The rate, in units a second."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        """Nothing until it is known."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} {self._unit}/s")


@contextmanager
def watched(
    *columns: ProgressColumn,
    transient: bool = False,
    console: Console | None = None,
) -> Iterator[Progress]:
    """Show the progress of what is done meanwhile.

    Args:
        columns: What is shown of each task.
        transient: Remove the bars from the terminal at the end.
        console: Where to; standard error by default.
    """
    console = console or Console(stderr=True)
    is_live = _shown.get() and console.is_terminal
    progress = Progress(*columns, console=console, transient=transient, disable=not is_live)
    over = Event()

    def log() -> None:
        while not over.wait(EVERY):
            console.print(progress.make_tasks_table(progress.tasks), width=_WIDTH)

    lines = Thread(target=log, daemon=True)
    if _shown.get() and not is_live:
        lines.start()
    try:
        with progress:
            yield progress
    finally:
        over.set()
        if lines.ident:
            lines.join()


@contextmanager
def counting(total: int, what: str) -> Iterator[Callable[[int], None]]:
    """Count samples by a bar that goes away when all are counted.

    Args:
        total: How many samples there are.
        what: Is done with them.

    >>> with showing(True), counting(3, "digits") as advance:
    ...     advance(3)
    """
    with watched(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        Rate("samples"),
        TimeRemainingColumn(),
        transient=True,
    ) as progress:
        task = progress.add_task(what, total=total)
        yield lambda count: progress.advance(task, count)
