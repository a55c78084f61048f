"""What a training reports as it goes: on a terminal and in TensorBoard."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from abstain.training.augmentation import augmented
from abstain.training.loop.batches import Batch
from abstain.training.loop.display import Display, live_display
from abstain.training.loop.hooks import Hooks
from abstain.training.saving.history import Row
from abstain.training.saving.run_folder import RunFolder


class Reports(Hooks):
    """Augments batches, and hands on the rows of the history while it is `shown`."""

    def __init__(self, augmentations: tuple[str, ...]) -> None:
        self.augmentations = augmentations
        self._to: list[Display] = []

    @contextmanager
    def shown(
        self, steps: int, epochs: int, place: RunFolder | None, *, visible: bool
    ) -> Iterator[None]:
        """Show rows on the terminal, and write them for TensorBoard where there is a folder."""
        with ExitStack() as stack:
            self._to.append(stack.enter_context(live_display(steps, epochs, visible=visible)))
            if place is not None:
                self._to.append(stack.enter_context(_tensorboard(place)))
            yield

    def on_batch(self, batch: Batch) -> Batch:
        """Changed at random, in the ways that are safe."""
        if not self.augmentations:
            return batch
        return replace(batch, inputs=augmented(batch.inputs, self.augmentations))

    def on_row(self, kind: str, row: Row) -> None:
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
