"""Small data sets for tests of checks."""

import numpy as np
import torch

from abstain.data import LabeledData


def data_of(inputs, kind, given=None, **others):
    size = len(inputs)
    labels = np.arange(size) % 2 if given is None else given
    return LabeledData(
        inputs=inputs,
        given=torch.as_tensor(labels),
        classes=tuple(str(k) for k in range(int(max(labels)) + 1)),
        ids=[f"id{k}" for k in range(size)],
        kind=kind,
        **others,
    )


def clusters(size=400, columns=16, seed=0, centres=4):
    """Rows around a few centres, and the centre of each."""
    rng = np.random.default_rng(seed)
    given = rng.integers(centres, size=size)
    rows = 3 * rng.normal(size=(centres, columns))[given] + rng.normal(size=(size, columns))
    return torch.from_numpy(rows.astype(np.float32)), given
