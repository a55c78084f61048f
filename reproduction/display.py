"""The display of a grid for a person: runs done, what is trained now, time left; else nothing."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from reproduction.groups import Group


def duration(seconds: float) -> str:
    """A time in words, as coarse as an estimate is.

    >>> duration(40), duration(400), duration(40_000)
    ('40 s', '7 min', '11.1 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class GridDisplay:
    """A bar over all runs of a grid, on a terminal; silent where nobody watches."""

    def __init__(self, console: Console | None = None) -> None:
        console = console or Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[runs]} runs"),
            TextColumn("{task.fields[left]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("getting ready", total=None, runs="0", left="")
        self._done, self._total, self._seconds = 0, 0, 0.0
        self._group, self._epochs = 0, 1

    def __enter__(self) -> "GridDisplay":
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def plan(self, runs: int, seconds: float) -> None:
        """So many runs are left, and will take about so long."""
        self._total, self._seconds = self._done + runs, seconds
        self._show()

    def begin(self, group: Group, seconds: float) -> None:
        """A group begins."""
        rates = sorted({run.recipe.flip for run in group.runs})
        span = f"{rates[0]:g}" if len(rates) == 1 else f"{rates[0]:g}–{rates[-1]:g}"
        methods = list(dict.fromkeys(run.recipe.method for run in group.runs))
        some = ", ".join(methods[:3]) + (", …" if len(methods) > 3 else "")
        self._epochs = sum(run.recipe.epochs or 1 for run in group.runs)
        self._group = len(group.runs)
        self._progress.update(self._task, description=f"{group.data} r = {span}: {some}")
        self._show()

    def epoch(self, _number: int, _row: dict[str, float]) -> None:
        """A run of the group has ended an epoch."""
        self._progress.advance(self._task, self._group / self._epochs)

    def end(self, group: Group) -> None:
        """The group is done."""
        self._done += len(group.runs)
        self._show()

    def _show(self) -> None:
        self._progress.update(
            self._task,
            total=self._total,
            completed=self._done,
            runs=f"{self._done}/{self._total}",
            left=f"about {duration(self._seconds)} left" if self._seconds else "",
        )
