"""When a training is saved, and how it is taken up again: `Saver`."""

import time
from typing import TYPE_CHECKING

from torch import Tensor

from abstain.errors import NO_VALUE, DivergedError
from abstain.training.objective.stopping import ValidationStop
from abstain.training.saving.checkpoint import Checkpoint, CheckpointFolder
from abstain.training.saving.state import pack_loop, unpack_loop

if TYPE_CHECKING:
    from abstain.training.loop.loop import Loop


class Saver:
    """Saves a training every so often, after every epoch, and where it is interrupted.

    Args:
        folder: Of the checkpoints; with None nothing is saved.
        save_every: Seconds between checkpoints within an epoch.
    """

    def __init__(self, folder: CheckpointFolder | None, save_every: float) -> None:
        self.folder, self._save_every = folder, save_every
        self._saved_at = time.monotonic()

    @property
    def is_due(self) -> bool:
        """Whether the last checkpoint is so old that another one is wanted within the epoch."""
        return time.monotonic() - self._saved_at > self._save_every

    def save(self, loop: "Loop") -> None:
        """Save everything from which the training can go on as if nothing had happened."""
        self._saved_at = time.monotonic()
        if self.folder is None:
            return
        # The loss of a step is that before its update: it does not show what the update did.
        for name, weight in loop.learner.plain_model.named_parameters():
            if not weight.isfinite().all():
                raise self.diverged(f"weights must be finite, got others in {name}", loop)
        loop.share_memories()
        checkpoint = pack_loop(loop)
        if loop.accelerator.is_main_process:
            self.folder.save_last(checkpoint)

    def save_best(self, weights: dict[str, Tensor], epoch: int, accuracy: float) -> None:
        """Save the weights of the best epoch so far."""
        if self.folder is not None:
            self.folder.save_best(Checkpoint(tensors=weights, state={"epoch": epoch}), accuracy)

    def restore(self, loop: "Loop") -> bool:
        """Go on from the last checkpoint, if there is one."""
        self._saved_at = time.monotonic()  # what came before the training does not count
        if self.folder is None or not self.folder.has_last:
            return False
        unpack_loop(loop, self.folder.load_last())
        if isinstance(loop.judge.stop, ValidationStop) and loop.judge.stop.best_epoch:
            loop.judge.best_weights = self.folder.load_best().tensors
        return True

    def diverged(self, finding: str, loop: "Loop") -> DivergedError:
        """The error of a training whose numbers have left all bounds."""
        whole = ""
        if self.folder is not None and self.folder.has_last:
            whole = f"; the last good checkpoint, {self.folder.last}, is whole"
        return DivergedError(
            f"{finding}: the training has diverged",
            remedy=f"lower {{learning_rate}} ({loop.recipe.learning_rate:g}) or set {{clip}}"
            + whole.replace("{", "{{").replace("}", "}}"),
            learning_rate=NO_VALUE,
            clip=NO_VALUE,
        )
