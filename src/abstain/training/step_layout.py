"""Memory format, precision and parts of a step, chosen by measuring, never by assuming."""

import math
import time
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from abstain.errors import AbstainError
from abstain.support.optimizers import Adam
from abstain.training.parts import Parts, inseparable
from abstain.training.processes import used_devices

_WARM_UP_STEPS, _TIMED_STEPS = 2, 5
# A step of so many seconds varies little beside what it takes, and to time it often takes long.
_LONG_STEP, _LONG_STEPS = 0.02, 3
_TURNS, _PATIENCE = 5, 2.0
# Anything but the plain layout has to earn its place by a share of the step and by a time that is
# not chance: the same training is to choose the same layout every time it is measured.
_WORTH_IT, _LEAST_GAIN = 0.9, 1e-3
# Parts change nothing but the order in which gradients are added, and may gain half of that.
_PARTS_WORTH_IT, _LEAST_GAIN_OF_PARTS = 0.95, 5e-4


@dataclass(frozen=True)
class Layout:
    """How tensors lie in memory, and in which precision and how many parts a step is computed."""

    channels_last: bool = False
    precision: str = "fp32"
    parts: int = 1
    """Parts of a batch that are computed side by side."""

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
        # Cast weights are kept for all threads at once, and hold the graph of the first to cast.
        return torch.autocast(
            device.type, dtype, enabled=dtype is not None, cache_enabled=self.parts == 1
        )


def fastest_layout(
    model: torch.nn.Module,
    inputs: Tensor,
    precision: str = "auto",
    memory_format: str = "auto",
    parts: int | Literal["auto"] = "auto",
) -> Layout:
    """The layout in which a step on this batch takes least time.

    Args:
        model: is copied, and not changed.
        inputs: a batch as the model takes it.
        precision: "auto" tries fp32 and bf16; anything else is kept.
        memory_format: "auto" tries both on images; "contiguous" or "channels-last" is kept.
        parts: "auto" tries, on a CPU, as many as torch has threads, where the samples of a batch
            know nothing of each other; a number is kept.
    """
    formats = {"contiguous": [False], "channels-last": [True]}.get(memory_format, [False, True])
    candidates = [
        Layout(channels_last, kind)
        for kind in (["fp32", "bf16"] if precision == "auto" else [precision])
        for channels_last in (formats if inputs.ndim == 4 else [False])
    ]
    plain = best = candidates[0]
    if len(candidates) > 1:
        seconds = {layout: _seconds(model, inputs, layout) for layout in candidates}
        best = min(candidates, key=seconds.__getitem__)
        if seconds[best] == math.inf:
            raise torch.OutOfMemoryError("a step does not fit in any layout")
        if seconds[best] >= min(_WORTH_IT * seconds[plain], seconds[plain] - _LEAST_GAIN):
            best = plain
    return _in_parts(model, inputs, best, parts)


def _in_parts(
    model: torch.nn.Module, inputs: Tensor, layout: Layout, parts: int | Literal["auto"]
) -> Layout:
    """The same layout with this number of parts or, by default, with the faster one."""
    divided = replace(layout, parts=torch.get_num_threads() if parts == "auto" else parts)
    if inputs.device.type != "cpu" or divided == layout:
        return layout
    reason = inseparable(model)
    if parts != "auto":
        if reason is not None:
            raise AbstainError(
                f"must be 1 for a model with {reason}, got {parts}", argument="parts"
            )
        return divided
    if reason is not None:
        return layout
    pairs: list[tuple[float, float]] = []
    end = time.monotonic() + _PATIENCE
    while len(pairs) < _TURNS and (not pairs or time.monotonic() < end):
        # In turn: what else the machine does is to slow both.
        pairs.append((_seconds(model, inputs, layout), _seconds(model, inputs, divided)))
    won = [x < min(_PARTS_WORTH_IT * y, y - _LEAST_GAIN_OF_PARTS) for y, x in pairs]
    return divided if sum(won) > len(won) / 2 else layout


def _seconds(model: torch.nn.Module, inputs: Tensor, layout: Layout) -> float:
    """What a step takes; infinite where the memory of a device is too small for it."""
    try:
        return _measured(model, inputs, layout)
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return math.inf


def _measured(model: torch.nn.Module, inputs: Tensor, layout: Layout) -> float:
    from abstain.training.loop.step import copied

    model = layout.place(copied(model))
    inputs = layout.lay(inputs)

    def answer(part: Tensor) -> Tensor:
        with layout.autocast(part.device):
            outputs: Tensor = model(part)
        return outputs

    optimizer = Adam([p for p in model.parameters() if p.requires_grad], 0, fused=True)
    times = []
    forked = torch.random.fork_rng(devices=used_devices(inputs.device))
    # Dropout must not use up the numbers of the training.
    with forked, Parts(layout.parts, model) as parts:
        for _ in range(_WARM_UP_STEPS + _TIMED_STEPS):
            _wait_for(inputs.device)
            start = time.perf_counter()
            optimizer.zero_grad()
            loss = parts(answer, inputs).float().square().mean()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            _wait_for(inputs.device)
            times.append(time.perf_counter() - start)
            if len(times) == _LONG_STEPS and min(times) > _LONG_STEP:
                return min(times)
    return min(times[_WARM_UP_STEPS:])


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
