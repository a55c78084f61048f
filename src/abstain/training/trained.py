"""One training from its set-up to its end, and its result; the comparison of two."""

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch

from abstain.data import Encoder, LabeledData
from abstain.scores.held_out import HeldOut
from abstain.scores.ledger import Ledger
from abstain.support.duration import spoken
from abstain.support.wording import many
from abstain.training.loop.batches import held_out_rows
from abstain.training.loop.hooks import Hooks, Reports
from abstain.training.plan import Plan
from abstain.training.saving.checkpoint import CheckpointFolder
from abstain.training.saving.history import History
from abstain.training.saving.run_folder import RunFolder
from abstain.training.setup import Setup


@dataclass(frozen=True, kw_only=True)
class FineTuningOutcome:
    """Which of the two a run is, and why."""

    chosen: Literal["frozen", "fine-tuned"]
    reason: str
    """In a line."""
    frozen_agreement: float
    """Share of held-out labels predicted, after the best epoch."""
    tuned_agreement: float | None = None
    """Likewise; None where fine-tuning was not tried to its end."""
    epochs: int | None = None
    """Epochs of the fine-tuning."""

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def compared(frozen: float, tuned: float, *, held_out: int, epochs: int) -> FineTuningOutcome:
    """The training that predicts more of the same held-out labels.

    >>> print(compared(0.74, 0.775, held_out=500, epochs=8).reason)
    better than frozen features: predicts 77.5% against 74.0% of 500 held-out labels, 8 epochs
    >>> compared(0.74, 0.74, held_out=500, epochs=8).chosen
    'frozen'
    """
    wins = tuned > frozen
    figures = (
        f"predicts {tuned:.1%} against {frozen:.1%} of {many(held_out, 'held-out label')}, "
        f"{many(epochs, 'epoch')}"
    )
    better = "better than frozen features" if wins else "tried, no better than frozen features"
    return FineTuningOutcome(
        chosen="fine-tuned" if wins else "frozen",
        reason=f"{better}: {figures}",
        frozen_agreement=frozen,
        tuned_agreement=tuned,
        epochs=epochs,
    )


def not_tried(frozen: float, seconds: float, left: float, *, least: int) -> FineTuningOutcome:
    """Frozen features, as an epoch takes too many seconds for what is left of the budget.

    >>> print(not_tried(0.5, 200, 300, least=3).reason)
    not tried: the minimum number of epochs, 3, takes about 10m, and 5m of the budget are left
    """
    return FineTuningOutcome(
        chosen="frozen",
        reason=f"not tried: the minimum number of epochs, {least}, takes about "
        f"{spoken(least * seconds)}, and {spoken(max(left, 0))} of the budget are left",
        frozen_agreement=frozen,
    )


def failed(frozen: float, why: str) -> FineTuningOutcome:
    """Frozen features, as fine-tuning came to no end."""
    return FineTuningOutcome(
        chosen="frozen", reason=f"fine-tuning failed: {why}", frozen_agreement=frozen
    )


def held_out_agreement(epochs: Sequence[Mapping[str, float]]) -> float:
    """The largest share of held-out labels predicted after an epoch, while these were held out.

    >>> held_out_agreement([{"validation_accuracy": 0.7}, {"validation_accuracy": 0.6}, {}])
    0.7
    """
    return max((row.get("validation_accuracy", 0.0) for row in epochs), default=0.0)


@dataclass(frozen=True, kw_only=True, repr=False)
class Trained:
    """The result of a training: the model, its history, and a ledger of each sample."""

    model: torch.nn.Module
    encoder: Encoder
    data: LabeledData
    """The training data, with planted errors where the plan asked for them."""
    plan: Plan
    epoch: int
    """The epoch that the model is of, from 1: the last, or the best of a validation stop."""
    outcome: str
    """Why it ended, in words."""
    history: History
    ledger: Ledger
    folder: RunFolder | None
    finetuning: FineTuningOutcome | None = None
    """Whether the backbone was trained too, and why, where that was left open."""
    test: LabeledData | None = None
    """The test set, where there is one."""

    def __repr__(self) -> str:
        """The outcome in a line: a notebook would print every weight and label."""
        return (
            f"<Trained {self.plan.model or type(self.model).__name__} by {self.plan.method} "
            f"on {many(len(self.data), 'sample')} of {self.data.name}: {self.outcome}>"
        )

    @property
    def test_accuracy(self) -> float | None:
        """Accuracy of the model, where test labels are known."""
        return self.history.epochs[self.epoch - 1].get("test_accuracy")

    @property
    def held_out(self) -> HeldOut | None:
        """Held-out accuracy of the warm-up where its loss turned; None where there is none."""
        rows = [r for r in self.history.epochs if r.get("validation_loss", math.nan) < math.inf]
        if self.plan.warm_up_ends != "held-out" or not rows:
            return None
        best = min(rows, key=lambda row: row["validation_loss"])
        return HeldOut(
            epoch=int(best["epoch"]),
            accuracy=best["validation_accuracy"],
            rows=held_out_rows(self.plan, len(self.data))[0].numpy(),
        )

    def summary(self) -> dict[str, Any]:
        """The outcome in a few plain values; what is not a number is left out."""
        figures = {name: x for name, x in self.history.epochs[self.epoch - 1].items() if x == x}
        decided = {"finetuning": self.finetuning.as_json()} if self.finetuning else {}
        return {"outcome": self.outcome, "samples": len(self.data), **figures, **decided}


def run_once(
    setup: Setup,
    place: RunFolder | None,
    *,
    resumed: bool,
    hooks: Sequence[Hooks] = (),
    save_every: float,
    trial: Mapping[str, Any] | None = None,
) -> Trained:
    """Train to the end, and write down what began and what came of it.

    Args:
        setup: All that the training needs.
        place: The folder of the run.
        resumed: Whether it is there already.
        hooks: Of the user, after our own.
        save_every: Seconds between checkpoints within an epoch.
        trial: What is to be tried afterwards, for the folder.
    """
    prepared, plan, state = setup.prepared, setup.plan, setup.state
    reports = Reports(setup.augmentations)
    checkpoints = CheckpointFolder(place.path) if place else None
    loop = setup.loop(setup.model, [reports, *hooks], checkpoints, save_every)
    # Only now, when nothing that the user gave can be wrong any more.
    if place and not resumed and state.is_main_process:
        place.begin(
            plan=plan,
            sources=prepared.source.saved(),
            data=prepared.data,
            encoder=setup.task.encoder,
            manifest=prepared.manifest,
            processes=state.num_processes,
            device=_device_name(state.device),
            trial=trial,
        )
    state.wait_for_everyone()
    shown = reports.shown(loop.steps, plan.epochs or 0, place)
    with shown if state.is_main_process else nullcontext():
        loop.run()
    decided = place.metadata().get("finetuning") if place else None
    trained = Trained(
        model=loop.controller.final_model(),
        epoch=loop.controller.final_epoch(loop.position.epoch),
        encoder=setup.task.encoder,
        data=prepared.data,
        plan=plan,
        outcome=loop.position.outcome,
        history=loop.history,
        ledger=loop.whole_ledger().cpu(),
        folder=place,
        test=prepared.test,
        finetuning=FineTuningOutcome(**decided) if decided else None,
    )
    if place and state.is_main_process:
        place.finish(
            trained.model, trained.ledger, trained.history, trained.data, trained.summary()
        )
    state.wait_for_everyone()
    return trained


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
