"""Optimisers: torch's without its compiler, of which a training makes no use, and LaProp."""

import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch.optim import Optimizer

_Kind = TypeVar("_Kind", bound=Optimizer)

# The wrappers by which torch has its compiler pass over methods of optimisers.
_WRAPPERS = {
    **dict.fromkeys(("add_param_group", "zero_grad", "state_dict", "load_state_dict"), "inner"),
    "step": "_use_grad",
}


def _uncompiled(kind: type[_Kind]) -> type[_Kind]:
    """An optimiser that does not load torch's compiler.

    A wrapped method imports the compiler when it is first called, which takes about as long as
    importing torch itself. Where torch has other wrappers, the class stays as it is.
    """
    methods: dict[str, Any] = {name: getattr(kind, name, None) for name in _WRAPPERS}
    for name, method in methods.items():
        if getattr(getattr(method, "__code__", None), "co_name", "") != _WRAPPERS[name]:
            return kind
    inner = {name: method.__wrapped__ for name, method in methods.items()}
    return type(kind.__name__, (kind,), {**inner, "step": torch.no_grad()(inner["step"])})


Adam = _uncompiled(torch.optim.Adam)
AdamW = _uncompiled(torch.optim.AdamW)
SGD = _uncompiled(torch.optim.SGD)


class LaProp(Optimizer):
    """Adam that divides the gradient by its size before it averages it (Ziyin et al., 2020).

        m ← β₁ m + (1 − β₁) lr g / √v̂        with v̂ the mean of g², corrected for its start

    The paper trains on IMDB with it. Weight decay is decoupled, as in AdamW.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        *,
        betas: tuple[float, float] = (0.9, 0.9),
        eps: float = 1e-15,
        weight_decay: float = 0.0,
    ) -> None:
        settings = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, settings)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Move the weights against their gradients; a closure is not called."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._move(weight, weight.grad, group)

    def _move(self, weight: torch.Tensor, slope: torch.Tensor, group: dict[str, Any]) -> None:
        lr, (beta1, beta2), state = group["lr"], group["betas"], self.state[weight]
        if not state:
            state |= {"step": 0, "rates": 0.0}
            state |= {name: torch.zeros_like(weight) for name in ("mean", "square")}
        state["step"] += 1
        # The mean holds learning rates too: its bias is corrected by their mean.
        state["rates"] = beta1 * state["rates"] + (1 - beta1) * lr
        state["square"].mul_(beta2).addcmul_(slope, slope, value=1 - beta2)
        size = state["square"].sqrt().add_(group["eps"])
        size.div_(math.sqrt(1 - beta2 ** state["step"]))
        state["mean"].mul_(beta1).addcdiv_(slope, size, value=(1 - beta1) * lr)
        if lr:
            weight.mul_(1 - lr * group["weight_decay"])
            weight.add_(state["mean"], alpha=-lr / state["rates"])
