"""What ends a training, and which of its models is kept: `Judge`."""

from collections.abc import Callable

import torch
from torch import Tensor

from abstain.training.coteaching import Pair
from abstain.training.loop.evaluation import figures_on_test
from abstain.training.loop.step import Learner
from abstain.training.loop.task import Task
from abstain.training.loop.warm_up_phase import WarmUpPhase
from abstain.training.objective.from_recipe import make_stop
from abstain.training.objective.losses import Objective
from abstain.training.objective.settling import SettledStop
from abstain.training.objective.stopping import AnalyticalStop, ValidationStop
from abstain.training.recipe import Recipe
from abstain.training.saving.history import Row, all_done
from abstain.training.saving.saver import Saver


class Judge:
    """Decides after steps and epochs: from numbers of all processes, so that all decide the same.

    Args:
        recipe: Says what stops the training.
        task: Test data, for the model that a collapsed training goes back to.
        learner: Has the model.
        objective: Has the warm-up, and what is remembered of the samples.
        saver: Saves the best model.
    """

    def __init__(
        self, recipe: Recipe, task: Task, learner: Learner, objective: Objective, saver: Saver
    ) -> None:
        self._recipe, self._task, self._learner = recipe, task, learner
        self._objective, self._saver = objective, saver
        self.stop = make_stop(recipe, task.num_classes)
        self.warm_up_phase: WarmUpPhase | None = None
        if (warm_up := objective.warm_up) is not None:
            self.warm_up_phase = WarmUpPhase(warm_up, learner, objective.trust)
        self.best_weights: dict[str, Tensor] = {}
        """Of the best epoch, under the validation stop."""

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
        if self.warm_up_phase is not None and not self.warm_up_phase.judge(row, held_out):
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
        if not outcome and epoch == self._recipe.epochs:
            outcome = all_done(epoch, stop, warm_up)
        return outcome

    def final_epoch(self, last: int) -> int:
        """The epoch that `final_model` is of, from 1: the last one, or the best."""
        return self.stop.best_epoch if isinstance(self.stop, ValidationStop) else last

    def final_model(self) -> torch.nn.Module:
        """The model at the end or, under the validation stop, of its best epoch; on the CPU.

        Of a pair it is the first network.
        """
        model = self._learner.current_model()
        if isinstance(self.stop, ValidationStop):
            model.load_state_dict(self.best_weights)
        return (model.first if isinstance(model, Pair) else model).cpu()

    def _keep_best(self, epoch: int, accuracy: float) -> None:
        weights = self._learner.current_model().state_dict()
        self.best_weights = {name: x.detach().cpu().clone() for name, x in weights.items()}
        if self._learner.accelerator.is_main_process:
            self._saver.save_best(self.best_weights, epoch, accuracy)
