"""What several processes must have alike: one decides, or all fail together."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object

from abstain.embed.finetuning import ImageFineTuning
from abstain.errors import AbstainError
from abstain.training.augmentation import known_augmentations, safe_augmentations
from abstain.training.loop.task import Task
from abstain.training.recipe import Recipe
from abstain.training.step_layout import Layout, fastest_layout

_Result = TypeVar("_Result")

_log = logging.getLogger(__name__)


def agreed(find: Callable[[], _Result], state: PartialState) -> _Result:
    """What the main process finds, on all: a measurement differs, and so does the time of day."""
    found: list[Any] = [find() if state.is_main_process else None]
    if state.num_processes > 1:
        broadcast_object_list(found)
    result: _Result = found[0]
    return result


def by_all(work: Callable[[], _Result], state: PartialState) -> _Result:
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


def agreed_layout(
    model: torch.nn.Module, task: Task, recipe: Recipe, state: PartialState
) -> Layout:
    """The fastest layout as the main process measures it."""

    def find() -> Layout:
        sample = next(task.training.epoch(0))
        inputs = task.encoder.to_model(sample.inputs)
        parts = recipe.parts if state.num_processes == 1 else 1  # processes are parts enough
        precision, memory_format = recipe.precision, recipe.memory_format
        if recipe.finetune and state.device.type == "cuda":
            # The fastest for EfficientNet-Lite2 on an H200, where to try all took over a minute.
            precision = "bf16" if precision == "auto" else precision
            memory_format = "channels-last" if memory_format == "auto" else memory_format
        return fastest_layout(model.to(state.device), inputs, precision, memory_format, parts)

    return agreed(find, state)


def agreed_augmentations(task: Task, recipe: Recipe, state: PartialState) -> tuple[str, ...]:
    """Those that a recipe names or, as the main process finds, those that are safe."""
    wanted, encoder = recipe.augment, task.encoder
    if not wanted:
        return ()
    if encoder.sees != "image":
        of_images = encoder.kind == "image"
        got = "features of images" if of_images else f"{encoder.kind} inputs"
        raise AbstainError(
            f"must be left out where no network learns from images, got {got}",
            argument="augment",
            remedy="{finetune} trains the backbone of images, {backbone} a network from scratch"
            if of_images
            else "",
            finetune=True,
            backbone="none",
        )
    if isinstance(wanted, tuple):
        return known_augmentations(wanted)

    def find() -> tuple[str, ...]:
        backbone = encoder.backbone if isinstance(encoder, ImageFineTuning) else None
        found = safe_augmentations(task, backbone, state.device)
        _log.info("safe augmentation, by held-out labels: %s", ", ".join(found) or "none")
        return found

    return agreed(find, state)
