"""From a source to a trained model: load, plant, encode, build, loop."""

import logging
import math
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs, PartialState
from accelerate.utils import broadcast_object_list, gather_object
from torch.nn.modules.batchnorm import _BatchNorm

from abstain.arguments import typed
from abstain.data import Encoder, LabeledData, fit_encoder
from abstain.embed.choice import Choice
from abstain.embed.encoder import BackboneEncoder, load_any_encoder
from abstain.embed.finetuning import FineTuningEncoder
from abstain.embed.names import NONE, backbone_named
from abstain.errors import AbstainError
from abstain.scores.ledger import Ledger
from abstain.training import coteaching
from abstain.training.augmentation import (
    augmented,
    known_augmentations,
    safe_augmentations,
)
from abstain.training.batches import Batch, Batches, resident
from abstain.training.checkpoint import CheckpointFolder
from abstain.training.devices import join_processes
from abstain.training.display import Display, live_display
from abstain.training.from_recipe import held_out_rows
from abstain.training.history import Row
from abstain.training.hooks import Hooks
from abstain.training.loop import Loop
from abstain.training.network import (
    log_scaling,
    network_for,
    warn_of_large_images,
    warn_of_spellings,
    warn_of_values,
)
from abstain.training.recipe import MemoryFormat, Precision, Recipe, recipe_or_default
from abstain.training.run_folder import RunFolder, began_with
from abstain.training.run_sources import (
    check_options,
    load_for,
    plant,
    recalled,
    remembered,
    wanted_backbone,
)
from abstain.training.step_layout import Layout, fastest_layout
from abstain.training.task import Task
from abstain.training.trained import Trained

_Result = TypeVar("_Result")

_log = logging.getLogger(__name__)
_EVALUATED_NUMBERS = 2**20


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
    place = None if folder is None else RunFolder(_agreed(os.fspath(folder), state))
    about = _about(place) if resume else None
    if place and about is None:
        place.check_new()
    sources: dict[str, Any] = {"train": source, "test": test, "options": options}
    if about and source is None:
        sources = recalled(about["sources"])
    if about:
        recipe = Recipe.from_json(about["recipe"])
    recipe = recipe_or_default(recipe, finetune=finetune if about is None else None)
    if backbone is not None and about is None:
        recipe = replace(recipe, backbone=backbone)
    wanted = wanted_backbone(recipe, model)
    if recipe.finetune and (model is not None or recipe.model not in (None, recipe.backbone)):
        raise AbstainError(
            "must be left out where a model is given, got both: it trains the backbone",
            argument="finetune",
        )
    loaded = _by_all(partial(load_for, sources, wanted, show=show), state)
    data, test_data = loaded.data, loaded.test
    recipe = replace(recipe, backbone=loaded.backbone.name)
    numbers = data.kind == "table" or loaded.backbone.name != NONE
    recipe = recipe.resolved(num_samples=len(data), num_classes=data.num_classes, numbers=numbers)
    if data.weights is not None and recipe.method == coteaching.METHOD:
        raise AbstainError(
            f"must be left out for {recipe.method}, which chooses samples", argument="weights"
        )
    data, manifest = plant(data, recipe)
    if place and about and not began_with(about, data):
        raise AbstainError(
            f"data must be those that the run in {place.path} began with, got others from "
            f"{data.name}: put them back, or start a new run"
        )
    fitted = partial(_fitted, data, loaded.backbone, finetune=recipe.finetune, show=show)
    encoder = load_any_encoder(place.path) if place and about else _by_all(fitted, state)
    task = _task(data, test_data, encoder, recipe, state)
    model, name = network_for(model, task, recipe, resumed=about is not None)
    if state.is_main_process and about is None:
        log_scaling(data)
        warn_of_spellings(data)
        for part in (data, test_data):
            if part is not None:
                warn_of_values(part, encoder)
    if state.is_main_process and state.device.type == "cpu" and recipe.model is None:
        warn_of_large_images(name, encoder)
    task = _normalisable(task, model)
    layout = _agreed_layout(model, task, recipe, state)
    memory_format: MemoryFormat = "channels-last" if layout.channels_last else "contiguous"
    precision = cast("Precision", layout.precision)
    recipe = replace(
        recipe, model=name, precision=precision, memory_format=memory_format, parts=layout.parts
    )
    augmentations = _agreed_augmentations(task, recipe.augment, state)
    recipe = replace(recipe, augment=augmentations)
    reports = _Reports(augmentations)
    loop = Loop(
        model,
        task,
        recipe,
        accelerator=Accelerator(
            cpu=state.device.type == "cpu",
            mixed_precision="no",
            # Word vectors are a large buffer that never changes: nothing there to keep in step.
            kwargs_handlers=[
                DistributedDataParallelKwargs(broadcast_buffers=encoder.kind != "text")
            ],
        ),
        layout=layout,
        ledger=Ledger(len(data), state.device),
        hooks=reports,
        checkpoints=CheckpointFolder(place.path) if place else None,
        save_every=save_every,
    )
    # Only now, when nothing that the user gave can be wrong any more.
    if place and about is None and state.is_main_process:
        place.begin(
            recipe=recipe,
            sources=remembered(sources),
            data=data,
            encoder=encoder,
            manifest=manifest,
            processes=state.num_processes,
            device=_device_name(state.device),
        )
    state.wait_for_everyone()
    with ExitStack() as shown:
        if state.is_main_process:
            reports.to.append(
                shown.enter_context(live_display(loop.steps, recipe.epochs or 0, visible=show))
            )
            if place is not None:
                reports.to.append(shown.enter_context(_tensorboard(place)))
        loop.run()
    trained = Trained(
        model=loop.judge.final_model(),
        epoch=loop.judge.final_epoch(loop.position.epoch),
        encoder=encoder,
        data=data,
        recipe=recipe,
        outcome=loop.position.outcome,
        history=loop.history,
        ledger=loop.whole_ledger().cpu(),
        folder=place,
        test=test_data,
    )
    if place and state.is_main_process:
        place.finish(trained.model, trained.ledger, trained.history, data, trained.summary())
    state.wait_for_everyone()
    return trained


def _fitted(data: LabeledData, backbone: Choice, *, finetune: bool, show: bool) -> Encoder:
    """The encoder of a training, fitted to its data."""
    if backbone.name == NONE and finetune:
        why = f": {backbone.reason}" if backbone.reason else ""
        raise AbstainError(f"needs a backbone, got none for {data.name}{why}", argument="finetune")
    if backbone.name == NONE:
        return fit_encoder(data)
    _log.info("%s by %s: %s", data.name, backbone.name, backbone.reason)
    network = backbone_named(backbone.name, data.kind)
    if finetune:
        return FineTuningEncoder.fit(data, network, reason=backbone.reason)
    return BackboneEncoder.fit(data, network, reason=backbone.reason, show=show)


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


def _agreed(folder: str, state: PartialState) -> str:
    """The folder as the main process names it: a name may hold the time of day."""
    names = [folder]
    if state.num_processes > 1:
        broadcast_object_list(names)
    return names[0]


def _by_all(work: Callable[[], _Result], state: PartialState) -> _Result:
    """What some work gives; an error of one process is raised by all, or they would wait for it.

    The main process goes first: the others then find the decoded data in the cache.
    """
    for is_next in (state.is_main_process, not state.is_main_process):
        failures: list[AbstainError] = []
        if is_next:
            try:
                result = work()
            except AbstainError as error:
                failures.append(error)
        for failure in gather_object(failures):
            raise failure
    return result


def _about(place: RunFolder | None) -> dict[str, Any]:
    if place is None:
        raise AbstainError("needs the folder of the run to go on with, got none", argument="resume")
    return place.about()


def _task(
    data: LabeledData,
    test_data: LabeledData | None,
    encoder: Encoder,
    recipe: Recipe,
    state: PartialState,
) -> Task:
    """The data as batches on the device of this process."""
    assert recipe.batch is not None
    inputs = resident(encoder.encode(data), state.device)
    held_out, rest = held_out_rows(recipe, len(data))

    def batches(inputs: Any, rows: torch.Tensor, size: int) -> Batches:  # noqa: ANN401
        return Batches(
            inputs=inputs,
            rows=rows,
            size=size,
            seed=recipe.seed_order,
            device=state.device,
            rank=state.process_index,
            world=state.num_processes,
            workers=0 if isinstance(inputs, torch.Tensor) else min(4, os.cpu_count() or 1),
        )

    # Enough to keep small models busy, and no more activations than a step of the training has.
    fitting = _EVALUATED_NUMBERS // math.prod(encoder.input_shape)
    large = max(recipe.batch, min(512, fitting))
    test = None
    if test_data is not None:
        test_inputs = resident(encoder.encode(test_data), state.device)
        test = batches(test_inputs, torch.arange(len(test_data)), large)
    return Task(
        encoder=encoder,
        num_classes=data.num_classes,
        training=batches(inputs, rest, recipe.batch),
        given=data.given.to(state.device),
        true=None if data.true is None else data.true.to(state.device),
        weights=None if data.weights is None else data.weights.to(state.device),
        hold_out=batches(inputs, held_out, large) if len(held_out) else None,
        everything=batches(inputs, torch.arange(len(data)), recipe.batch)
        if recipe.warm_up_ends == "held-out"
        else None,
        test=test,
        test_labels=None if test_data is None else test_data.given.to(state.device),
    )


def _normalisable(task: Task, model: torch.nn.Module) -> Task:
    """With two samples at least in every batch of every process, where the model has batch norms.

    Of a single one they know no spread.
    """
    kinds = {type(p).__name__ for p in model.modules() if isinstance(p, _BatchNorm)}
    if not kinds:
        return task
    least = 2 * task.training.world
    if (batch := min(task.training.size, len(task.training.rows))) < least:
        raise AbstainError(
            f"must be at least {least} for a model with {', '.join(sorted(kinds))}, two for "
            f"each process, got {batch}",
            argument="batch",
        )
    everything = None if task.everything is None else replace(task.everything, least=least)
    return replace(task, training=replace(task.training, least=least), everything=everything)


def _agreed_layout(
    model: torch.nn.Module, task: Task, recipe: Recipe, state: PartialState
) -> Layout:
    """The fastest layout as the main process measures it, the same on all."""
    choice: list[Any] = [None]
    if state.is_main_process:
        sample = next(task.training.epoch(0))
        inputs = task.encoder.to_model(sample.inputs)
        model = model.to(state.device)
        parts = recipe.parts if state.num_processes == 1 else 1  # processes are parts enough
        precision, memory_format = recipe.precision, recipe.memory_format
        if recipe.finetune and state.device.type == "cuda":
            # The fastest for EfficientNet-Lite2 on an H200, where to try all took over a minute.
            precision = "bf16" if precision == "auto" else precision
            memory_format = "channels-last" if memory_format == "auto" else memory_format
        choice = [fastest_layout(model, inputs, precision, memory_format, parts)]
    if state.num_processes > 1:
        broadcast_object_list(choice)
    layout: Layout = choice[0]
    return layout


def _agreed_augmentations(
    task: Task, wanted: bool | tuple[str, ...] | None, state: PartialState
) -> tuple[str, ...]:
    """Those that are named or, as the main process finds, safe; the same on all."""
    if not wanted:
        return ()
    encoder = task.encoder
    if encoder.sees != "image":
        raise AbstainError(
            f"must be left out where no network learns from images, got {encoder.sees} inputs",
            argument="augment",
            remedy="{finetune} trains the backbone of images",
            finetune=True,
        )
    if isinstance(wanted, tuple):
        return known_augmentations(wanted)
    found: list[Any] = [()]
    if state.is_main_process:
        backbone = encoder.backbone if isinstance(encoder, FineTuningEncoder) else None
        found = [safe_augmentations(task, backbone, state.device)]
        _log.info("safe augmentation, by held-out labels: %s", ", ".join(found[0]) or "none")
    if state.num_processes > 1:
        broadcast_object_list(found)
    return tuple(found[0])


class _Reports(Hooks):
    """Augments batches; shows the rows of the history, on the terminal and in TensorBoard."""

    def __init__(self, augmentations: tuple[str, ...]) -> None:
        self.augmentations = augmentations
        self.to: list[Display] = []

    def on_batch(self, batch: Batch) -> Batch:
        if not self.augmentations:
            return batch
        return replace(batch, inputs=augmented(batch.inputs, self.augmentations))

    def on_row(self, kind: str, row: Row) -> None:
        for display in self.to:
            display(kind, row)


@contextmanager
def _tensorboard(place: RunFolder) -> Iterator[Display]:
    """Writes rows for TensorBoard, where it is installed: the Parquet files hold the same."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        yield lambda _kind, _row: None
        return
    writers: list[Any] = []

    def log(kind: str, row: Row) -> None:
        step = int(row["step"])
        with place.writing():
            if not writers:
                # A killed run was ahead of its checkpoint: what it logged there comes again.
                writers.append(SummaryWriter(str(place.path / "tensorboard"), purge_step=step))
            for name in row.keys() - {"step", "epoch"}:
                writers[0].add_scalar(f"{kind}/{name}", row[name], step)

    try:
        yield log
    finally:
        with place.writing():
            for writer in writers:
                writer.close()


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
