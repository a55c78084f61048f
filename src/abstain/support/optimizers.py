"""torch's optimisers without its compiler, of which a training makes no use."""

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
