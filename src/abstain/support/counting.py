"""Progress of long work: bars on a terminal, and a line a minute in a log."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

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


class Rate(ProgressColumn):
    """How many of a unit a second."""

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
    show: bool,
    transient: bool = False,
    console: Console | None = None,
) -> Iterator[Progress]:
    """Show the progress of what is done meanwhile.

    Args:
        columns: What is shown of each task.
        show: Show it at all.
        transient: Remove the bars from the terminal at the end.
        console: Where to; standard error by default.
    """
    console = console or Console(stderr=True)
    is_live = show and console.is_terminal
    progress = Progress(*columns, console=console, transient=transient, disable=not is_live)
    over = Event()

    def log() -> None:
        while not over.wait(EVERY):
            console.print(progress.make_tasks_table(progress.tasks), width=_WIDTH)

    lines = Thread(target=log, daemon=True)
    if show and not is_live:
        lines.start()
    try:
        with progress:
            yield progress
    finally:
        over.set()
        if lines.ident:
            lines.join()


@contextmanager
def counting(total: int, what: str, *, show: bool) -> Iterator[Callable[[int], None]]:
    """Count samples by a bar that goes away when all are counted.

    Args:
        total: How many samples there are.
        what: Is done with them.
        show: Show it.

    >>> with counting(3, "digits", show=True) as advance:
    ...     advance(3)
    """
    with watched(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        Rate("samples"),
        TimeRemainingColumn(),
        show=show,
        transient=True,
    ) as progress:
        task = progress.add_task(what, total=total)
        yield lambda count: progress.advance(task, count)
