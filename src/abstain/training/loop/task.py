"""What is trained on what: the data of a training, as batches on the device of this process."""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from accelerate import PartialState
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from abstain.data import Encoder, LabeledData
from abstain.data.inputs import resident
from abstain.errors import AbstainError
from abstain.training.loop.batches import Batches, workers_for
from abstain.training.objective.from_recipe import held_out_rows
from abstain.training.recipe import Recipe

_EVALUATED_NUMBERS = 2**20


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is trained on what: the same on every process, and never changed by the loop."""

    encoder: Encoder
    num_classes: int
    training: Batches
    given: Tensor
    """Labels of all samples, on the device; those of the training rows train."""
    true: Tensor | None = None
    """Where known, only for the clean and corrupt parts of the loss in the history."""
    weights: Tensor | None = None
    """How much each sample counts, on the device; alike where there are none."""
    hold_out: Batches | None = None
    """Rows held out for the validation stop, or for the warm-up; judged by their given labels."""
    everything: Batches | None = None
    """All rows: what is trained on after a warm-up that ends by itself."""
    test: Batches | None = None
    test_labels: Tensor | None = None


def make_task(
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
            filled=state.device.type == "cuda" and encoder.sees == "image",
            workers=workers_for(encoder),
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


def normalisable(task: Task, model: torch.nn.Module) -> Task:
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
