"""From a source to a trained model: load, plant, encode, build, loop."""

import os
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch

from abstain.arguments import typed
from abstain.errors import AbstainError
from abstain.training.agreement import agreed
from abstain.training.checkpoint import CheckpointFolder
from abstain.training.devices import join_processes
from abstain.training.prepared import prepare
from abstain.training.recipe import Recipe, recipe_or_default
from abstain.training.reports import Reports
from abstain.training.run_folder import RunFolder, began_with
from abstain.training.run_sources import check_options, recalled, remembered, wanted_backbone
from abstain.training.setup import Setup, set_up
from abstain.training.trained import Trained


@typed("recipe", "model")
def train(
    source: object = None,
    recipe: Recipe | None = None,
    *,
    backbone: str | None = None,
    finetune: bool | None = None,
    test: object = None,
    folder: str | os.PathLike[str] | None = None,
    model: torch.nn.Module | None = None,
    resume: bool = False,
    show: bool = False,
    save_every: float = 60.0,
    **options: Any,  # noqa: ANN401
) -> Trained:
    """Train a classifier on labels that may be partly wrong.

    Runs on one process or, under `accelerate launch` or `torchrun`, on many.

    Args:
        source: What `abstain.data.load` takes: a name, a path, arrays, a DataFrame, a data set.
        recipe: How; by default the method `auto`, with sizes that fit the data.
        backbone: The pretrained network by whose features images and texts are seen: `auto` (one
            that is installed), `none`, or a name such as `timm:resnet50`; that of the recipe by
            default.
        finetune: Whether the backbone of images is trained too; with a recipe, it says so.
        test: Another source whose labels are right, for the history only; by default the test
            split of the source, where it has one.
        folder: Where to keep checkpoints, history, ledger and model; new or empty.
        model: A torch classifier of your own with one output per class, which is widened by the
            abstention output in place; or already with one more. For co-teaching, a
            `train.coteaching.Pair` of two.
        resume: Go on with the run in `folder`; recipe and source then come from there. Data in
            memory and a model of your own must be given again.
        show: Show progress, where there is a terminal.
        save_every: Seconds between checkpoints within an epoch.
        **options: For `abstain.data.load`: `label`, `features`, `data_dir`, `skip_bad`, …;
            `features` may also name an `.npy` with a row of numbers per sample, to be trained on
            instead of the source's own inputs. `weights` names a column, or a file, with how
            much each sample counts: its loss is multiplied by that.

    Raises:
        Interrupted: A signal asked to stop; everything is saved, and `resume` goes on.

    >>> train("digits", Recipe(epochs=2, warm_up=1)).outcome
    'all 2 epochs are done'
    """
    _check(recipe, model, save_every)
    check_options(train, options)
    state = join_processes()
    place = None if folder is None else RunFolder(agreed(lambda: os.fspath(folder), state))
    about = _about(place) if resume else None
    if place and about is None:
        place.check_new()
    sources: dict[str, Any] = {"train": source, "test": test, "options": options}
    if about and source is None:
        sources = recalled(about["sources"])
    if about:
        recipe = Recipe.from_json(about["recipe"])
    else:
        recipe = recipe_or_default(recipe, finetune=finetune)
        recipe = recipe if backbone is None else replace(recipe, backbone=backbone)
    if recipe.finetune and (model is not None or recipe.model not in (None, recipe.backbone)):
        raise AbstainError(
            "must be left out where a model is given, got both: it trains the backbone",
            argument="finetune",
        )
    wanted = wanted_backbone(recipe, model)
    prepared, recipe = prepare(sources, recipe, wanted, state, show=show)
    if place and about and not began_with(about, prepared.data):
        raise AbstainError(
            f"data must be those that the run in {place.path} began with, got others from "
            f"{prepared.data.name}: put them back, or start a new run"
        )
    resumed = place if about else None
    setup = set_up(prepared, recipe, model, state, resumed=resumed, show=show)
    return _run(setup, place, resumed=about is not None, show=show, save_every=save_every)


def _run(
    setup: Setup, place: RunFolder | None, *, resumed: bool, show: bool, save_every: float
) -> Trained:
    """Train to the end, and write down what began and what came of it."""
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
        )
    state.wait_for_everyone()
    shown = reports.shown(loop.steps, recipe.epochs or 0, place, visible=show)
    with shown if state.is_main_process else nullcontext():
        loop.run()
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
    )
    if place and state.is_main_process:
        place.finish(
            trained.model, trained.ledger, trained.history, trained.data, trained.summary()
        )
    state.wait_for_everyone()
    return trained


def _check(recipe: object, model: object, save_every: float) -> None:
    if not isinstance(recipe, Recipe | None):
        raise AbstainError(
            f"must be a Recipe, such as Recipe.of('auto'), got {recipe!r}", argument="recipe"
        )
    if not isinstance(model, torch.nn.Module | None):
        raise AbstainError(
            f"must be a torch module, got {model!r}; a network of ours is named in the "
            "recipe: Recipe.of('auto', model='mlp')",
            argument="model",
        )
    if not save_every >= 0:  # nor is it a number otherwise
        raise AbstainError(f"must be at least 0 seconds, got {save_every}", argument="save_every")


def _about(place: RunFolder | None) -> dict[str, Any]:
    if place is None:
        raise AbstainError("needs the folder of the run to go on with, got none", argument="resume")
    return place.about()


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
