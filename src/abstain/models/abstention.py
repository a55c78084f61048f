"""Give any torch classifier an abstention output: widen its last linear layer by one."""

from typing import Protocol, TypeAlias, TypeGuard, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter
from torch.nn.utils.parametrize import is_parametrized

from abstain.errors import AbstainError

Head: TypeAlias = nn.Linear | nn.Conv2d

LABEL = "ABSTAIN"
"""The name of the new output in a transformers config. It also marks that the output is there."""

_MARK = "_abstain_has_abstention_output"


@runtime_checkable
class LabelConfig(Protocol):
    """The classes of a transformers config; duck-typed, so that nothing is imported."""

    num_labels: int
    id2label: dict[int, str]
    label2id: dict[str, int]


def with_abstention(
    module: nn.Module, *, num_classes: int | None = None, head: str | None = None
) -> nn.Module:
    """Widen the head of a classifier by one output, the last, on which the model can abstain.

    The module itself is changed and returned: a copy would double the memory of a large model. Make
    the optimiser afterwards, since the head has new parameters. A module that is refused is left
    as it was.

    Class logits stay what they are. The new row (and bias) is the mean of the m class rows, so the
    abstention logit starts as the mean class logit, whatever the input. The exponential of a mean
    is at most the mean of the exponentials, so abstention starts at f_0 ≤ 1/(m+1): near 1/(m+1),
    the value behind the untrained loss log((m+1)λ/(λ+1)), for a fresh head, and near 0 where a
    trained one is sure. The loss starts at most log((m+1)/m) above the cross-entropy that the
    classifier had. Zeros would not do: the softmax over the classes does not care for an offset
    common to all logits, but abstention does. A head with logits around −8, as one trained with a
    sigmoid has, would start with f_0 near 1, and there class gradients vanish.

    The head is the last `nn.Linear` or 1×1 `nn.Conv2d` in the order of registration. With
    num_classes (or a transformers config, which has num_labels) only layers of that width count.
    Without it, a layer that other weights follow, or whose outputs could feed another linear layer,
    is refused rather than guessed at.

    Args:
        module: A classifier with one output for each class. For a transformers model, num_labels
            and the label names follow.
        num_classes: How many outputs the head has now.
        head: The name of the layer, as in `module.named_modules()`, where the rule above fails.

    Raises:
        AbstainError: No head is found, several layers could be it, it was widened before,
            or its weights are shared or computed from others.

    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> inputs = torch.randn(5, 4)
    >>> before = net(inputs)
    >>> after = with_abstention(net)(inputs)
    >>> after.shape, torch.allclose(after[:, :3], before, atol=1e-6)
    (torch.Size([5, 4]), True)
    """
    if _has_abstention(module):
        raise AbstainError("the module already has an abstention output; use it as it is")
    layer = _named_head(module, head) if head is not None else _find_head(module, num_classes)
    name = next(name for name, part in module.named_modules() if part is layer) or "the module"
    width = _width(layer)
    if num_classes is not None and width != num_classes:
        raise AbstainError(
            f"is {num_classes}, but {name} has {width} outputs", argument="num_classes"
        )
    _check_can_widen(module, layer, name)

    layer.weight = _with_mean_row(layer.weight)
    if layer.bias is not None:
        layer.bias = _with_mean_row(layer.bias)
    if isinstance(layer, nn.Linear):
        layer.out_features = width + 1
    else:
        layer.out_channels = width + 1
    setattr(layer, _MARK, True)
    _update_transformers(module, width)
    return module


def _has_abstention(module: nn.Module) -> bool:
    # The mark does not outlive saving and loading; in a transformers config the name does.
    return any(hasattr(part, _MARK) for part in module.modules()) or any(
        config.id2label.get(config.num_labels - 1) == LABEL for config in _configs(module)
    )


def _is_candidate(part: nn.Module) -> TypeGuard[Head]:
    """A layer that could be a head: linear, at a point or at each pixel."""
    if isinstance(part, nn.Conv2d):
        return part.kernel_size == (1, 1) and part.groups == 1
    return isinstance(part, nn.Linear)


def _width(layer: Head) -> int:
    return layer.out_features if isinstance(layer, nn.Linear) else layer.out_channels


def _inputs(layer: Head) -> int:
    return layer.in_features if isinstance(layer, nn.Linear) else layer.in_channels


def _named_head(module: nn.Module, head: str) -> Head:
    layer = dict(module.named_modules()).get(head)
    if layer is None:
        raise AbstainError(f"must name a layer of the module, got {head!r}", argument="head")
    if not _is_candidate(layer):
        raise AbstainError(
            f"must name an nn.Linear or a 1×1 nn.Conv2d, and {head!r} is a {type(layer).__name__}",
            argument="head",
        )
    return layer


def _find_head(module: nn.Module, num_classes: int | None) -> Head:
    layers = {name: part for name, part in module.named_modules() if _is_candidate(part)}
    if not layers:
        raise AbstainError(
            "the module has no nn.Linear and no 1×1 nn.Conv2d to widen; "
            "build it with one output more than classes instead"
        )
    configs = _configs(module)
    width = configs[0].num_labels if num_classes is None and configs else num_classes
    fitting = {
        name: layer for name, layer in layers.items() if width is None or _width(layer) == width
    }
    if not fitting:
        raise AbstainError(
            f"no linear layer of the module has {width} outputs; its linear layers have "
            + ", ".join(f"{_width(layer)} ({name or 'itself'})" for name, layer in layers.items())
            + ". Was it widened before, or is num_classes another?"
        )
    name, layer = list(fitting.items())[-1]
    if (width is None or len(fitting) > 1) and not _comes_last(module, layer):
        doubt = "other weights are registered after it"
    elif width is None and any(
        _inputs(other) == _width(layer) for other in layers.values() if other is not layer
    ):
        doubt = f"another layer could take its {_width(layer)} outputs"
    else:
        return layer
    raise AbstainError(
        f"cannot tell whether {name!r}, the last linear layer, is the head, for {doubt}",
        remedy="say {num_classes}" if width is None else "say {head}",
        num_classes=None,
        head=None,
    )


def _comes_last(module: nn.Module, layer: nn.Module) -> bool:
    """Whether no weights are registered after those of the layer."""
    owners = [part for part in module.modules() if list(part.parameters(recurse=False))]
    return owners[-1] in set(layer.modules())  # a parametrised layer keeps its weights below it


def _check_can_widen(module: nn.Module, layer: Head, name: str) -> None:
    """Refuse before anything is changed."""
    remedy = "build the classifier with one output more than classes instead"
    if is_parametrized(layer) or "weight" not in dict(layer.named_parameters(recurse=False)):
        raise AbstainError(
            f"the weights of {name} are parametrised, so a row cannot be added to them; {remedy}, "
            "or remove the parametrisation first"
        )
    if isinstance(layer.weight, UninitializedParameter):
        raise AbstainError(f"{name} is lazy and has no weights yet; run one batch through it first")
    if type(layer) not in (nn.Linear, nn.Conv2d):
        raise AbstainError(
            f"{name} is a {type(layer).__name__}, which may keep its weights in its own way; "
            f"{remedy}"
        )
    own = {id(parameter) for parameter in layer.parameters(recurse=False)}
    holders = [
        other
        for other, parameter in module.named_parameters(remove_duplicate=False)
        if id(parameter) in own
    ]
    if len(holders) > len(own):
        raise AbstainError(f"weights are shared by {', '.join(holders)}; {remedy}")
    if _width(layer) < 2:
        raise AbstainError(
            f"{name} has {_width(layer)} output, and the loss needs one for each class: "
            "train with two outputs for two classes"
        )


def _with_mean_row(parameter: Tensor) -> nn.Parameter:
    """Append the mean over the outputs, taken in float32 or better, as one more output."""
    with torch.no_grad():
        wide = parameter.to(torch.promote_types(parameter.dtype, torch.float32))
        mean = wide.mean(0, keepdim=True).to(parameter.dtype)
        rows = torch.cat((parameter, mean))
    return nn.Parameter(rows, requires_grad=parameter.requires_grad)


def _configs(module: nn.Module) -> list[LabelConfig]:
    """The transformers configs within; a model and its backbone usually share one."""
    configs = [getattr(part, "config", None) for part in module.modules()]
    # Without a classification head the names, and so their number, can be None.
    return [c for c in configs if isinstance(c, LabelConfig) and c.id2label is not None]


def _update_transformers(module: nn.Module, num_classes: int) -> None:
    """Let a transformers model know of its new output, keeping the names of the others."""
    for config in _configs(module):
        if config.num_labels == num_classes:  # else the shared config, met again
            # num_labels counts these names; setting it instead would forget them.
            config.id2label = {**config.id2label, num_classes: LABEL}
            config.label2id = {name: index for index, name in config.id2label.items()}
    for part in module.modules():
        if hasattr(part, "config") and getattr(part, "num_labels", None) == num_classes:
            part.num_labels = num_classes + 1  # type: ignore[assignment]
