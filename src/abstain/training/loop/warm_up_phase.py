"""A warm-up in a training: the weights where it was best are kept, and gone back to."""

from collections.abc import Mapping

from torch import Tensor

from abstain.training.loop.step import Learner
from abstain.training.objective.trust import Trust
from abstain.training.objective.warm_up import WarmUp
from abstain.training.saving.history import Row


class WarmUpPhase:
    """Follows what `WarmUp` decides: keeps the model of its best epoch, and goes back to it.

    Args:
        warm_up: decides.
        learner: whose weights are kept.
        trust: what the loss remembers of the samples, which is kept along with them.
    """

    def __init__(self, warm_up: WarmUp, learner: Learner, trust: Trust | None) -> None:
        self.warm_up, self._learner, self._trust = warm_up, learner, trust
        self.kept: dict[str, Tensor] = {}
        """The weights and memories of the best epoch, for a checkpoint."""

    def judge(self, row: Row, held_out: Tensor | None) -> bool:
        """End the warm-up where it was best; False if a later epoch has lost all of it.

        Args:
            row: the figures of the epoch.
            held_out: those of the held-out samples; None after the warm-up.
        """
        if held_out is not None:
            if self.warm_up.update(held_out[0], row["validation_accuracy"]):
                self._keep()
            if self.warm_up.ended:
                self._go_back()
            return True
        holds = self.warm_up.check(row["train_accuracy"])
        if not holds:
            self._go_back()
        return holds

    def _keep(self) -> None:
        parts = {
            "weights": self._learner.current_model().state_dict(),
            "trust": self._trust.state_dict() if self._trust else {},
        }
        self.kept = {
            f"{part}/{name}": x.detach().clone()
            for part, tensors in parts.items()
            for name, x in tensors.items()
        }

    def _go_back(self) -> None:
        self._learner.restart(_under("weights/", self.kept))
        if self._trust is not None:
            self._trust.load_state_dict(_under("trust/", self.kept))


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those whose names begin so, without it."""
    return {n.removeprefix(prefix): x for n, x in tensors.items() if n.startswith(prefix)}
