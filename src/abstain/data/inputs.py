"""Inputs of any source, in memory or lazy: read in blocks, checked, fingerprinted."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from abstain.data.contract import Inputs, LabeledData
from abstain.errors import DataError
from abstain.support.wording import many, some

BLOCK = 1 << 14
_HASHED = 1 << 10


def blocks(inputs: Inputs) -> Iterator[Tensor]:
    """Numeric inputs in blocks that fit in memory, whether they all do or not."""
    if isinstance(inputs, Tensor):
        yield from (inputs[start : start + BLOCK] for start in range(0, len(inputs), BLOCK))
        return
    everything = range(len(inputs))
    as_tensor = getattr(inputs, "as_tensor", None)  # as lazy tables have it
    for start in everything[::BLOCK]:
        indices = everything[start : start + BLOCK]
        if as_tensor is not None:
            yield as_tensor(indices)
        else:
            yield torch.stack([torch.as_tensor(sample) for sample in take(inputs, indices)])


def take(inputs: Inputs, indices: Sequence[int]) -> Sequence[object]:
    """Several samples, at once where the inputs can do that."""
    several = getattr(inputs, "__getitems__", None)
    taken: Sequence[object] = several(indices) if several else [inputs[i] for i in indices]
    return taken


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
    if not features.is_floating_point() or bool(features.isfinite().all()):
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


def fingerprints(data: LabeledData) -> npt.NDArray[np.int64]:
    """A number per sample, equal where the inputs are: 64 bits, so that chance makes no pairs.

    Texts, also those of a table, are compared without their case and spacing, and empty ones are
    like no other; images that are decoded lazily by the bytes of their files, which saves decoding
    them all again.

    >>> import torch
    >>> data = LabeledData(inputs=["Fine film", "fine  film", "bad"], given=torch.tensor([0, 1, 1]),
    ...                    classes=("good", "bad"), ids=("a", "b", "c"), kind="text")
    >>> first, second, third = fingerprints(data)
    >>> bool(first == second), bool(first == third)
    (True, False)
    """
    parts = [data, *(data.of_texts(name) for name in data.texts)]

    def digests(start: int) -> bytes:
        rows = range(start, min(start + _HASHED, len(data)))
        plain = (_plain(part, rows) for part in parts)
        samples = next(plain) if len(parts) == 1 else map(b"\0".join, zip(*plain, strict=True))
        named = zip(rows, samples, strict=True)
        return b"".join(sha256(x if len(x) else b" %d" % row).digest()[:8] for row, x in named)

    starts = range(0, len(data), _HASHED)
    if hasattr(data.inputs, "encoded"):  # files are read without Python's lock
        with ThreadPoolExecutor() as threads:
            found = b"".join(threads.map(digests, starts))
    else:
        found = b"".join(map(digests, starts))
    return np.frombuffer(found, dtype=np.int64)


def contents(data: LabeledData, rows: range) -> Iterator[bytes | memoryview]:
    """What each of some samples in a row is, in bytes; images that are decoded lazily by file."""
    inputs = data.inputs
    encoded = getattr(inputs, "encoded", None)  # as lazy images have it
    if encoded is not None:
        yield from map(encoded, rows)
    elif isinstance(inputs, Tensor):
        block = inputs[rows.start : rows.stop].contiguous().numpy()
        yield from (row.data for row in block.reshape(len(rows), -1))
    elif (as_tensor := getattr(inputs, "as_tensor", None)) is not None:  # as lazy tables have it
        for start in rows[::BLOCK]:
            block = as_tensor(range(start, min(start + BLOCK, rows.stop)))
            yield from (row.data for row in block.numpy())
    else:
        for index in rows:
            sample = inputs[index]
            if isinstance(sample, str):
                yield sample.encode("utf-8", "surrogatepass")
            else:
                yield np.asarray(sample).tobytes()


def _plain(data: LabeledData, rows: range) -> Iterator[bytes | memoryview]:
    """Texts without case and spacing; anything else as it is."""
    for content in contents(data, rows):
        if data.kind == "text":
            text = str(content, "utf-8", "surrogatepass")
            yield " ".join(text.lower().split()).encode("utf-8", "surrogatepass")
        else:
            yield content
