"""One training, from its set-up to its end, in its folder."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import torch

from abstain.training.comparison import Comparison
from abstain.training.loop.reports import Reports
from abstain.training.plan import Setup
from abstain.training.saving.checkpoint import CheckpointFolder
from abstain.training.saving.run_folder import RunFolder
from abstain.training.sources import remembered
from abstain.training.trained import Trained


def run_once(
    setup: Setup,
    place: RunFolder | None,
    *,
    resumed: bool,
    show: bool,
    save_every: float,
    trial: Mapping[str, Any] | None = None,
) -> Trained:
    """Train to the end, and write down what began and what came of it.

    Args:
        setup: All that the training needs.
        place: The folder of the run.
        resumed: Whether it is there already.
        show: Show progress: bars on a terminal, a line a minute in a log.
        save_every: Seconds between checkpoints within an epoch.
        trial: What is to be tried afterwards, for the folder.
    """
    prepared, recipe, state = setup.prepared, setup.recipe, setup.state
    reports = Reports(setup.augmentations)
    checkpoints = CheckpointFolder(place.path) if place else None
    loop = setup.loop(setup.model, reports, checkpoints, save_every)
    # Only now, when nothing that the user gave can be wrong any more.
    if place and not resumed and state.is_main_process:
        place.begin(
            recipe=recipe,
            sources=remembered(prepared.sources),
            data=prepared.data,
            encoder=setup.task.encoder,
            manifest=prepared.manifest,
            processes=state.num_processes,
            device=_device_name(state.device),
            trial=trial,
        )
    state.wait_for_everyone()
    shown = reports.shown(loop.steps, recipe.epochs or 0, place, visible=show)
    with shown if state.is_main_process else nullcontext():
        loop.run()
    decided = place.about().get("finetuning") if place else None
    trained = Trained(
        model=loop.judge.final_model(),
        epoch=loop.judge.final_epoch(loop.position.epoch),
        encoder=setup.task.encoder,
        data=prepared.data,
        recipe=recipe,
        outcome=loop.position.outcome,
        history=loop.history,
        ledger=loop.whole_ledger().cpu(),
        folder=place,
        test=prepared.test,
        finetuning=Comparison(**decided) if decided else None,
    )
    if place and state.is_main_process:
        place.finish(
            trained.model, trained.ledger, trained.history, trained.data, trained.summary()
        )
    state.wait_for_everyone()
    return trained


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
