"""Memory format and precision of a training step, chosen by measuring, never by assuming."""

import copy
import time
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

_WARM_UP_STEPS, _TIMED_STEPS = 2, 5
# Anything but the plain layout has to earn its place by a share of the step and by a time that is
# not chance: the same training is to choose the same layout every time it is measured.
_WORTH_IT, _LEAST_GAIN = 0.9, 1e-3


@dataclass(frozen=True)
class Layout:
    """How tensors lie in memory and in which precision a step is computed."""

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
        """Where operations run in this precision."""
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.precision)
        return torch.autocast(device.type, dtype, enabled=dtype is not None)


def fastest_layout(
    model: torch.nn.Module,
    inputs: Tensor,
    precision: str = "auto",
    memory_format: str = "auto",
) -> Layout:
    """The layout in which a forward and backward pass over this batch takes least time.

    Args:
        model: is copied, and not changed.
        inputs: a batch as the model takes it.
        precision: "auto" tries fp32 and bf16; anything else is kept.
        memory_format: "auto" tries both on images; "contiguous" or "channels-last" is kept.
    """
    formats = {"contiguous": [False], "channels-last": [True]}.get(memory_format, [False, True])
    candidates = [
        Layout(channels_last, kind)
        for kind in (["fp32", "bf16"] if precision == "auto" else [precision])
        for channels_last in (formats if inputs.ndim == 4 else [False])
    ]
    plain = candidates[0]
    if len(candidates) == 1:
        return plain
    seconds = {layout: _seconds(model, inputs, layout) for layout in candidates}
    best = min(candidates, key=seconds.__getitem__)
    worth_it = seconds[best] < min(_WORTH_IT * seconds[plain], seconds[plain] - _LEAST_GAIN)
    return best if worth_it else plain


def used_devices(device: torch.device) -> Iterable[torch.device]:
    """The devices other than the CPU whose random state a training on `device` changes."""
    return [] if device.type == "cpu" else [device]


def _seconds(model: torch.nn.Module, inputs: Tensor, layout: Layout) -> float:
    model = layout.place(copy.deepcopy(model))
    inputs = layout.lay(inputs)
    times = []
    # Dropout must not use up the numbers of the training.
    with torch.random.fork_rng(devices=used_devices(inputs.device)):
        for _ in range(_WARM_UP_STEPS + _TIMED_STEPS):
            _wait_for(inputs.device)
            start = time.perf_counter()
            with layout.autocast(inputs.device):
                outputs = model(inputs)
            outputs.float().square().mean().backward()
            _wait_for(inputs.device)
            times.append(time.perf_counter() - start)
    return min(times[_WARM_UP_STEPS:])


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
