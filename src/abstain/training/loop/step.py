"""A model in training: what computes its outputs, and what moves its weights."""

import warnings
from collections.abc import Mapping

import torch
from accelerate import Accelerator
from torch import Tensor

from abstain.data import Encoder
from abstain.training.loop.averaging import Averaged
from abstain.training.loop.batches import Batch
from abstain.training.loop.optim import make_optimizer, make_schedule
from abstain.training.parts import Parts
from abstain.training.recipe import Recipe
from abstain.training.step_layout import Layout


class Learner:
    """A model with its optimiser, schedule and averages, on the device of this process.

    Args:
        model: m+1 outputs; of several networks, one more dimension in front.
        recipe: optimiser, schedule, clipping and averaging.
        encoder: turns stored inputs into those of the model.
        accelerator: wraps the model where several processes train it.
        layout: memory format, precision and parts of a step.
        steps: of the whole training, for the schedule.
        steps_per_epoch: of the first epochs, for the averages.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        recipe: Recipe,
        *,
        encoder: Encoder,
        accelerator: Accelerator,
        layout: Layout,
        steps: int,
        steps_per_epoch: int,
    ) -> None:
        self.encoder, self.accelerator, self.layout = encoder, accelerator, layout
        self._clip = recipe.clip
        self.optimizer = make_optimizer(model, recipe)
        self.schedule = make_schedule(self.optimizer, recipe, steps)
        # Kept, and not unwrapped each time: Accelerate would look for packages on the disk.
        self.plain_model = layout.place(model)
        self.averaged: Averaged | None = None
        if recipe.average is not None:
            placed = self.plain_model.to(accelerator.device)
            self.averaged = Averaged(placed, recipe.average * steps_per_epoch)
        self.model = _shared(self.plain_model, accelerator)
        self.parts = Parts(layout.parts, self.model)
        # Accelerate has one precision per process; a program may train again in another one. So
        # precision is the layout's, and half precision is scaled here.
        self.scaler = torch.amp.GradScaler(
            accelerator.device.type, enabled=layout.precision == "fp16"
        )

    def logits(self, batch: Batch, model: torch.nn.Module | None = None) -> Tensor:
        """Outputs for the samples of a batch: of the model in training, or of another one."""
        model = model or self.model

        def answer(part: Tensor) -> Tensor:
            part = self.layout.lay(self.encoder.to_model(part))
            with self.layout.autocast(part.device):
                logits: Tensor = model(part)
            return logits

        logits = self.parts(answer, batch.inputs)
        count = len(batch.index)  # what fills a batch up does not count
        return logits if logits.shape[-2] == count else logits[..., :count, :]

    def step(self, loss: Tensor) -> None:
        """Move the weights against the gradient of a loss."""
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        if self._clip is not None:
            self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self._clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.schedule.step()
        if self.averaged is not None:
            self.averaged.update()

    def current_model(self) -> torch.nn.Module:
        """The model as it would be used now: where weights are averaged, with these averages."""
        return self.plain_model if self.averaged is None else self.averaged.settle(self.plain_model)

    def evaluated_model(self) -> torch.nn.Module:
        """The same; where it is the model in training, as the processes share it."""
        return self.model if self.averaged is None else self.current_model()

    def restart(self, weights: Mapping[str, Tensor]) -> None:
        """Go on from other weights; the optimiser's moments belong to the old ones."""
        self.plain_model.load_state_dict(weights)
        self.optimizer.state.clear()
        if self.averaged is not None:
            self.averaged.restart(self.plain_model)


def _shared(model: torch.nn.Module, accelerator: Accelerator) -> torch.nn.Module:
    """A model on its device whose gradients are averaged over the processes."""
    if accelerator.num_processes == 1:
        return model.to(accelerator.device)  # without Accelerate's look for kinds of parallelism
    with warnings.catch_warnings():
        # Accelerate has no other name yet for what torch calls forward_sync_buffers by now.
        warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated", FutureWarning)
        shared: torch.nn.Module = accelerator.prepare(model)
    return shared
