"""How good a model is in the middle of its training: on test labels, and on held-out ones."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from abstain.training.loop.batches import Batches
from abstain.training.loop.step import Learner
from abstain.training.loop.task import Task
from abstain.training.processes import add_up

Visit = Callable[[Tensor, Tensor, Tensor], None]
"""Takes in the samples of a batch: their positions, logits and labels."""


@torch.no_grad()
def evaluate(
    learner: Learner, batches: Batches, labels: Tensor, visit: Visit | None = None
) -> Tensor:
    """(2, rows) of each sample: cross-entropy on all outputs, and whether its label is predicted.

    The same on all processes.
    """
    model = learner.evaluated_model()
    model.eval()
    figures = torch.zeros(2, len(labels), dtype=torch.float64, device=labels.device)
    for batch in batches.in_order():
        logits = learner.logits(batch, model)
        seen = len(logits) if batch.counts else 0
        index, logits = batch.index[:seen], logits[:seen]
        given = labels[index]
        figures[0, index] = cross_entropy(logits.double(), given, reduction="none")
        figures[1, index] = (logits[..., :-1].argmax(-1) == given).double()
        if visit is not None:
            visit(index, logits, given)
    learner.model.train()
    return add_up(learner.accelerator, figures)[:, batches.rows.to(labels.device)].cpu()


def figures_on_test(learner: Learner, task: Task) -> dict[str, float]:
    """The accuracy on the test data, as a part of a row; empty where there are none."""
    if task.test is None or task.test_labels is None:
        return {}
    return {"test_accuracy": float(evaluate(learner, task.test, task.test_labels)[1].mean())}


def held_out_figures(learner: Learner, task: Task, visit: Visit | None = None) -> Tensor:
    """As `evaluate`, of the held-out samples, whose losses count by the weights of the samples."""
    assert task.hold_out is not None
    figures = evaluate(learner, task.hold_out, task.given, visit)
    figures[0] *= _importance(task, task.hold_out.rows)
    return figures


def _importance(task: Task, rows: Tensor) -> Tensor:
    """How much each sample counts, 1 on average."""
    if task.weights is None:
        return torch.ones(len(rows))
    weights = task.weights.cpu()[rows]
    return weights / weights.mean() if weights.any() else torch.ones_like(weights)
