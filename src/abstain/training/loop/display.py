"""What a person sees of a training: a bar, loss, speed and time left."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from abstain.support.counting import Rate, watched
from abstain.training.saving.history import Row


class Display(Protocol):
    """Takes in the rows of the history as they come."""

    def __call__(self, kind: str, row: Row, /) -> None:
        """`kind` is "step" or "epoch"."""
        ...


@contextmanager
def live_display(
    steps: int, epochs: int, *, visible: bool = True, console: Console | None = None
) -> Iterator[Display]:
    """A bar over all steps, with the last epoch's figures."""
    with watched(
        TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"),
        Rate("steps"),
        TimeRemainingColumn(),
        show=visible,
        console=console,
    ) as progress:
        task = progress.add_task("train", total=steps, epoch=1, epochs=epochs, figures="")
        after_epoch = ""

        def show(kind: str, row: Row) -> None:
            nonlocal after_epoch
            if kind == "epoch":
                accuracy = row.get("test_accuracy", row.get("validation_accuracy"))
                after_epoch = "" if accuracy is None else f"  accuracy {accuracy:.1%}"
                return
            progress.update(
                task,
                completed=row["step"],
                epoch=int(row["epoch"]),
                figures=f"loss {row['smoothed_loss']:.4f}{after_epoch}",
            )

        yield show
