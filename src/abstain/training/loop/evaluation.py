"""The figures of a training: of its steps (`Tally`), and of test and held-out labels."""

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from abstain.losses import stake
from abstain.scores.ledger import Ledger
from abstain.training.loop.batches import Batches, Task
from abstain.training.loop.step import Learner
from abstain.training.objective.losses import Objective
from abstain.training.processes import add_up
from abstain.training.saving.history import Row

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
    """Weight of each sample, 1 on average."""
    if task.weights is None:
        return torch.ones(len(rows))
    weights = task.weights.cpu()[rows]
    return weights / weights.mean() if weights.any() else torch.ones_like(weights)


LOG_PAYOFF_SHOWN = 50.0
"""The most that counts: a guarded payoff has no bound, and its mean is to be read by people."""
# A model that gives the labels a probability of e^−1000000 has not merely a high loss.
_DIVERGED = 1e6
SUMS = ("loss", "correct", "stake", "log_payoff", "clean_loss", "clean", "corrupt", "samples")
"""Figures that are added up over the samples of a step."""


class Tally:
    """The steps since the last look, and what they add to the ledger and to the sums.

    A step of a small model takes a few milliseconds, of which thirty small operations more would be
    a twentieth; so a step leaves its outputs as they are, and all of them are added up at once. No
    sample comes twice in an epoch, and the loop looks at its end at the latest.

    Args:
        ledger: Gets every sample of every step.
        given: Labels of all samples.
        true: Where known, for the clean and corrupt parts of the loss.
    """

    def __init__(self, ledger: Ledger, given: Tensor, true: Tensor | None = None) -> None:
        self.ledger, self.given, self.true = ledger, given, true
        self._steps: list[tuple[Tensor, Tensor, Tensor]] = []

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, index: Tensor, logits: Tensor, losses: Tensor) -> None:
        """Keep a step: which samples, their logits and losses; empty where none was left."""
        self._steps.append((index, logits.detach(), losses.detach()))

    @torch.no_grad()
    def take(self, objective: Objective, epoch: int) -> Tensor:
        """Enter all steps into the ledger, and forget them; their sums, (steps, `SUMS`)."""
        sizes = [len(index) for index, _, _ in self._steps]
        index, logits, losses = (torch.cat(parts) for parts in zip(*self._steps, strict=True))
        self._steps = []
        given = self.given[index]
        objective.remember(index, logits, given)
        payoff = objective.payoff(logits, epoch)
        self.ledger.update(index, logits, given, payoff, epoch=epoch)
        zeros = torch.zeros_like(losses)
        right = zeros if self.true is None else (self.true[index] == given).to(losses)
        corrupt = zeros if self.true is None else 1 - right
        classes = logits[:, :-1]  # compared with the largest: argmax takes ten times longer
        correct = classes.gather(-1, given.unsqueeze(-1)).squeeze(-1) == classes.amax(-1)
        log_payoff = zeros if payoff is None else payoff.log().clamp(max=LOG_PAYOFF_SHOWN)
        columns = (losses, correct, stake(logits), log_payoff, losses * right, right, corrupt)
        table = torch.stack([x.to(losses.dtype) for x in (*columns, zeros + 1)], -1)
        return torch.stack([step.sum(0) for step in torch.split(table, sizes)])

    def packed(self) -> dict[str, Tensor]:
        """The steps as they are, for a checkpoint; added up in other parts they round otherwise."""
        if not self._steps:
            return {}
        index, logits, losses = (torch.cat(parts) for parts in zip(*self._steps, strict=True))
        sizes = torch.tensor([len(index) for index, _, _ in self._steps])
        return {"sizes": sizes, "index": index, "logits": logits, "losses": losses}

    def unpack(self, tensors: Mapping[str, Tensor], *, mine: bool) -> None:
        """Take up the steps that `packed` gave; if they are another process's, as empty ones."""
        if not tensors:
            return
        sizes = (tensors["sizes"] * mine).tolist()
        parts = [tensors[name][: sum(sizes)] for name in ("index", "logits", "losses")]
        split = (torch.split(part.to(self.given.device), sizes) for part in parts)
        self._steps = list(zip(*split, strict=True))


def no_sums() -> list[float]:
    """The sums of no samples."""
    return [0.0] * len(SUMS)


def has_diverged(loss: float) -> bool:
    """Whether a mean loss is beyond all that a model in training could have.

    >>> has_diverged(9.0), has_diverged(math.nan)
    (False, True)
    """
    return not loss < _DIVERGED


def means(sums: Sequence[float]) -> Row:
    """Sums over samples as means; what there was nothing of is left out.

    >>> means([4.6, 1, 1.8, 0, 0, 0, 0, 2])
    {'loss': 2.3, 'train_accuracy': 0.5, 'stake': 0.9}
    """
    total = dict(zip(SUMS, sums, strict=True))
    samples = total["samples"]
    row = {
        "loss": total["loss"] / samples,
        "train_accuracy": total["correct"] / samples,
        "stake": total["stake"] / samples,
    }
    if total["log_payoff"]:
        row["payoff"] = math.exp(total["log_payoff"] / samples)
    if total["clean"]:
        row["clean_loss"] = total["clean_loss"] / total["clean"]
    if total["corrupt"]:
        row["corrupt_loss"] = (total["loss"] - total["clean_loss"]) / total["corrupt"]
    return row
