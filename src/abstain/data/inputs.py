"""Inputs of any source, in memory or lazy: read in blocks, checked."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from abstain.data.contract import Inputs, LabeledData
from abstain.errors import DataError
from abstain.support.wording import many, some

BLOCK = 1 << 14


def blocks(inputs: Inputs) -> Iterator[Tensor]:
    """Numeric inputs in blocks that fit in memory, whether they all do or not."""
    if isinstance(inputs, Tensor):
        yield from (inputs[start : start + BLOCK] for start in range(0, len(inputs), BLOCK))
        return
    everything = range(len(inputs))
    for start in everything[::BLOCK]:
        yield rows_at(inputs, everything[start : start + BLOCK])


class LazyRows(ABC):
    """Lazy inputs that read several rows at once, as one tensor."""

    @abstractmethod
    def as_tensor(self, indices: Sequence[int]) -> Tensor:
        """Rows in this order, one tensor for all."""

    def __getitem__(self, index: int, /) -> Tensor:
        return self.as_tensor([index])[0]

    def __getitems__(self, indices: Sequence[int], /) -> list[Tensor]:
        """Several samples at once, as a torch DataLoader asks for them."""
        return list(self.as_tensor(indices))


def rows_at(inputs: Inputs, indices: Sequence[int]) -> Tensor:
    """Several numeric samples as one tensor, read at once where the inputs can do that."""
    if isinstance(inputs, Tensor):
        return inputs.index_select(0, torch.tensor(indices, device=inputs.device))
    if isinstance(inputs, LazyRows):
        return inputs.as_tensor(indices)
    return torch.stack([torch.as_tensor(sample) for sample in take(inputs, indices)])


def take(inputs: Inputs, indices: Sequence[int]) -> Sequence[object]:
    """Several samples, at once where the inputs can do that."""
    several = getattr(inputs, "__getitems__", None)
    taken: Sequence[object] = several(indices) if several else [inputs[i] for i in indices]
    return taken


def release(*data: LabeledData | None) -> None:
    """Give back the memory in which the files of images are kept while several stages use them."""
    for each in data:
        forget = getattr(each.inputs, "forget", None) if each is not None else None
        if forget is not None:
            forget()


def resident(inputs: Inputs, device: torch.device) -> Inputs:
    """Inputs on the device if they are a tensor that fits there; else as they are."""
    if not isinstance(inputs, Tensor) or device.type != "cuda":
        return inputs
    free, _ = torch.cuda.mem_get_info(device)
    return inputs.to(device) if inputs.nbytes < free // 2 else inputs


def check_finite(
    features: Tensor,
    columns: Sequence[str] = (),
    *,
    where: object,
    first_row: int = 0,
    may_lack: bool = False,
) -> None:
    """Raise with the first column that holds infinity (or NaN, unless values may be missing)."""
    if all_finite(features):
        return
    wrong = ~features.reshape(len(features), -1).isfinite()
    if may_lack:
        wrong &= ~features.isnan()
        if not wrong.any():
            return
    column = int(wrong.any(dim=0).nonzero()[0])
    rows = (wrong[:, column].nonzero().flatten() + first_row).tolist()
    named = repr(columns[column]) if columns else str(column)
    others = int(wrong.any(dim=0).sum()) - 1
    more = f" ({many(others, 'other column')} too)" if others else ""
    what = "infinity, or more than 3.4e38," if may_lack else "NaN or infinity"
    raise DataError(
        f"features of {where} must be finite, got {what} in column {named}, "
        f"{'row' if len(rows) == 1 else 'rows'} {some(rows)}{more}; fill these values in, or leave "
        "out the rows or the column"
    )


def all_finite(numbers: Tensor) -> bool:
    """Whether no number is NaN or infinite.

    >>> all_finite(torch.ones(3)), all_finite(torch.tensor([1.0, torch.inf, -torch.inf]))
    (True, False)
    """
    # A sum keeps NaN and infinity, in a tenth of the time; that of large numbers may overflow.
    return bool(numbers.sum().isfinite()) or bool(numbers.isfinite().all())
