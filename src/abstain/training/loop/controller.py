"""The end of a training, and which of its models is kept."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from abstain.training.loop.batches import Task
from abstain.training.loop.evaluation import figures_on_test
from abstain.training.loop.step import Learner
from abstain.training.objective.losses import Objective, Trust, make_stop
from abstain.training.objective.stopping import AnalyticalStop, SettledStop, ValidationStop
from abstain.training.objective.warm_up import WarmUp
from abstain.training.plan import Plan
from abstain.training.saving.checkpoint import Checkpoint, CheckpointFolder, Part
from abstain.training.saving.history import Row, all_done


class StopController:
    """Decides after steps and epochs: from numbers of all processes, so that all decide the same.

    Args:
        plan: Says what stops the training.
        task: Test data, for the model that a collapsed training goes back to.
        learner: Has the model.
        objective: Has the warm-up, and what is remembered of the samples.
        checkpoints: Where the best model is kept, if at all.
    """

    def __init__(
        self,
        plan: Plan,
        task: Task,
        learner: Learner,
        objective: Objective,
        checkpoints: CheckpointFolder | None,
    ) -> None:
        self._plan, self._task, self._learner = plan, task, learner
        self._objective, self._checkpoints = objective, checkpoints
        self.stop = make_stop(plan, task.num_classes)
        self.warm_up_phase: WarmUpPhase | None = None
        if (warm_up := objective.warm_up) is not None:
            self.warm_up_phase = WarmUpPhase(warm_up, learner, objective.trust)
        self.best_weights: dict[str, Tensor] = {}
        """Weights of the best epoch, under the validation stop."""

    def after_step(self, loss: float, samples: int, epoch: int) -> str:
        """Why the training ends with this step; empty if it goes on. Epochs count from 0."""
        if isinstance(self.stop, AnalyticalStop) and not self._objective.is_warm_up(epoch):
            return self.stop.reason if self.stop.update(loss, samples) else ""
        return ""

    def after_epoch(
        self, epoch: int, row: Row, held_out: Tensor | None, evidence: Callable[[], Tensor]
    ) -> str:
        """Why the training ends with this epoch; empty if it goes on.

        Args:
            epoch: From 1.
            row: Its figures.
            held_out: Those of the held-out samples, where they are evaluated.
            evidence: Gives that for each label, from the ledger of all processes.
        """
        outcome, stop, warm_up = "", self.stop, self._objective.warm_up
        if self.warm_up_phase is not None and not self.warm_up_phase.after_epoch(row, held_out):
            outcome = f"stopped at epoch {epoch}: {self.warm_up_phase.warm_up.reason}"
            row |= figures_on_test(self._learner, self._task)  # of the model gone back to
        if isinstance(stop, ValidationStop):
            stopped = stop.update(row["validation_accuracy"])
            if stop.best_epoch == stop.epoch:
                self._keep_best(epoch, row["validation_accuracy"])
            outcome = stop.reason if stopped else outcome
        if (
            isinstance(stop, SettledStop)
            and not (outcome or self._objective.is_warm_up(epoch))
            and stop.is_due(epoch)
            and stop.update(evidence(), epoch)
        ):
            outcome = stop.reason + (f"; {warm_up.reason}" if warm_up else "")
        if not outcome and epoch == self._plan.epochs:
            outcome = all_done(epoch, stop, warm_up)
        return outcome

    def final_epoch(self, last: int) -> int:
        """The epoch that `final_model` is of, from 1: the last one, or the best."""
        return self.stop.best_epoch if isinstance(self.stop, ValidationStop) else last

    def final_model(self) -> torch.nn.Module:
        """The model at the end or, under the validation stop, of its best epoch; on the CPU."""
        model = self._learner.current_model()
        if isinstance(self.stop, ValidationStop):
            model.load_state_dict(self.best_weights)
        return model.cpu()

    def state(self) -> dict[str, Part]:
        """The parts of a checkpoint that are the stop's and the warm-up's."""
        parts: dict[str, Part] = {
            "stop": ({}, None if self.stop is None else self.stop.state_dict())
        }
        if self.warm_up_phase is not None:
            parts["warm_up"] = self.warm_up_phase.state()
        return parts

    def load_state(self, checkpoint: Checkpoint) -> None:
        """Take over what `state` gave."""
        if self.warm_up_phase is not None:
            tensors = checkpoint.part("warm_up")[0]
            self.warm_up_phase.load_state(tensors, checkpoint.values("warm_up"))
        if self.stop is not None:
            self.stop.load_state_dict(checkpoint.values("stop"))
        if isinstance(self.stop, ValidationStop) and self.stop.best_epoch:
            assert self._checkpoints is not None
            self.best_weights = self._checkpoints.load_best().tensors

    def _keep_best(self, epoch: int, accuracy: float) -> None:
        weights = self._learner.current_model().state_dict()
        self.best_weights = {name: x.detach().cpu().clone() for name, x in weights.items()}
        if self._checkpoints is not None and self._learner.accelerator.is_main_process:
            best = Checkpoint(tensors=self.best_weights, state={"epoch": epoch})
            self._checkpoints.save_best(best, accuracy)


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

    def after_epoch(self, row: Row, held_out: Tensor | None) -> bool:
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

    def state(self) -> Part:
        """Tensors and plain values for a checkpoint."""
        best = self.warm_up.best_losses
        losses = {} if best is None else {"losses": best}
        return {**self.kept, **losses}, self.warm_up.state_dict()

    def load_state(self, tensors: dict[str, Tensor], values: Mapping[str, Any]) -> None:
        """Take over what `state` gave."""
        losses = tensors.pop("losses", None)
        self.kept = tensors
        self.warm_up.load_state_dict(values, losses)

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
