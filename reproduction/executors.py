"""Executors: many small networks at once, or one by the loop that users train with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from abstain.training.plan import Plan
from reproduction.record import Result
from reproduction.stacked import coteaching
from reproduction.tasks import Task

if TYPE_CHECKING:
    from abstain.training.trained import Trained

OnEpoch = Callable[[int, dict[str, float]], None]
"""Called after every epoch with the number of the run and its row."""

_BETWEEN_TEXTS = 5  # epochs
# Its running means are no part of a stack.
_NOT_STACKED = frozenset({"resnet18"})
# A CPU gains nothing from a stack, and eight times the speed from how the loop lays out a network.
_LOOP_ON_CPU = frozenset({"mnist-cnn", "cifar-cnn"})


class Executor:
    """Trains recipes on a task, each way of training where it is best."""

    def __init__(self, data_dir: Path | None = None, on_epoch: OnEpoch | None = None) -> None:
        self.data_dir, self.on_epoch = data_dir, on_epoch

    def __call__(self, task: Task, recipes: Sequence[Plan]) -> Sequence[Result]:
        """A result for each recipe, in their order."""
        size, classes = len(task.inputs), task.num_classes
        recipes = [r.resolved(num_samples=size, num_classes=classes) for r in recipes]
        on_cpu = not torch.cuda.is_available()
        pairs = any(
            recipe.method == coteaching.METHOD for recipe in recipes
        )  # only a stack has them
        in_loop = task.network in _NOT_STACKED or (on_cpu and task.network in _LOOP_ON_CPU)
        if in_loop and not pairs:
            return [self._one(task, recipe) for recipe in recipes]
        return self._stacked(task, recipes)

    def _stacked(self, task: Task, recipes: Sequence[Plan]) -> Sequence[Result]:
        from reproduction.stacked.trainer import StackedTask, train_stacked

        stacked = StackedTask(
            inputs=task.inputs,
            true=task.true,
            test_inputs=task.test_inputs,
            test_labels=task.test_labels,
            num_classes=task.num_classes,
            network=task.network,
            vectors=task.vectors,
        )
        return train_stacked(
            stacked,
            recipes,
            keep_samples=True,
            # To read all test texts takes a third of the time that an epoch takes.
            evaluate_every=1 if task.vectors is None else _BETWEEN_TEXTS,
            report=self.on_epoch,
        )

    def _one(self, task: Task, recipe: Plan) -> Result:
        from abstain.training.train import train

        options: dict[str, Any] = {} if self.data_dir is None else {"data_dir": self.data_dir}
        return _result(train(task.data, replace(recipe, model=task.network), **options))


@dataclass(frozen=True, kw_only=True)
class OneResult:
    """The result of one training through `abstain.train`."""

    recipe: Plan
    epochs: list[dict[str, float]]
    stop_epoch: float
    outcome: str
    test_accuracy: float
    belief: npt.NDArray[Any]
    rejection: npt.NDArray[Any]
    given: npt.NDArray[Any]


def _result(trained: "Trained") -> OneResult:
    rows = trained.history.epochs
    return OneResult(
        recipe=trained.plan,
        epochs=rows,
        stop_epoch=rows[-1]["step"] / _steps(trained),
        outcome=trained.outcome,
        test_accuracy=float(trained.test_accuracy or 0.0),
        belief=trained.ledger.belief.numpy(force=True),
        rejection=trained.ledger.abstention.numpy(force=True),
        given=trained.data.given.numpy(force=True),
    )


def _steps(trained: "Trained") -> float:
    """The steps of a whole epoch: a stop may come within one."""
    recipe, samples = trained.plan, len(trained.data)
    if recipe.stop == "validation":
        samples -= recipe.held_out(samples)
    return float(np.ceil(samples / (recipe.batch or 1)))
