"""A step of a training: forward, loss, backward, clip, step; and the average of the weights."""

import copy
import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from abstain.data import Encoder
from abstain.embed.finetuning import FineTuned
from abstain.support.optimizers import SGD, Adam, AdamW, LaProp
from abstain.training.loop.batches import Batch
from abstain.training.plan import Plan
from abstain.training.saving.checkpoint import JSON, Checkpoint, Part
from abstain.training.saving.state import pack_optimizer, unpack_optimizer

# Numbers in a batch from which the shorter arithmetic of bf16 outweighs the casting: a third of the
# time at 50,000 × 1,280 on two cores (results/precision.json).
_MANY_NUMBERS = 2**19


@dataclass(frozen=True)
class Layout:
    """The precision in which a step is computed, and how its images lie in memory."""

    channels_last: bool = False
    precision: str = "fp32"

    def place(self, model: torch.nn.Module) -> torch.nn.Module:
        """The model in this memory format."""
        return model.to(memory_format=torch.channels_last) if self.channels_last else model  # type: ignore[call-overload]

    def lay(self, inputs: Tensor) -> Tensor:
        """A batch in this memory format."""
        if self.channels_last and inputs.ndim == 4:
            return inputs.contiguous(memory_format=torch.channels_last)
        return inputs

    def autocast(self, device: torch.device) -> torch.autocast:
        """The context in which operations run in this precision."""
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.precision)
        return torch.autocast(device.type, dtype, enabled=dtype is not None)


def layout_for(
    precision: str, *, device: torch.device, batch: tuple[int, ...], finetune: bool = False
) -> Layout:
    """The layout of a step, by a fixed rule: the same command is to give the same numbers.

    Args:
        precision: "auto" is bf16 for large batches on a device that computes in it, and for
            fine-tuning on a GPU; else fp32. Anything else is kept.
        device: Where the step is computed.
        batch: The shape of a batch, over all processes; of images it has four dimensions.
        finetune: Whether a backbone is trained.

    >>> layout_for("auto", device=torch.device("cpu"), batch=(128, 3, 32, 32))
    Layout(channels_last=True, precision='fp32')
    """
    on_gpu = device.type == "cuda"
    if precision == "auto":
        large = math.prod(batch) >= _MANY_NUMBERS or (finetune and on_gpu)
        precision = "bf16" if large and computes_bf16(device) else "fp32"
    # A GPU gains by it only where its tensor cores compute.
    return Layout(len(batch) == 4 and (not on_gpu or precision != "fp32"), precision)


def computes_bf16(device: torch.device) -> bool:
    """Whether a device has instructions for bf16, and need not imitate them."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()


class Learner:
    """A model with its optimiser, schedule and averages, on the device of this process.

    Args:
        model: m+1 outputs; of several networks, one more dimension in front.
        plan: optimiser, schedule, clipping and averaging.
        encoder: turns stored inputs into those of the model.
        accelerator: wraps the model where several processes train it.
        layout: memory format and precision of a step.
        steps: of the whole training, for the schedule.
        steps_per_epoch: of the first epochs, for the averages.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        plan: Plan,
        *,
        encoder: Encoder,
        accelerator: Accelerator,
        layout: Layout,
        steps: int,
        steps_per_epoch: int,
    ) -> None:
        self.encoder, self.accelerator, self.layout = encoder, accelerator, layout
        self._clip = plan.clip
        self.optimizer = make_optimizer(model, plan)
        self.schedule = make_schedule(self.optimizer, plan, steps)
        # Kept, and not unwrapped each time: Accelerate would look for packages on the disk.
        self.plain_model = layout.place(model)
        self.averaged: Averaged | None = None
        if plan.average is not None:
            placed = self.plain_model.to(accelerator.device)
            self.averaged = Averaged(placed, plan.average * steps_per_epoch)
        self.model = _shared(self.plain_model, accelerator)
        # Accelerate has one precision per process; a program may train again in another one. So
        # precision is the layout's, and half precision is scaled here.
        self.scaler = torch.amp.GradScaler(
            accelerator.device.type, enabled=layout.precision == "fp16"
        )

    def logits(self, batch: Batch, model: torch.nn.Module | None = None) -> Tensor:
        """Outputs for the samples of a batch: of the model in training, or of another one."""
        inputs = self.layout.lay(self.encoder.to_model(batch.inputs))
        with self.layout.autocast(inputs.device):
            logits: Tensor = (model or self.model)(inputs)
        count = len(batch.index)  # what fills a batch up does not count
        return logits if logits.shape[-2] == count else logits[..., :count, :]

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of a loss to that of each weight."""
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]

    def clip_gradients(self) -> None:
        """Shorten the gradient where it is longer than the plan allows."""
        if self._clip is not None:
            self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self._clip)

    def step(self) -> None:
        """Move the weights against the gradient, and the average after them."""
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

    def state(self) -> dict[str, Part]:
        """The parts of a checkpoint that are the model's."""
        parts: dict[str, Part] = {
            "model": (self.plain_model.state_dict(), None),
            "optimizer": pack_optimizer(self.optimizer),
            "schedule": ({}, self.schedule.state_dict()),
            "scaler": ({}, self.scaler.state_dict()),
        }
        if self.averaged is not None:
            steps: JSON = {"steps": self.averaged.steps}
            parts["averaged"] = self.averaged.model.state_dict(), steps
        return parts

    def load_state(self, checkpoint: Checkpoint) -> None:
        """Take over what `state` gave."""
        self.plain_model.load_state_dict(checkpoint.part("model")[0])
        unpack_optimizer(self.optimizer, *checkpoint.part("optimizer"))
        self.schedule.load_state_dict(checkpoint.values("schedule"))
        if self.scaler.is_enabled():
            self.scaler.load_state_dict(checkpoint.values("scaler"))
        if self.averaged is not None:
            self.averaged.model.load_state_dict(checkpoint.part("averaged")[0])
            self.averaged.steps = checkpoint.values("averaged")["steps"]

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


def make_optimizer(
    parameters: torch.nn.Module | Iterable[torch.nn.Parameter], plan: Plan
) -> Optimizer:
    """The optimiser of a plan; Adam and AdamW in their fused form.

    Args:
        parameters: Of a model, or the model itself; of a fine-tuned one, the pretrained part is a
            group with a learning rate of its own.
        plan: Names the optimiser and its settings.

    >>> make_optimizer([torch.nn.Parameter(torch.zeros(2))], Plan()).defaults["lr"]
    0.001
    """
    rate, decay = plan.learning_rate, plan.weight_decay
    trainable: list[Any]
    if isinstance(parameters, FineTuned):
        # The history shows the rate of the first group.
        trainable = [
            {"params": _trainable(parameters.head)},
            {"params": _trainable(parameters.network), "lr": parameters.rate * rate},
        ]
    else:
        trainable = _trainable(parameters)
    if plan.optimizer == "adam":
        return Adam(trainable, rate, weight_decay=decay, fused=True)
    if plan.optimizer == "adamw":
        return AdamW(trainable, rate, weight_decay=decay, fused=True)
    if plan.optimizer == "sgd":
        return SGD(trainable, rate, momentum=0.9, nesterov=True, weight_decay=decay)
    return LaProp(trainable, rate, weight_decay=decay)  # with the paper's other settings


def make_schedule(optimizer: Optimizer, plan: Plan, steps: int) -> LRScheduler:
    """The learning rate over all `steps` of the training, as factors of the plan's."""
    schedulers = torch.optim.lr_scheduler
    if plan.schedule == "cosine":
        return schedulers.CosineAnnealingLR(optimizer, T_max=steps)
    if plan.schedule == "linear":
        return schedulers.LinearLR(optimizer, 1.0, 0.01, total_iters=steps)
    if plan.schedule == "one-cycle":
        # Momentum is left alone: not every optimiser here has what OneCycleLR would cycle.
        return schedulers.OneCycleLR(
            optimizer,
            [group["lr"] for group in optimizer.param_groups],
            total_steps=steps + 1,
            cycle_momentum=False,
        )
    return schedulers.ConstantLR(optimizer, factor=1.0, total_iters=0)


def _trainable(
    parameters: torch.nn.Module | Iterable[torch.nn.Parameter],
) -> list[torch.nn.Parameter]:
    if isinstance(parameters, torch.nn.Module):
        parameters = parameters.parameters()
    return [p for p in parameters if p.requires_grad]


# Early on, what weighs is not the horizon but that the first steps are soon forgotten.
_HEAD = 9.0


def step_weight(steps: Tensor, horizon: Tensor) -> Tensor:
    """Weight with which a model enters its average after some steps.

    >>> step_weight(torch.tensor([1, 10_000]), horizon=torch.tensor(100))
    tensor([0.8182, 0.0100])
    """
    return torch.maximum(1 / horizon, _HEAD / (_HEAD + 1 + steps))


def copied(model: nn.Module) -> nn.Module:
    """A copy with weights of its own; those of a recurrent layer lie together, as a GPU wants."""
    copy_of_it = copy.deepcopy(model)
    for module in copy_of_it.modules():
        if isinstance(module, nn.RNNBase):
            module.flatten_parameters()
    return copy_of_it


class Averaged:
    """An exponential moving average of a model, as a second copy of it.

    A step at a constant learning rate leaves the weights somewhere around where they tend to; their
    average lies nearer, is steadier from epoch to epoch, and costs one addition per weight.

    Torch's `swa_utils.AveragedModel` averages either no buffer or every one, counters and frozen
    weights too, and replaces the average by the model in its first update.

    Args:
        model: Whose weights are averaged, on the device where it stays.
        horizon: Steps over which it averages.

    >>> model = nn.Linear(1, 1)
    >>> averaged = Averaged(model, horizon=10)
    >>> averaged.update()
    >>> torch.equal(averaged.model.weight, model.weight)
    True
    """

    def __init__(self, model: nn.Module, horizon: float) -> None:
        self.horizon = max(1.0, horizon)
        self.model = copied(model).eval().requires_grad_(False)
        self.steps = 0
        # Looked up once: to go through all modules would take longer than to add the weights.
        self._own, self._followed = _moving(self.model), _moving(model)

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights of the model after a step."""
        self.steps += 1
        steps = torch.tensor(self.steps, dtype=torch.float64)
        weight = step_weight(steps, torch.tensor(self.horizon, dtype=torch.float64)).item()
        torch._foreach_lerp_(self._own, self._followed, weight)

    @torch.no_grad()
    def settle(self, model: nn.Module) -> nn.Module:
        """The average, ready to be used: with whatever else the model keeps as it is there."""
        own = dict(self.model.named_buffers())
        moving = {id(tensor) for tensor in self._own}
        for name, buffer in model.named_buffers():
            if id(own[name]) not in moving:
                own[name].copy_(buffer)
        return self.model

    @torch.no_grad()
    def restart(self, model: nn.Module) -> None:
        """Begin again at a model."""
        self.model.load_state_dict(model.state_dict())
        self.steps = 0


def _moving(model: nn.Module) -> list[Tensor]:
    """Tensors that are averaged: the weights, and normalising figures."""
    figures = [
        buffer
        for part in model.modules()
        if isinstance(part, nn.modules.batchnorm._NormBase)
        for buffer in (part.running_mean, part.running_var)
        if buffer is not None
    ]
    # The parameters themselves: what wraps a model may give them other memory.
    return [*model.parameters(), *figures]
