"""A batch in parts, each computed by a thread of its own, instead of threads in every operation.

On a CPU torch splits every operation over its threads and wakes them some fifty times in a step.
Where the parts of a batch know nothing of each other, waking each thread once is enough: it takes
its part through the whole forward and backward pass, and the gradients are added.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor, nn

from abstain.models import MLP, CifarCNN, MnistCNN, TextLSTM
from abstain.train.batches import Batch

Step = Callable[[Batch], tuple[Tensor, Tensor, Tensor]]
"""What is minimised over the samples of a batch, divided by the whole; their logits; losses."""

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

    Within it each of them computes alone, operations are not split any further.

    Args:
        count: How many parts; with one there are no other threads, and nothing changes.
        model: Its parameters get the gradients.

    >>> model = nn.Linear(2, 3)
    >>> batch = Batch(torch.arange(4), torch.ones(4, 2), counts=True, total=4)
    >>> def step(part):
    ...     logits = model(part.inputs)
    ...     losses = logits.sum(-1)
    ...     return losses.sum() / part.total, logits, losses
    >>> with Parts(2, model) as parts:
    ...     logits, losses = parts.backward(step, batch)
    >>> len(losses), model.weight.grad.sum()
    (4, tensor(6.))
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

    def each(self, work: Callable[[Batch], _Result], batch: Batch) -> list[_Result]:
        """What `work` gives for each part, in order; outside the context the whole is one."""
        if self._others is None:
            return [work(batch)]
        first, *rest = _cut(batch, self.count)
        pending = [self._others.submit(work, part) for part in rest]
        return [work(first), *(part.result() for part in pending)]

    def backward(self, step: Step, batch: Batch) -> tuple[Tensor, Tensor]:
        """Add the gradient of a step to the parameters; logits and losses of its samples.

        With several parts, the gradient takes the place of what there was.
        """
        if self._others is None:
            loss, logits, losses = step(batch)
            loss.backward()  # type: ignore[no-untyped-call]
            return logits.detach(), losses.detach()

        def computed(part: Batch) -> tuple[tuple[Tensor | None, ...], Tensor, Tensor]:
            loss, logits, losses = step(part)
            # Not by loss.backward(): whichever thread came last would be added last, and sums of
            # three and more would round differently each time.
            gradients = torch.autograd.grad(loss, self._parameters, allow_unused=True)
            return gradients, logits.detach(), losses.detach()

        gradients, logits_of, losses_of = zip(*self.each(computed, batch), strict=True)
        for parameter, *parts in zip(self._parameters, *gradients, strict=True):
            parameter.grad = _sum_like(parameter, [part for part in parts if part is not None])
        return torch.cat(logits_of), torch.cat(losses_of)


def _cut(batch: Batch, count: int) -> Iterator[Batch]:
    """Parts of a batch, none of them empty, that still know how large the whole is."""
    count = min(count, len(batch.index))
    pieces = zip(batch.index.tensor_split(count), batch.inputs.tensor_split(count), strict=True)
    for index, inputs in pieces:
        yield Batch(index=index, inputs=inputs, counts=batch.counts, total=batch.total)


def _sum_like(parameter: Tensor, gradients: list[Tensor]) -> Tensor | None:
    """The sum, in the order given; in the memory format of the parameter, as optimisers need it."""
    if not gradients:
        return None
    first, *others = gradients
    total = torch.empty_like(parameter)
    if not others:
        return total.copy_(first)
    torch.add(first, others[0], out=total)
    for gradient in others[1:]:
        total += gradient
    return total
