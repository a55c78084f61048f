"""Optimisers and random generators as tensors and JSON, and back, to the last bit."""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from abstain.errors import AbstainError
from abstain.training.saving.checkpoint import JSON


def pack_optimizer(optimizer: Optimizer) -> tuple[dict[str, Tensor], JSON]:
    """The state of any torch optimiser, and the settings of its groups; not copies.

    >>> weight = torch.nn.Parameter(torch.ones(1))
    >>> pack_optimizer(torch.optim.SGD([weight], lr=0.1))[1]["param_groups"][0]["lr"]
    0.1
    """
    whole = optimizer.state_dict()
    if set(whole) != {"state", "param_groups"}:
        raise AbstainError(
            f"must keep its state in 'state' and 'param_groups', got {sorted(whole)}; "
            "use one of torch.optim",
            argument="optimizer",
        )
    tensors: dict[str, Tensor] = {}
    groups: list[JSON] = [
        {key: _encode(value, f"group/{number}/{key}", tensors) for key, value in group.items()}
        for number, group in enumerate(whole["param_groups"])
    ]
    state: dict[str, JSON] = {
        str(number): {key: _encode(value, f"{number}/{key}", tensors) for key, value in own.items()}
        for number, own in whole["state"].items()
    }
    return tensors, {"param_groups": groups, "state": state}


def unpack_optimizer(optimizer: Optimizer, tensors: Mapping[str, Tensor], state: JSON) -> None:
    """Put the optimiser into a packed state; it must be over the same parameters in the same order.

    Not by its own `load_state_dict` alone, which casts states to the precision of the parameters.
    """
    packed: Any = state
    groups = [
        {key: _decode(value, tensors, like=None) for key, value in group.items()}
        for group in packed["param_groups"]
    ]
    try:
        optimizer.load_state_dict({"state": {}, "param_groups": groups})
    except ValueError as error:
        raise AbstainError(
            f"must have the parameter groups it was saved with: {error}", argument="optimizer"
        ) from error
    for saved, group in zip(groups, optimizer.param_groups, strict=True):
        for number, parameter in zip(saved["params"], group["params"], strict=True):
            # As torch has it: a step is counted on the host, unless a kernel on the device does.
            on_device = group.get("capturable") or group.get("fused")
            for key, value in packed["state"].get(str(number), {}).items():
                like = None if key == "step" and not on_device else parameter
                optimizer.state[parameter][key] = _decode(value, tensors, like)


def _placed(tensor: Tensor, like: Tensor | None) -> Tensor:
    """A copy beside a parameter; fused kernels need its memory layout, too."""
    if like is None or tensor.shape != like.shape:
        return tensor.to("cpu" if like is None else like.device, copy=True)
    return torch.empty_like(like, dtype=tensor.dtype, requires_grad=False).copy_(tensor)


def _encode(value: object, name: str, tensors: dict[str, Tensor]) -> JSON:
    """JSON that keeps types; an object of JSON stands for what JSON has no word for."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Tensor():
            tensors[name] = value
            return {"tensor": name}
        case list():
            return [_encode(item, f"{name}/{i}", tensors) for i, item in enumerate(value)]
        case tuple():
            return {"tuple": _encode(list(value), name, tensors)}
        case dict():
            pairs: list[JSON] = [
                [key, _encode(item, f"{name}/{key}", tensors)] for key, item in value.items()
            ]
            return {"dict": pairs}
        case _:
            raise AbstainError(
                f"{name} must be made of tensors, numbers, strings, lists, tuples and dicts to be "
                f"saved, got {type(value).__name__}"
            )


def _decode(value: Any, tensors: Mapping[str, Tensor], like: Tensor | None) -> Any:  # noqa: ANN401
    match value:
        case {"tensor": name}:
            return _placed(tensors[name], like)
        case {"tuple": items}:
            return tuple(_decode(item, tensors, like) for item in items)
        case {"dict": pairs}:
            return {key: _decode(item, tensors, like) for key, item in pairs}
        case list():
            return [_decode(item, tensors, like) for item in value]
        case _:
            return value


def pack_rng() -> tuple[dict[str, Tensor], JSON]:
    """The state of all global random generators: torch on CPU and CUDA, Python, NumPy's old one.

    CUDA is left out where this process has not used it. Generators that a run made for itself are
    its own to save.
    """
    tensors = {"torch": torch.get_rng_state()}
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        states = torch.cuda.get_rng_state_all()
        tensors |= {f"cuda/{device}": state for device, state in enumerate(states)}
    legacy: Any = np.random.get_state()  # noqa: NPY002
    if legacy[0] != "MT19937":
        raise AbstainError(f"the global generator of NumPy must be MT19937, got {legacy[0]}")
    tensors["numpy"] = torch.from_numpy(legacy[1].astype(np.int64))
    version, words, spare = random.getstate()
    tensors["python"] = torch.tensor(words)
    return tensors, {"numpy": list(legacy[2:]), "python": [version, spare]}


def unpack_rng(tensors: Mapping[str, Tensor], state: JSON) -> None:
    """Put all global random generators into a packed state.

    Generators of CUDA devices that are not here are passed over: another machine gives other draws.

    >>> packed = pack_rng()
    >>> before = torch.rand(1), random.random()
    >>> unpack_rng(*packed)
    >>> before == (torch.rand(1), random.random())
    True
    """
    packed: Any = state
    # A copy: of a row among those of several processes, torch would read what lies elsewhere.
    torch.set_rng_state(tensors["torch"].clone())
    for device in range(torch.cuda.device_count()):
        if f"cuda/{device}" in tensors:
            torch.cuda.set_rng_state(tensors[f"cuda/{device}"], device)
    words = tensors["numpy"].numpy().astype(np.uint32)
    np.random.set_state(("MT19937", words, *packed["numpy"]))  # noqa: NPY002
    version, spare = packed["python"]
    random.setstate((version, tuple(tensors["python"].tolist()), spare))
