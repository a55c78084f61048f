"""From a source to a trained model: load, plant, encode, build, loop."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from accelerate import PartialState

from abstain.arguments import typed
from abstain.data import LabeledData
from abstain.data.source import Source
from abstain.embed.choice import BUDGET
from abstain.errors import AbstainError
from abstain.support.progress import with_progress
from abstain.training.loop.hooks import Hooks
from abstain.training.plan import Plan
from abstain.training.processes import agreed, join_processes
from abstain.training.recipe import Recipe
from abstain.training.saving.run_folder import RunFolder, began_with
from abstain.training.setup import set_up
from abstain.training.sources import (
    check_options,
    plan_for,
    prepare,
    wanted_backbone,
)
from abstain.training.trained import Trained, run_once
from abstain.training.trial import Trial, TrialFolder, budget_seconds, planned, tried


@typed("recipe", "model")
@with_progress
def train(
    source: object = None,
    recipe: Recipe | Plan | None = None,
    *,
    backbone: str | None = None,
    finetune: bool | None = None,
    budget: float | str | None = None,
    test: object = None,
    folder: str | os.PathLike[str] | None = None,
    model: torch.nn.Module | None = None,
    resume: bool = False,
    hooks: Sequence[Hooks] = (),
    show: bool = False,
    save_every: float = 60.0,
    **options: Any,  # noqa: ANN401
) -> Trained:
    """Train a classifier on labels that may be partly wrong.

    Runs on one process or, under `accelerate launch` or `torchrun`, on many.

    Args:
        source: What `abstain.data.load` takes: a name, a path, arrays, a DataFrame, a data set.
        recipe: How; by default the method `auto`, with sizes that fit the data. A `Plan`, such as
            `trained.plan`, is followed as it is.
        backbone: The pretrained network for images and texts: `auto` (the
            best on this machine), `none`, or a name such as `timm:resnet50`; that of the recipe by
            default.
        finetune: Whether the backbone is trained too; with a recipe, it says so. By default that of
            images is where the budget allows to try it, and kept if it predicts more held-out
            labels than a network on frozen features.
        budget: Time for all of it, features included, in which fine-tuning may be tried: seconds,
            or a text such as "10m"; by default ten minutes on a GPU, and 0, never, on a CPU.
        test: Another source whose labels are right, for the history only; by default the test
            split of the source, where it has one.
        folder: Where to keep checkpoints, history, ledger and model; new or empty.
        model: A torch classifier of your own with one output per class, which is widened by the
            abstention output in place; or already with one more.
        resume: Go on with the run in `folder`; recipe and source then come from there. Data in
            memory and a model of your own must be given again.
        hooks: Take part in the training: see `abstain.training.loop.hooks.Hooks`.
        show: Show progress: bars on a terminal, a line a minute in a log.
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
    began = time.monotonic()
    _check(recipe, model, hooks, save_every)
    check_options(train, options)
    state = join_processes()
    seconds = budget_seconds(budget, state.device)
    run_folder = None if folder is None else RunFolder(agreed(lambda: os.fspath(folder), state))
    metadata = _metadata(run_folder, state) if resume else None
    named = Source(source, test, options)
    if metadata is None:
        if run_folder is not None:
            run_folder.check_new()
        asked = plan_for(recipe, finetune=finetune)
        asked = asked if backbone is None else replace(asked, backbone=backbone)
    else:
        asked = Plan.from_json(metadata["plan"])
        named = named if source is not None else Source.found_again(metadata["sources"])
    _check_network(asked, model)
    prepared, resolved = prepare(
        named,
        asked,
        wanted_backbone(asked, model),
        state,
        budget=seconds or BUDGET,
    )
    if metadata is None:
        trial = None if model else planned(asked, prepared, seconds)
    else:
        _check_same(metadata, prepared.data, run_folder)
        trial = Trial.from_json(metadata["trial"]) if "trial" in metadata else None
    resumed = None if metadata is None else run_folder
    with _memory(resolved):
        setup = set_up(prepared, resolved, model, state, resumed=resumed)
        trained = run_once(
            setup,
            run_folder,
            resumed=resumed is not None,
            hooks=hooks,
            save_every=save_every,
            trial=None if trial is None else trial.as_json(),
        )
    if trial is None:
        return trained
    return tried(trial, trained, prepared, state, began=began, hooks=hooks, save_every=save_every)


@contextmanager
def _memory(plan: Plan) -> Iterator[None]:
    """Say what to do where the memory of the device is too small for a batch.

    Batches are not halved here, as those of features are: it would be another training.
    """
    try:
        yield
    except torch.OutOfMemoryError:
        batch = plan.batch or 2
        raise AbstainError(
            f"must fit into the memory of the device, got {batch}, too many at once",
            argument="batch",
            remedy="start again with {batch}" if batch > 1 else "take a smaller network",
            batch=batch // 2,
        ) from None


def _check(recipe: object, model: object, hooks: object, save_every: float) -> None:
    if not isinstance(recipe, Recipe | Plan | None):
        raise AbstainError(
            f"must be a Recipe, such as Recipe.of('auto'), got {recipe!r}", argument="recipe"
        )
    if not isinstance(model, torch.nn.Module | None):
        raise AbstainError(
            f"must be a torch module, got {model!r}; a network of ours is named in the "
            "recipe: Recipe.of('auto', model='mlp')",
            argument="model",
        )
    if not isinstance(hooks, list | tuple) or not all(isinstance(x, Hooks) for x in hooks):
        raise AbstainError(f"must be a list of Hooks, got {hooks!r}", argument="hooks")
    if not save_every >= 0:  # nor is it a number otherwise
        raise AbstainError(f"must be at least 0 seconds, got {save_every}", argument="save_every")


def _check_network(plan: Plan, model: torch.nn.Module | None) -> None:
    if plan.finetune and (model is not None or plan.model not in (None, plan.backbone)):
        raise AbstainError(
            "must be left out where a model is given, got both: it trains the backbone",
            argument="finetune",
        )


def _check_same(
    metadata: Mapping[str, Any], data: LabeledData, run_folder: RunFolder | None
) -> None:
    if run_folder and not began_with(metadata, data):
        raise AbstainError(
            f"data must be those that the run in {run_folder.path} began with, got others from "
            f"{data.name}: put them back, or start a new run"
        )


def _metadata(run_folder: RunFolder | None, state: PartialState) -> dict[str, Any]:
    if run_folder is None:
        raise AbstainError("needs the folder of the run to go on with, got none", argument="resume")
    run_folder.metadata()  # or an error of all processes
    if state.is_main_process:
        TrialFolder(run_folder).settle()
    state.wait_for_everyone()
    return run_folder.metadata()
