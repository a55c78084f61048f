"""The arguments of `torch.nn.CrossEntropyLoss`, for any loss that is a function of the class.

Targets as class indices or class probabilities, class weights, an index to ignore, label smoothing
and a reduction: each loss defines only what one class costs, and `combine` does the rest.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Self, TypeAlias, TypedDict, Unpack

import torch
from torch import Tensor

from abstain.errors import AbstainError

Reduction: TypeAlias = Literal["none", "mean", "sum"]


class LossOptions(TypedDict, total=False):
    """The keyword options that every loss of this package takes."""

    weight: Tensor | None
    """(m) weights of the classes."""
    ignore_index: int
    """A label that does not count; −100 by default."""
    reduction: Reduction
    """"mean" by default."""
    label_smoothing: float
    """In [0, 1]: the share of the label that is spread evenly over the m classes."""
    check: bool
    """Also look for NaN logits, and for wrong labels on a GPU. This waits for the GPU."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """`LossOptions` with their defaults, checked."""

    weight: Tensor | None = None
    ignore_index: int = -100
    reduction: Reduction = "mean"
    label_smoothing: float = 0.0
    check: bool = False

    def __post_init__(self) -> None:
        if self.reduction not in ("none", "mean", "sum"):
            raise AbstainError(
                f"must be 'none', 'mean' or 'sum', got {self.reduction!r}", argument="reduction"
            )
        if not 0 <= self.label_smoothing <= 1:
            raise AbstainError(
                f"must lie in [0, 1], got {self.label_smoothing}", argument="label_smoothing"
            )


class ClassLoss(torch.nn.Module):
    """A loss module: keeps the options, and the class weights where the module goes."""

    weight: Tensor | None

    def __init__(self, **options: Unpack[LossOptions]) -> None:
        super().__init__()
        self.options = Options(**options)
        self.register_buffer("weight", self.options.weight)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """`to` and `cuda` call this: the options must refer to the weights that were moved."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.options = replace(self.options, weight=self.weight)
        return self


def classes_last(logits: Tensor) -> Tensor:
    """(C), (N, C) or (N, C, d1, …) with the classes moved to the end."""
    return logits.movedim(1, -1) if logits.ndim > 2 else logits


def in_working_precision(logits: Tensor) -> Tensor:
    """float16 and bfloat16 as float32: sums of exponentials need its range."""
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def in_result_precision(loss: Tensor, logits: Tensor) -> Tensor:
    """Back to the dtype of the logits, unless autocast is on: it keeps losses in float32."""
    if loss.dtype != logits.dtype and not torch.is_autocast_enabled(logits.device.type):
        return loss.to(logits.dtype)
    return loss


def looked_at(values: Tensor, check: bool) -> bool:
    """Whether the values of a tensor may be read here: without waiting for a device, or on request.

    >>> looked_at(torch.zeros(2), check=False)
    True
    """
    return not torch.compiler.is_compiling() and (check or values.device.type == "cpu")


def smallest_and_largest(values: Tensor) -> tuple[float, float] | None:
    """The range of a tensor; None if it is empty or inside `torch.func.vmap`, where it has none."""
    if values.numel() == 0:
        return None
    try:
        low, high = values.aminmax()
        return low.item(), high.item()
    except RuntimeError:
        return None


def check_inputs(logits: Tensor, target: Tensor, num_classes: int, options: Options) -> bool:
    """Check logits (classes last), target and weight; return whether any label is ignored.

    True also where the labels cannot be read.
    """
    samples, weight = logits.shape[:-1], options.weight
    if not logits.is_floating_point():
        raise AbstainError(f"must be floating point, got {logits.dtype}", argument="logits")
    if num_classes < 2:
        raise AbstainError(
            f"must have at least 2 classes, got {_outputs(logits, num_classes)}", argument="logits"
        )
    if weight is not None and weight.shape != (num_classes,):
        raise AbstainError(
            f"must have one entry per class, ({num_classes},) for logits of "
            f"{_outputs(logits, num_classes)}, got {tuple(weight.shape)}",
            argument="weight",
        )
    if options.check and looked_at(logits, True) and bool(logits.isnan().any()):
        raise AbstainError("must be numbers, got NaN: the training has diverged", argument="logits")
    if target.is_floating_point():
        if target.shape != (*samples, num_classes):
            raise AbstainError(
                "of class probabilities must have the shape of the logits without an "
                f"abstention output, {(*samples, num_classes)} with the classes last, "
                f"got {tuple(target.shape)}",
                argument="target",
            )
        return False
    if target.shape != samples:
        raise AbstainError(
            f"of class indices must have shape {tuple(samples)} for logits of "
            f"{_outputs(logits, num_classes)}, got {tuple(target.shape)}",
            argument="target",
        )
    span = smallest_and_largest(target) if looked_at(target, options.check) else None
    if span is None:
        return True
    if span[0] >= 0 and span[1] < num_classes:
        return 0 <= options.ignore_index < num_classes
    wrong = target[(target != options.ignore_index) & ((target < 0) | (target >= num_classes))]
    if wrong.numel():
        has_extra = logits.shape[-1] > num_classes
        raise AbstainError(
            f"must hold class indices in [0, {num_classes}) for logits of "
            f"{_outputs(logits, num_classes)}, got {int(wrong[0])}"
            + ("; did the model get its extra output (with_abstention)?" if has_extra else ""),
            argument="target",
        )
    return True


def _outputs(logits: Tensor, num_classes: int) -> str:
    reserve = " and the abstention output, last" if logits.shape[-1] > num_classes else ""
    return f"{logits.shape[-1]} outputs ({num_classes} classes{reserve})"


def combine(
    losses_at: Callable[[Tensor], Tensor],
    all_losses: Callable[[], Tensor],
    target: Tensor,
    num_classes: int,
    options: Options,
) -> Tensor:
    """Reduce the losses that single classes would cost, as `torch.nn.CrossEntropyLoss` does.

    Args:
        losses_at: the loss per sample (…) if the label were the class given for it.
        all_losses: the same for every class (…, m); asked for only where a target is spread.
        target: (…) class indices, or (…, m) class probabilities.
        num_classes: m.
        options: the rest.
    """
    weight, smoothing = options.weight, options.label_smoothing
    if target.is_floating_point():
        target = target * (1 - smoothing) + smoothing / num_classes if smoothing else target
        losses = (all_losses() * (target if weight is None else target * weight)).sum(-1)
        # As torch has it for probabilities: the mean is over samples, whatever the weights.
        return losses.mean() if options.reduction == "mean" else _reduce(losses, options)
    ignored = target == options.ignore_index
    label = target.long().masked_fill(ignored, 0)
    per_sample = None if weight is None else weight[label]
    if smoothing:
        every = all_losses()
        spread = every if weight is None else every * weight
        losses = spread.gather(-1, label.unsqueeze(-1)).squeeze(-1)
        losses = losses * (1 - smoothing) + spread.mean(-1) * smoothing
    else:
        losses = losses_at(label)
        losses = losses if per_sample is None else losses * per_sample
    losses = losses.masked_fill(ignored, 0)
    if options.reduction != "mean":
        return _reduce(losses, options)
    counted = ~ignored if per_sample is None else per_sample.masked_fill(ignored, 0)
    return losses.sum() / counted.sum()


def _reduce(losses: Tensor, options: Options) -> Tensor:
    return losses.sum() if options.reduction == "sum" else losses
