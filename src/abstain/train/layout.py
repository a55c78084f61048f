"""Memory format and precision of a training step, chosen by measuring, never by assuming."""

import copy
import time
from dataclasses import dataclass

import torch
from torch import Tensor

_WARM_UP_STEPS, _TIMED_STEPS = 2, 5
# A coarser precision has to earn its place.
_WORTH_IT = 0.9


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

    @property
    def autocast_dtype(self) -> torch.dtype | None:
        """What autocast computes in; None in full precision."""
        return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.precision)


def fastest_layout(model: torch.nn.Module, inputs: Tensor, precision: str = "auto") -> Layout:
    """The layout in which a forward and backward pass over this batch takes least time.

    Args:
        model: is copied, and not changed.
        inputs: a batch as the model takes it.
        precision: "auto" tries fp32 and bf16; anything else is kept, and only the memory format
            is chosen.
    """
    has_images = inputs.ndim == 4
    precisions = ["fp32", "bf16"] if precision == "auto" else [precision]
    candidates = [
        Layout(channels_last, kind)
        for kind in precisions
        for channels_last in ([False, True] if has_images else [False])
    ]
    if len(candidates) == 1:
        return candidates[0]
    times = {layout: _seconds(model, inputs, layout) for layout in candidates}
    exact = min((layout for layout in times if layout.precision != "bf16"), key=times.__getitem__)
    best = min(times, key=times.__getitem__)
    return best if times[best] < _WORTH_IT * times[exact] else exact


def _seconds(model: torch.nn.Module, inputs: Tensor, layout: Layout) -> float:
    model = layout.place(copy.deepcopy(model))
    inputs = layout.lay(inputs)
    device = inputs.device.type
    times = []
    with torch.random.fork_rng():  # dropout must not use up the numbers of the training
        for _ in range(_WARM_UP_STEPS + _TIMED_STEPS):
            _wait_for(device)
            start = time.perf_counter()
            with torch.autocast(
                device, layout.autocast_dtype, enabled=layout.autocast_dtype is not None
            ):
                outputs = model(inputs)
            outputs.float().square().mean().backward()
            _wait_for(device)
            times.append(time.perf_counter() - start)
    return min(times[_WARM_UP_STEPS:])


def _wait_for(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()
