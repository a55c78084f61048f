"""Nearest neighbours: candidates by products of matrices, the nearest of these by distances.

Few samples are compared with all others in all columns, more of them in the main components only,
and many with those of the nearest cells.
"""

import logging
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from abstain.checks.cells import PRODUCTS, Cells
from abstain.checks.rules import Floats, Ints
from abstain.data.inputs import all_finite
from abstain.embed.store.shards import Features
from abstain.errors import AbstainError

_log = logging.getLogger(__name__)
NEIGHBOURS = 10
EXACT_UP_TO = {"cpu": 20_000, "cuda": 1_000_000}
"""Samples that are compared in all columns; the cost grows with their square."""
ALL_UP_TO = {"cpu": 100_000, "cuda": 1_000_000}
"""Samples that are compared with all others: above the former, in the main components."""
_FEW = 10
"""Columns."""
_COLUMNS, _SPARE = 256, 22
"""Main components by which candidates are found, and how many beyond the k are asked for. They find
99.8% of the nearest by EfficientNet-Lite2, of 4,100 images of CIFAR-10 and 3,075 of MNIST."""
_NUMBERS = {"cpu": 1 << 20, "cuda": 1 << 28}
"""Differences held in memory at a time: on a CPU, in its caches."""


@dataclass(frozen=True)
class Neighbours:
    """The nearest others of each of N samples, the nearest first."""

    index: Ints
    """(N, k) rows."""
    distance: Floats
    """(N, k) Euclidean."""

    @property
    def farthest(self) -> Floats:
        """(N,) the distance to the k-th: how densely the samples lie there."""
        return self.distance[:, -1]


def rows_of(features: Tensor | Floats | Features) -> Floats:
    """Features as rows whose Euclidean distances mean something: all of length 1.

    In many columns the length of a row says how long a text is, how much contrast an image has, or
    that a row of a table has large values; its direction says what it is like. Up to ten columns
    have too few directions, and rows stay as they are.

    Args:
        features: (N, columns), finite.

    >>> rows_of(torch.eye(2, 16) * 8)[0, :3], rows_of(torch.eye(2, 3) * 8)[0]
    (array([1., 0., 0.], dtype=float32), array([8., 0., 0.], dtype=float32))
    """
    tensor = features.in_memory() if isinstance(features, Features) else torch.as_tensor(features)
    rows = tensor.detach().to("cpu", torch.float32)
    if rows.ndim != 2 or not all_finite(rows):
        raise AbstainError(
            f"must be finite numbers (samples, columns), got shape {tuple(rows.shape)}"
            f"{' with NaN or infinity' if rows.ndim == 2 else ''}",
            argument="features",
        )
    unit: Floats = (rows if rows.shape[1] <= _FEW else nn.functional.normalize(rows)).numpy()
    return unit


class Index:
    """Rows to be searched, on a GPU if there is one that has the memory."""

    def __init__(self, rows: Floats, device: torch.device) -> None:
        self.rows = rows
        self._device = device
        self._search: _Search | None = None

    @classmethod
    def of(cls, rows: Floats, device: torch.device | None = None) -> "Index":
        """Index rows on a GPU if there is one."""
        return cls(rows, device or torch.device("cuda" if torch.cuda.is_available() else "cpu"))

    def neighbours(self, k: int = NEIGHBOURS) -> Neighbours:
        """Find the nearest others of each row.

        >>> found = Index.of(torch.tensor([[0.0], [1.0], [3.0]]).numpy()).neighbours(1)
        >>> found.index.tolist(), found.distance.tolist()
        ([[1], [0], [1]], [[1.0], [1.0], [2.0]])
        """
        return self._nearest(None, k)

    def nearest_to(self, queries: Floats, k: int = NEIGHBOURS) -> Neighbours:
        """Find the nearest rows of each query."""
        return self._nearest(queries, min(k, len(self.rows)))

    def _nearest(self, queries: Floats | None, k: int) -> Neighbours:
        try:
            self._search = self._search or _Search(torch.from_numpy(self.rows).to(self._device))
            return self._search.nearest(queries, k)
        except torch.OutOfMemoryError:
            if self._device.type == "cpu":
                raise
        _log.warning("the GPU has too little memory: neighbours are computed on the CPU")
        self._device, self._search = torch.device("cpu"), None
        torch.cuda.empty_cache()
        return self._nearest(queries, k)


class _Search:
    """Candidates by products of matrices, then the nearest of these by all columns."""

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows
        self.middle = rows.mean(dim=0)  # far from the origin, products would lose digits
        size, device = len(rows), rows.device.type
        self.basis = None if size <= EXACT_UP_TO[device] else _main_directions(rows - self.middle)
        self.candidates = (_All if size <= ALL_UP_TO[device] else Cells)(self._leading(rows))

    def nearest(self, queries: Floats | None, k: int) -> Neighbours:
        """Find the nearest rows of each query; without queries, the nearest others of each row."""
        if queries is None:
            self_index = torch.arange(len(self.rows), device=self.rows.device)
            candidates = self.candidates.nearest(self.candidates.rows, k + 1)
            return self._ranked(candidates, self.rows, k, self_index)
        asking = torch.from_numpy(queries).to(self.rows.device)
        return self._ranked(self.candidates.nearest(self._leading(asking), k), asking, k)

    def _leading(self, rows: Tensor) -> Tensor:
        moved = rows - self.middle
        return moved if self.basis is None else moved @ self.basis

    def _ranked(
        self, index: Tensor, queries: Tensor, k: int, self_index: Tensor | None = None
    ) -> Neighbours:
        """The nearest k of the candidates, by distances anew, as products lose digits."""
        index = index.sort(dim=1).values
        distance = torch.empty(index.shape, device=index.device)
        step = max(1, _NUMBERS[index.device.type] // (index.shape[1] * queries.shape[1]))
        for begin in range(0, len(index), step):
            part = slice(begin, begin + step)
            others = self.rows.index_select(0, index[part].flatten())  # quicker than rows[index]
            difference = others.view(*index[part].shape, -1) - queries[part, None]
            distance[part] = torch.linalg.vector_norm(difference, dim=2)
        distance[:, 1:][index[:, 1:] == index[:, :-1]] = torch.inf
        if self_index is not None:
            distance[index == self_index[:, None]] = torch.inf
        distance, order = distance.sort(dim=1, stable=True)
        return Neighbours(
            index.gather(1, order[:, :k]).cpu().numpy(), distance[:, :k].cpu().numpy()
        )


def _main_directions(rows: Tensor) -> Tensor | None:
    """(columns, `_COLUMNS`) in which rows around 0 are most spread; None for fewer columns."""
    if rows.shape[1] <= _COLUMNS:
        return None
    directions: Tensor = torch.linalg.eigh(rows.T @ rows).eigenvectors
    return directions[:, -_COLUMNS:]


class _All:
    """Rows that are all compared with a query: |a − b|² / 2 = |b|² / 2 − ab + what a adds."""

    def __init__(self, rows: Tensor) -> None:
        self.rows, self.halves = rows, rows.square().sum(dim=1) / 2

    def nearest(self, queries: Tensor, k: int) -> Tensor:
        """(M, k and some more) the nearest rows of each query, in any order."""
        step = max(1, PRODUCTS[queries.device.type] // len(self.rows))
        blocks = (queries[begin : begin + step] for begin in range(0, len(queries), step))
        nearness = (torch.addmm(-self.halves, block, self.rows.T) for block in blocks)
        most = min(k + _SPARE, len(self.rows))
        return torch.cat([x.topk(most, sorted=False).indices for x in nearness])
