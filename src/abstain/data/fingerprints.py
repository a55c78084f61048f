"""Fingerprints of inputs: equal for samples that are the same."""

from collections.abc import Iterator
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
from torch import Tensor

from abstain.data.contract import LabeledData
from abstain.data.encoders.base import blocks
from abstain.data.readers.images import LazyImages
from abstain.data.readers.rows import LazyTable


def fingerprints(data: LabeledData) -> npt.NDArray[np.int64]:
    """A number per sample, equal where the inputs are: 64 bits, so that chance makes no pairs.

    Texts are compared without their case and spacing; images that are decoded lazily by the bytes
    of their files, which saves decoding them all again.

    >>> import torch
    >>> data = LabeledData(inputs=["Fine film", "fine  film", "bad"], given=torch.tensor([0, 1, 1]),
    ...                    classes=("good", "bad"), ids=("a", "b", "c"), kind="text")
    >>> first, second, third = fingerprints(data)
    >>> bool(first == second), bool(first == third)
    (True, False)
    """
    digests = (blake2b(content, digest_size=8).digest() for content in _contents(data))
    return np.frombuffer(b"".join(digests), dtype=np.int64)


def _contents(data: LabeledData) -> Iterator[bytes]:
    inputs = data.inputs
    if isinstance(inputs, LazyImages):
        yield from (inputs.blobs[index] for index in range(len(inputs)))
    elif isinstance(inputs, Tensor | LazyTable):
        for block in blocks(inputs):
            yield from (row.tobytes() for row in block.contiguous().numpy())
    else:
        for index in range(len(inputs)):
            sample = inputs[index]
            if isinstance(sample, str):
                yield " ".join(sample.lower().split()).encode("utf-8", "surrogatepass")
            else:
                yield np.asarray(sample).tobytes()
