"""All that a training needs before its first step: task, network, layout, augmentation."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

import torch
from accelerate import Accelerator, PartialState

from abstain.data import Encoder
from abstain.embed.encoder import load_any_encoder
from abstain.embed.finetuning import FineTuningEncoder, ImageFineTuning
from abstain.errors import AbstainError
from abstain.models import default_model, with_abstention
from abstain.models.own import is_own
from abstain.scores.ledger import Ledger
from abstain.training.loop.augmentation import known_augmentations, safe_augmentations
from abstain.training.loop.batches import Task, make_task, normalisable
from abstain.training.loop.hooks import Hooks
from abstain.training.loop.loop import Loop
from abstain.training.loop.step import Layout, layout_for
from abstain.training.plan import Plan, Precision
from abstain.training.processes import agreed, by_all
from abstain.training.saving.checkpoint import CheckpointFolder
from abstain.training.saving.run_folder import RunFolder, make_model
from abstain.training.sources import (
    Prepared,
    log_scaling,
    warn_of_spellings,
    warn_of_values,
)


@dataclass(frozen=True, kw_only=True)
class Setup:
    """All that a training needs before its first step."""

    prepared: Prepared
    plan: Plan
    """With the name of the network, the precision and the augmentation."""
    task: Task
    model: torch.nn.Module
    layout: Layout
    augmentations: tuple[str, ...]
    state: PartialState

    def loop(
        self,
        model: torch.nn.Module,
        hooks: Sequence[Hooks],
        checkpoints: CheckpointFolder | None = None,
        save_every: float = 60.0,
    ) -> Loop:
        """The training of a model, from its beginning."""
        state = self.state
        return Loop(
            model,
            self.task,
            self.plan,
            accelerator=Accelerator(
                cpu=state.device.type == "cpu",
                mixed_precision="no",
            ),
            layout=self.layout,
            ledger=Ledger(len(self.prepared.data), state.device),
            hooks=hooks,
            checkpoints=checkpoints,
            save_every=save_every,
        )


def set_up(
    prepared: Prepared,
    plan: Plan,
    model: torch.nn.Module | None,
    state: PartialState,
    *,
    resumed: RunFolder | None = None,
) -> Setup:
    """Encode the data and build the network.

    Args:
        prepared: The data.
        plan: Resolved.
        model: A network of the user's own.
        state: The processes that train together.
        resumed: The folder of the run that is taken up again.
    """
    data = prepared.data
    fitted = partial(prepared.encoder, finetune=bool(plan.finetune))
    encoder = load_any_encoder(resumed.path) if resumed else by_all(fitted, state)
    task = make_task(data, prepared.test, encoder, plan, state)
    model, name = network_for(model, task, plan, resumed=resumed is not None)
    if state.is_main_process and resumed is None:
        log_scaling(data)
        warn_of_spellings(data)
        for part in (data, prepared.test):
            if part is not None:
                warn_of_values(part, encoder)
    if state.is_main_process and state.device.type == "cpu" and plan.model is None:
        warn_of_large_images(name, encoder)
    task = normalisable(task, model)
    layout = layout_for(
        plan.precision,
        device=state.device,
        batch=(task.training.size, *encoder.input_shape),
        finetune=bool(plan.finetune),
    )
    augmentations = agreed_augmentations(task, plan, state)
    plan = replace(
        plan,
        model=name,
        precision=cast("Precision", layout.precision),
        augment=augmentations,
    )
    return Setup(
        prepared=prepared,
        plan=plan,
        task=task,
        model=model,
        layout=layout,
        augmentations=augmentations,
        state=state,
    )


_log = logging.getLogger(__name__)


def network_for(
    model: torch.nn.Module | None, task: Task, plan: Plan, *, resumed: bool
) -> tuple[torch.nn.Module, str | None]:
    """A model of m+1 outputs, and its name; None for a module that the caller made."""
    encoder, m = task.encoder, task.num_classes
    if model is None:
        if resumed and plan.model is None:
            raise AbstainError(
                "must be given: the run was begun with a module of your own, got none",
                argument="model",
            )
        if isinstance(encoder, FineTuningEncoder):
            name = encoder.backbone.name
        else:
            name = plan.model or default_model(encoder.sees, encoder.input_shape)
            if is_own(name):  # the file must still be found from elsewhere
                name = str(Path(name).absolute())
        model = make_model(name, encoder, m, plan.seed_init)
        if (outputs := _outputs(model, task)) != m + 1:
            raise AbstainError(
                f"model {name} must have {m + 1} outputs, one for each class and one to abstain, "
                f"got {outputs}"
            )
        return model, name
    return _widened(model, task), None


def warn_of_large_images(model: str | None, encoder: Encoder) -> None:
    """Say how a training on a CPU would be quicker, where the network was chosen for the size."""
    if model == "resnet18":
        _log.warning(
            "images of %d×%d pixels take long on a CPU: image_size=64 (--image-size 64) makes them "
            "smaller, for a network that is many times as fast",
            *encoder.input_shape[-2:],
        )


def _widened(model: torch.nn.Module, task: Task) -> torch.nn.Module:
    """A model of the caller with its abstention output."""
    m = task.num_classes
    return model if _outputs(model, task) == m + 1 else with_abstention(model, num_classes=m)


@torch.no_grad()
def _outputs(model: torch.nn.Module, task: Task) -> int:
    """Count the outputs of a model for a sample of the data."""
    inputs = torch.stack([torch.as_tensor(task.training.inputs[0])])
    inputs = inputs.to(next(model.parameters(), torch.empty(0)).device)
    training = model.training
    try:
        outputs = model.eval()(task.encoder.to_model(inputs))
    except Exception as error:
        shape = tuple(inputs.shape)
        raise AbstainError(
            f"must take a batch of the shape {shape}, got {type(error).__name__}: {error}",
            argument="model",
        ) from error
    model.train(training)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise AbstainError(
            "must have weights to train, got none that require a gradient", argument="model"
        )
    if not isinstance(outputs, torch.Tensor) or outputs.ndim != 2:
        got = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else type(outputs).__name__
        raise AbstainError(
            f"must return logits of the shape (batch, outputs), got {got}", argument="model"
        )
    return outputs.shape[1]


def agreed_augmentations(task: Task, plan: Plan, state: PartialState) -> tuple[str, ...]:
    """Those that a plan names or, as the main process finds, those that are safe."""
    wanted, encoder = plan.augment, task.encoder
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
