"""`Hooks`, which take part in a training along the way, and those that show its figures."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from abstain.support.progress import Rate, watched
from abstain.training.loop.augmentation import augmented
from abstain.training.loop.batches import Batch
from abstain.training.saving.history import Row
from abstain.training.saving.run_folder import RunFolder

if TYPE_CHECKING:
    from abstain.training.loop.loop import Loop


class Display(Protocol):
    """Takes in the rows of the history as they come."""

    def __call__(self, kind: str, row: Row, /) -> None:
        """`kind` is "step" or "epoch"."""
        ...


@contextmanager
def live_display(steps: int, epochs: int, *, console: Console | None = None) -> Iterator[Display]:
    """A bar over all steps, with the last epoch's figures."""
    with watched(
        TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"),
        Rate("steps"),
        TimeRemainingColumn(),
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


class Hooks:
    """Take part in a training: a subclass overrides methods, which the `Loop` calls with itself.

    By the loop a hook reaches the model (`loop.learner.model`), the history, the position and the
    ledger, and can end the training (`loop.end("accurate enough")`). Of several processes each
    calls its own hooks. A hook that changes numbers must do so from what a checkpoint holds (the
    batch, torch's random state), so that a resumed training still gives the same result.

    >>> from abstain import Recipe, train
    >>> class Once(Hooks):
    ...     def on_row(self, loop, kind, row):
    ...         if kind == "epoch" and row["train_accuracy"] > 0.5:
    ...             loop.end("half of the labels are predicted")
    >>> train("digits", Recipe.of("nll", epochs=9), hooks=[Once()]).outcome
    'half of the labels are predicted'
    """

    def on_begin(self, loop: "Loop") -> None:
        """Before the first step, or where a resumed training goes on."""

    def on_batch(self, loop: "Loop", batch: Batch) -> Batch:
        """The batch that a step trains on, on the device: the place to augment its inputs."""
        return batch

    def on_row(self, loop: "Loop", kind: str, row: Row) -> None:
        """A row of the history as it is made; `kind` is "step" or "epoch"."""

    def on_end(self, loop: "Loop") -> None:
        """After the last step; not where the training is interrupted."""


class Reports(Hooks):
    """Augments batches, and hands on the rows of the history while it is `shown`."""

    def __init__(self, augmentations: tuple[str, ...]) -> None:
        self.augmentations = augmentations
        self._to: list[Display] = []

    @contextmanager
    def shown(self, steps: int, epochs: int, place: RunFolder | None) -> Iterator[None]:
        """Show rows on the terminal, and write them for TensorBoard where there is a folder."""
        with ExitStack() as stack:
            self._to.append(stack.enter_context(live_display(steps, epochs)))
            if place is not None:
                self._to.append(stack.enter_context(_tensorboard(place)))
            yield

    def on_batch(self, loop: "Loop", batch: Batch) -> Batch:
        """Changed at random, in the ways that are safe."""
        if not self.augmentations:
            return batch
        return replace(batch, inputs=augmented(batch.inputs, self.augmentations))

    def on_row(self, loop: "Loop", kind: str, row: Row) -> None:
        """To all that show it."""
        for display in self._to:
            display(kind, row)


@contextmanager
def _tensorboard(place: RunFolder) -> Iterator[Display]:
    """Writes rows for TensorBoard, where it is installed: the Parquet files hold the same."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        yield lambda _kind, _row: None
        return
    writers: list[Any] = []

    def log(kind: str, row: Row) -> None:
        step = int(row["step"])
        with place.writing():
            if not writers:
                # A killed run was ahead of its checkpoint: what it logged there comes again.
                writers.append(SummaryWriter(str(place.path / "tensorboard"), purge_step=step))
            for name in row.keys() - {"step", "epoch"}:
                writers[0].add_scalar(f"{kind}/{name}", row[name], step)

    try:
        yield log
    finally:
        with place.writing():
            for writer in writers:
                writer.close()
