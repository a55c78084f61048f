"""Fine-tuning that is tried where the time allows it, and kept where held-out labels agree.

frozen features ──▶ head ──▶ held-out labels it predicts ─┐
backbone ──▶ a few timed steps ──▶ its epochs ────────────┴──▶ who predicts more is the run

The head on frozen features is always trained first: it is cheap, and a result to fall back on. Not
the loss decides: where labels are wrong, it punishes the better network for being sure
(bench/better_of_two.py).
"""

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState

from abstain.embed.backbones.names import NONE, backbone_named
from abstain.embed.choice import BUDGET
from abstain.embed.embedding import seconds_to_embed
from abstain.embed.finetuning import FineTuningEncoder, is_trainable
from abstain.errors import DivergedError
from abstain.support.duration import seconds_of
from abstain.training.loop.hooks import Hooks, Reports
from abstain.training.loop.step import copied
from abstain.training.plan import Plan
from abstain.training.processes import agreed
from abstain.training.recipe import fine_tuned
from abstain.training.saving.run_folder import RunFolder
from abstain.training.setup import Setup, set_up
from abstain.training.sources import Prepared
from abstain.training.trained import (
    FineTuningOutcome,
    Trained,
    compared,
    failed,
    held_out_agreement,
    not_tried,
    run_once,
)

_NAME = "finetuned"


class TrialFolder(RunFolder):
    """The folder of a training that is tried; a process may be killed at any point.

    Where the run is resumed, `settle` comes first. Then the trial is to be made or to be gone on
    with if run.json of the run still has it, and decided if not.
    """

    def __init__(self, run: RunFolder) -> None:
        super().__init__(run.path / _NAME)
        self._run = run

    @property
    def has_begun(self) -> bool:
        """Whether there is something to go on with."""
        return (self.path / "run.json").exists()

    def clear(self) -> None:
        """Remove what is there."""
        shutil.rmtree(self.path, ignore_errors=True)

    def lose(self, decided: Mapping[str, Any], summary: Mapping[str, Any]) -> None:
        """The run stays as it is; what was decided is recorded there."""
        self._run.decide(decided, summary)
        self.clear()

    def win(self, decided: Mapping[str, Any], summary: Mapping[str, Any]) -> None:
        """The run becomes what was tried."""
        self.decide(decided, summary)
        self.settle()

    def settle(self) -> None:
        """Bring to its end what a killed process left half done."""
        if self.has_begun and "finetuning" in self.metadata():
            self._move_up()
        elif "trial" not in self._run.metadata():
            self.clear()

    def _move_up(self) -> None:
        """Move all files into the folder of the run; without a model until they are there.

        run.json goes last but for the model, which the last checkpoint can make again.
        """
        with self.writing():
            (self._run.path / "model.safetensors").unlink(missing_ok=True)
            last = ("run.json", "model.safetensors")
            others = [path.name for path in self.path.iterdir() if path.name not in last]
            for name in (*others, *last):
                if (self.path / name).exists():
                    _replace(self.path / name, self._run.path / name)
        self.clear()


def _replace(path: Path, target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    path.replace(target)


LEAST_EPOCHS = 3
"""Fewer leave no time between the warm-up and the end."""
_TIMED_STEPS = 3
_FORWARD = 1 / 3
"""Time of a forward pass, as a part of that of a step."""
_SURELY = 2
"""Factor by which a rough estimate must exceed the time that is left."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The fine-tuning to try after the training on frozen features."""

    plan: Plan
    """Plan of the fine-tuning; sizes are not resolved."""
    budget: float
    """Seconds for all: features, the training before, and this one."""

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return {"plan": self.plan.as_json(), "budget": self.budget}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Trial":
        """Restore what `as_json` gave."""
        return cls(plan=Plan.from_json(values["plan"]), budget=values["budget"])


def budget_seconds(budget: float | str | None, device: torch.device) -> float:
    """The time in which fine-tuning may be tried: as given; by default none on a CPU.

    >>> budget_seconds("5m", torch.device("cpu"))
    300.0
    >>> [budget_seconds(None, torch.device(x)) for x in ("cpu", "cuda")]
    [0.0, 600.0]
    """
    if budget is None:
        return BUDGET if device.type == "cuda" else 0.0
    return seconds_of(budget, "budget")


def planned(plan: Plan, prepared: Prepared, budget: float) -> Trial | None:
    """Fine-tuning, where it is left open, possible, and measurable by held-out labels.

    Args:
        plan: Not resolved.
        prepared: The data.
        budget: In seconds.
    """
    data, name = prepared.data, prepared.backbone.name
    is_open = plan.finetune is None and plan.model is None and budget > 0
    if not is_open or data.kind != "image" or name == NONE or not plan.held_out(len(data)):
        return None
    if not is_trainable(backbone_named(name, data.kind)):
        return None
    return Trial(plan=replace(fine_tuned(plan), backbone=name), budget=budget)


def tried(
    trial: Trial,
    frozen: Trained,
    prepared: Prepared,
    state: PartialState,
    *,
    began: float,
    hooks: Sequence[Hooks] = (),
    save_every: float,
) -> Trained:
    """The better of two trainings, in the one folder of the run.

    Args:
        trial: What is tried.
        frozen: The training on frozen features.
        prepared: The data of both.
        state: The processes that train together.
        began: When the run did, by `time.monotonic`.
        hooks: Take part in both trainings.
        save_every: Seconds between checkpoints within an epoch.
    """
    place = TrialFolder(frozen.folder) if frozen.folder else None
    resumed = place is not None and place.has_begun
    agreement = held_out_agreement(frozen.history.epochs)
    tuned: Trained | None = None
    try:
        if place is not None and resumed:
            plan = Plan.from_json(place.metadata()["plan"])
            setup = set_up(prepared, plan, None, state, resumed=place)
        else:
            if place is not None and state.is_main_process:
                place.clear()  # a process may have been killed before it began
            fitted = _fitted(trial, prepared, state, began)
            if isinstance(fitted, _Misfit):
                comparison = not_tried(agreement, fitted.seconds, fitted.left, least=LEAST_EPOCHS)
                return _decided(frozen, comparison, place, state)
            setup = fitted
        tuned = run_once(setup, place, resumed=resumed, hooks=hooks, save_every=save_every)
    except DivergedError:
        comparison = failed(agreement, "the training diverged")
    except torch.OutOfMemoryError:
        comparison = failed(agreement, "the device has too little memory")
    else:
        comparison = compared(
            agreement,
            held_out_agreement(tuned.history.epochs),
            held_out=tuned.plan.held_out(len(prepared.data)),
            epochs=tuned.plan.epochs or 0,
        )
    chosen = tuned if tuned is not None and comparison.chosen == "fine-tuned" else frozen
    return _decided(replace(chosen, folder=frozen.folder), comparison, place, state)


@dataclass(frozen=True)
class _Misfit:
    """A budget that is too small."""

    seconds: float
    """For an epoch."""
    left: float


def _fitted(trial: Trial, prepared: Prepared, state: PartialState, began: float) -> Setup | _Misfit:
    """The set-up of as many epochs as fit into what is left of the budget."""
    plan = prepared.resolved(trial.plan)
    wanted = plan.epochs or 0
    least = min(LEAST_EPOCHS, wanted)

    def left() -> float:
        return agreed(lambda: trial.budget - (time.monotonic() - began), state)

    # To decode all images takes long by itself: not where it is in vain.
    rough = agreed(lambda: _rough_epoch(prepared), state)
    if rough * least > _SURELY * left():
        return _Misfit(rough, left())
    setup = set_up(prepared, plan, None, state)
    seconds = seconds_per_epoch(setup)
    epochs = min(wanted, int(left() / seconds))
    if epochs < least:
        return _Misfit(seconds, left())
    return replace(setup, plan=replace(setup.plan, epochs=epochs))


def _rough_epoch(prepared: Prepared) -> float:
    """Estimate the seconds of an epoch from a forward pass of a batch."""
    backbone = backbone_named(prepared.backbone.name, prepared.data.kind)
    sized = FineTuningEncoder.fit(prepared.data, backbone).backbone
    return seconds_to_embed(prepared.data, sized) / _FORWARD


def seconds_per_epoch(setup: Setup) -> float:
    """Measure the seconds of an epoch by a few real steps of a copy of the network."""
    task = setup.task
    loop = setup.loop(copied(setup.model), [Reports(setup.augmentations)])
    step = loop.seconds_per_step(_TIMED_STEPS)
    seen = sum(len(part.rows) for part in (task.hold_out, task.test) if part is not None)
    steps = len(task.everything or task.training) + _FORWARD * seen / task.training.size
    return agreed(lambda: step * steps, setup.state)


def _decided(
    chosen: Trained, comparison: FineTuningOutcome, place: TrialFolder | None, state: PartialState
) -> Trained:
    """The training that is the run, with what was decided, also in its folder."""
    chosen = replace(chosen, finetuning=comparison)
    if place is not None and state.is_main_process:
        record = place.win if comparison.chosen == "fine-tuned" else place.lose
        record(comparison.as_json(), chosen.summary())
    state.wait_for_everyone()
    return chosen
