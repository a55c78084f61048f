"""All that a training needs before its first step: task, network, layout, augmentation."""

from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs, PartialState

from abstain.embed.encoder import load_any_encoder
from abstain.scores.ledger import Ledger
from abstain.training.agreement import agreed_augmentations, agreed_layout, by_all
from abstain.training.loop.hooks import Hooks
from abstain.training.loop.loop import Loop
from abstain.training.loop.task import Task, make_task, normalisable
from abstain.training.methods import Precision
from abstain.training.network import (
    log_scaling,
    network_for,
    warn_of_large_images,
    warn_of_spellings,
    warn_of_values,
)
from abstain.training.prepared import Prepared
from abstain.training.recipe import Recipe
from abstain.training.saving.checkpoint import CheckpointFolder
from abstain.training.saving.run_folder import RunFolder
from abstain.training.step_layout import Layout


@dataclass(frozen=True, kw_only=True)
class Setup:
    """All that a training needs before its first step."""

    prepared: Prepared
    recipe: Recipe
    """With what was measured: network, precision, memory format, parts, augmentation."""
    task: Task
    model: torch.nn.Module
    layout: Layout
    augmentations: tuple[str, ...]
    state: PartialState

    def loop(
        self,
        model: torch.nn.Module,
        hooks: Hooks,
        checkpoints: CheckpointFolder | None = None,
        save_every: float = 60.0,
    ) -> Loop:
        """The training of a model, from its beginning."""
        state, encoder = self.state, self.task.encoder
        return Loop(
            model,
            self.task,
            self.recipe,
            accelerator=Accelerator(
                cpu=state.device.type == "cpu",
                mixed_precision="no",
                # Word vectors are a large buffer that never changes: nothing to keep in step.
                kwargs_handlers=[
                    DistributedDataParallelKwargs(broadcast_buffers=encoder.kind != "text")
                ],
            ),
            layout=self.layout,
            ledger=Ledger(len(self.prepared.data), state.device),
            hooks=hooks,
            checkpoints=checkpoints,
            save_every=save_every,
        )


def set_up(
    prepared: Prepared,
    recipe: Recipe,
    model: torch.nn.Module | None,
    state: PartialState,
    *,
    resumed: RunFolder | None = None,
    show: bool = False,
) -> Setup:
    """Encode the data, build the network, and measure how a step is fastest.

    Args:
        prepared: The data.
        recipe: Resolved.
        model: A network of the user's own.
        state: The processes that train together.
        resumed: The folder of the run that is taken up again.
        show: Show progress: bars on a terminal, a line a minute in a log.
    """
    data = prepared.data
    fitted = partial(prepared.encoder, finetune=bool(recipe.finetune), show=show)
    encoder = load_any_encoder(resumed.path) if resumed else by_all(fitted, state)
    task = make_task(data, prepared.test, encoder, recipe, state)
    model, name = network_for(model, task, recipe, resumed=resumed is not None)
    if state.is_main_process and resumed is None:
        log_scaling(data)
        warn_of_spellings(data)
        for part in (data, prepared.test):
            if part is not None:
                warn_of_values(part, encoder)
    if state.is_main_process and state.device.type == "cpu" and recipe.model is None:
        warn_of_large_images(name, encoder)
    task = normalisable(task, model)
    layout = agreed_layout(model, task, recipe, state)
    augmentations = agreed_augmentations(task, recipe, state)
    recipe = replace(
        recipe,
        model=name,
        precision=cast("Precision", layout.precision),
        memory_format="channels-last" if layout.channels_last else "contiguous",
        parts=layout.parts,
        augment=augmentations,
    )
    return Setup(
        prepared=prepared,
        recipe=recipe,
        task=task,
        model=model,
        layout=layout,
        augmentations=augmentations,
        state=state,
    )
