"""Where a training lets others take part: `Hooks`."""

from abstain.training.loop.batches import Batch
from abstain.training.saving.history import Row


class Hooks:
    """What a `Loop` calls along the way. By itself it does nothing; a subclass overrides methods.

    A hook that changes numbers must do so from what a checkpoint holds (the batch, torch's random
    state), so that a resumed training still gives the same result.
    """

    def on_batch(self, batch: Batch) -> Batch:
        """The batch that a step trains on, on the device: the place to augment its inputs."""
        return batch

    def on_row(self, kind: str, row: Row) -> None:
        """A row of the history as it is made; `kind` is "step" or "epoch"."""
