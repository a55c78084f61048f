"""Fingerprints of files, of samples, of a data set and of weights.

Goes in: what is to be known again. Comes out: a digest that is the same where its content is, on
any machine. Caches go by them, a run that is resumed checks them, and duplicates are found by them.
"""

import hashlib
import json
import os
from collections.abc import Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from abstain.data.contract import LabeledData
from abstain.data.inputs import take

_VERSION = 1  # of decoded data: raise it when decoding changes
_HASHED_BYTES = 1 << 30
_HASHED = 1 << 10
_FEW = 256  # images, which fit in memory


def files_digest(files: Sequence[Path], *options: object) -> str:
    """A key for the content of files and for the options they are read with.

    Up to 1 GiB in up to 16 files the bytes are hashed: a copied or touched file keeps its entry.
    Beyond that, reading everything would cost as much as decoding, so path, size and time of
    change stand in.
    """
    # What cannot be read (a link that leads nowhere) is for the reader to name, or to leave out.
    can_be_read = {path: os.access(path, os.R_OK) for path in files}
    lost = [str(path) for path, can in can_be_read.items() if not can]
    files = [path for path, can in can_be_read.items() if can]
    hashed = hashlib.sha256(json.dumps([_VERSION, *options, *lost], default=str).encode())
    stats = [path.stat() for path in files]
    if len(files) <= 16 and sum(stat.st_size for stat in stats) <= _HASHED_BYTES:
        for path in files:
            with path.open("rb") as stream:
                hashed.update(hashlib.file_digest(stream, "sha256").digest())
    else:
        for path, stat in zip(files, stats, strict=True):
            line = f"{path.absolute()}\0{stat.st_size}\0{stat.st_mtime_ns}\n"
            hashed.update(line.encode(errors="surrogateescape"))  # a name may be any bytes
    return hashed.hexdigest()[:20]


def sample_digests(data: LabeledData, rows: range) -> bytes:
    """Sixteen bytes for each of some samples in a row: what it holds, whatever it is called.

    A photo that was read already is not opened again.
    """
    noted = getattr(data.inputs, "digests", None)  # as lazy images have them
    if noted is not None:
        all_digests: bytes = noted(rows)
        return all_digests
    return b"".join(map(digest, contents(data, rows)))


def digest(content: bytes | memoryview) -> bytes:
    """Sixteen bytes that stand for the content of a sample."""
    return hashlib.blake2b(content, digest_size=16).digest()


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
        if hasattr(data.inputs, "digests"):
            return sample_digests(data, rows)
        plain = (_plain(part, rows) for part in parts)
        samples = next(plain) if len(parts) == 1 else map(b"\0".join, zip(*plain, strict=True))
        named = zip(rows, samples, strict=True)
        return b"".join(digest(x if len(x) else b" %d" % row) for row, x in named)

    starts = range(0, len(data), _HASHED)
    if hasattr(data.inputs, "digests"):  # files are read without Python's lock
        with ThreadPoolExecutor() as threads:
            all_digests = b"".join(threads.map(digests, starts))
    else:
        all_digests = b"".join(map(digests, starts))
    return np.frombuffer(all_digests, dtype=np.int64)[::2].copy()


def contents(data: LabeledData, rows: range) -> Iterator[bytes | memoryview]:
    """Yield the bytes of some samples in a row; of images decoded lazily those of their files."""
    inputs = data.inputs
    encoded = getattr(inputs, "encoded", None)  # as lazy images have it
    if encoded is not None:
        yield from map(encoded, rows)
    elif isinstance(inputs, Tensor):
        block = inputs[rows.start : rows.stop].contiguous().numpy()
        yield from (row.data for row in block.reshape(len(rows), -1))
    else:
        for start in range(0, len(rows), _FEW):
            for sample in take(inputs, rows[start : start + _FEW]):
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


def labels_digest(data: LabeledData) -> str:
    """The ids, labels, classes and weights of a data set, in their order."""
    hashed = hashlib.sha256()
    for part in (data.classes, data.ids):
        hashed.update("\0".join(part).encode())
    hashed.update(data.given.numpy().tobytes())
    if data.weights is not None:
        hashed.update(data.weights.numpy().tobytes())
    return hashed.hexdigest()


def inputs_digest(data: LabeledData) -> str | None:
    """Numbers and texts in memory; None for images, which another machine decodes differently."""
    hashed = hashlib.sha256(json.dumps([data.columns, dict(data.categories)]).encode())
    for inputs in (data.inputs, *data.texts.values()):
        if data.kind == "table" and isinstance(inputs, torch.Tensor):
            hashed.update(inputs.contiguous().numpy().data)  # not its bytes: a copy of the table
        elif data.kind != "image" and isinstance(inputs, list):
            for text in inputs:
                hashed.update(f"{text}\0".encode("utf-8", "surrogatepass"))
        else:
            return None
    return hashed.hexdigest()


def weights_digest(network: nn.Module, without: Container[str] = ()) -> str:
    """A hash of all weights of a network: a name may stand for others tomorrow.

    Args:
        network: Has the weights.
        without: Those that its checkpoint lacks: they are drawn anew each time it is opened.
    """
    hashed = hashlib.blake2b(digest_size=10)
    for name, tensor in sorted(network.state_dict().items()):
        if name in without:
            continue
        hashed.update(name.encode())
        hashed.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return hashed.hexdigest()
