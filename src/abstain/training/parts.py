"""A batch in parts, each computed by a thread of its own, instead of threads in every operation.

On a CPU torch splits every operation over its threads and wakes them some fifty times in a step.
Where the parts of a batch know nothing of each other, waking each thread twice is enough: it takes
its part through the whole forward pass and later through the backward pass, and the gradients are
added. What lies between, the loss, sees the whole batch.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from abstain.models import MLP, CifarCNN, MnistCNN, TextLSTM

Answer: TypeAlias = Callable[[Tensor], Tensor]
"""From the inputs of samples to their outputs."""

_Part = TypeVar("_Part")
_Result = TypeVar("_Result")

# They compute every sample by itself, and the same whenever asked. A batch norm does not, dropout
# does not, and of a module that is not listed nobody knows.
_SEPARABLE = {
    *(MLP, CifarCNN, MnistCNN, TextLSTM),
    *(nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.Identity, nn.Flatten, nn.Unflatten),
    *(nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Embedding, nn.LSTM, nn.GRU),
    *(nn.LayerNorm, nn.GroupNorm),
    *(nn.MaxPool1d, nn.MaxPool2d, nn.AvgPool1d, nn.AvgPool2d),
    *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d),
    *(nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Sigmoid, nn.Tanh, nn.Softplus),
}


def inseparable(model: nn.Module) -> str | None:
    """The kind of a module that may give a sample another output in another batch; None if none.

    >>> inseparable(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU()))
    'BatchNorm1d'
    >>> inseparable(nn.Sequential(nn.Linear(4, 8), nn.ReLU()))
    """
    for module in model.modules():
        if isinstance(module, nn.Dropout) and module.p == 0:
            continue
        draws = isinstance(module, nn.LSTM | nn.GRU) and module.dropout > 0
        # A forward pass that shortens its vectors, and a gradient that is not a plain tensor.
        odd = isinstance(module, nn.Embedding) and (module.max_norm is not None or module.sparse)
        if type(module) not in _SEPARABLE or draws or odd:
            return type(module).__name__
    return None


class Parts:
    """The threads that compute the parts of a batch: the caller's, and others in the context.

    Within it each of them computes alone: operations are not split any further.

    Args:
        count: How many parts; with one there are no other threads, and nothing changes.
        model: Its parameters get the gradients.

    >>> model = nn.Linear(2, 3)
    >>> with Parts(2, model) as parts:
    ...     parts(model, torch.ones(4, 2)).sum().backward()
    >>> model.bias.grad
    tensor([4., 4., 4.])
    """

    def __init__(self, count: int, model: nn.Module) -> None:
        self.count = count
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._others: ThreadPoolExecutor | None = None

    def __enter__(self) -> "Parts":
        if self.count > 1:
            # This number belongs to the thread that sets it.
            self._operation_threads = torch.get_num_threads()
            torch.set_num_threads(1)
            self._others = ThreadPoolExecutor(
                self.count - 1, "part", initializer=torch.set_num_threads, initargs=(1,)
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self._others is not None:
            self._others.shutdown()
            self._others = None
            torch.set_num_threads(self._operation_threads)

    def __call__(self, answer: Answer, inputs: Tensor) -> Tensor:
        """The outputs of a batch; outside the context it is computed as a whole."""
        if self._others is None or len(inputs) < self.count:
            return answer(inputs)
        parts = inputs.tensor_split(self.count)
        if not torch.is_grad_enabled():
            return torch.cat(self.each(partial(_answer, answer, graph=False), parts))
        outputs: Tensor = _Joined.apply(self, answer, parts, *self._parameters)  # type: ignore[no-untyped-call]
        return outputs

    def each(self, work: Callable[[_Part], _Result], parts: Sequence[_Part]) -> list[_Result]:
        """What `work` gives for each part, in order; the first is computed by the caller."""
        assert self._others is not None
        first, *rest = parts
        pending = [self._others.submit(work, part) for part in rest]
        return [work(first), *(part.result() for part in pending)]


class _Joined(torch.autograd.Function):
    """The outputs of all parts as one; backward, every part computes its share of the gradient."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        parts: Parts,
        answer: Answer,
        inputs: Sequence[Tensor],
        *parameters: Tensor,
    ) -> Tensor:
        ctx.parts, ctx.parameters = parts, parameters
        ctx.outputs = parts.each(partial(_answer, answer, graph=True), inputs)
        return torch.cat([outputs.detach() for outputs in ctx.outputs])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        parameters: Sequence[Tensor] = ctx.parameters

        def share(part: tuple[Tensor, Tensor]) -> tuple[Tensor | None, ...]:
            outputs, gradient = part
            # The same as to pass `gradient` on, for which torch would import SymPy.
            with torch.enable_grad():
                total = (outputs * gradient).sum()
            return torch.autograd.grad(total, parameters, allow_unused=True)

        outputs, ctx.outputs = ctx.outputs, None
        gradients = torch.split(gradient, [len(part) for part in outputs])
        shares = ctx.parts.each(share, list(zip(outputs, gradients, strict=True)))
        # In the order of the parts, whichever was done first: sums are to round the same each time.
        return None, None, None, *(_sum(column) for column in zip(*shares, strict=True))


def _answer(answer: Answer, inputs: Tensor, *, graph: bool) -> Tensor:
    """Whether a graph is made is every thread's own setting."""
    with torch.set_grad_enabled(graph):
        return answer(inputs)


def _sum(gradients: Sequence[Tensor | None]) -> Tensor | None:
    known = [gradient for gradient in gradients if gradient is not None]
    return reduce(torch.add, known) if known else None
