"""The idx files in which MNIST was published, plain or gzipped."""

import gzip
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from abstain.data.assemble import Found, assemble
from abstain.data.contract import LabeledData
from abstain.data.ids import NumberedIds
from abstain.errors import DataError

_PREFIX = {"train": "train", "test": "t10k"}


def idx_files(folder: Path, split: str) -> list[Path]:
    """The files of images and labels of a split."""
    files = []
    for kind in ("images-idx3", "labels-idx1"):
        stem = f"{_PREFIX[split]}-{kind}-ubyte"
        found = [folder / (stem + end) for end in ("", ".gz") if (folder / (stem + end)).exists()]
        if not found:
            raise DataError(
                f"{folder} must hold {split}.parquet or {stem}[.gz], got neither; "
                "fetch the set again"
            )
        files.append(found[0])
    return files


def read_idx(files: Sequence[Path], classes: Sequence[str]) -> LabeledData:
    """One split from its file of images and its file of labels."""
    images, labels = (_array(path) for path in files)
    return assemble(
        Found(
            kind="image",
            inputs=images[:, None],
            labels=labels.tolist(),
            names=classes,
            ids=NumberedIds(len(labels)),
            where=f"labels in {files[1]}",
        )
    )


def _array(path: Path) -> Tensor:
    """Two zero bytes, the type (8: uint8), how many dimensions, each size as uint32, the data."""
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError) as error:
        raise DataError(f"{path} must be a gzip file, got: {error}; fetch it again") from error
    dimensions = raw[3] if len(raw) > 3 and raw[:3] == b"\0\0\x08" else 0
    shape = np.frombuffer(raw[4 : 4 + 4 * dimensions], dtype=">u4").tolist()
    if not dimensions or len(raw) != 4 + 4 * dimensions + math.prod(shape):
        raise DataError(f"{path} must be a whole idx file of bytes, got another; fetch it again")
    data = bytearray(raw[4 + 4 * dimensions :])
    return torch.frombuffer(data, dtype=torch.uint8).reshape(shape)
