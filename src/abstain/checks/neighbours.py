"""Nearest neighbours: exact up to 100,000 samples, those in the nearest cells above."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from abstain.checks.cells import PRODUCTS, Cells
from abstain.checks.found import Floats, Ints
from abstain.embed.shards import Features
from abstain.errors import AbstainError

NEIGHBOURS = 10
EXACT_UP_TO = 100_000
"""Samples; the cost of exact search grows with their square."""
_FEW = 10
"""Columns."""
_AT_ONCE = 1 << 14
_SPARE = 6
"""Candidates beyond the k that are asked for: products in single precision confuse some."""
_Search: TypeAlias = Callable[[Floats, int], Ints]


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


def rows_of(features: Tensor | Features) -> Floats:
    """Features as rows whose Euclidean distances mean something: all of length 1.

    In many columns the length of a row says how long a text is, how much contrast an image has, or
    that a row of a table has large values; its direction says what it is like. Up to ten columns
    have too few directions, and rows stay as they are.

    Args:
        features: (N, columns), finite.

    >>> rows_of(torch.eye(2, 16) * 8)[0, :3], rows_of(torch.eye(2, 3) * 8)[0]
    (array([1., 0., 0.], dtype=float32), array([8., 0., 0.], dtype=float32))
    """
    tensor = features.in_memory() if isinstance(features, Features) else features
    rows = tensor.detach().to("cpu", torch.float32).numpy()
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise AbstainError(
            f"must be finite numbers (samples, columns), got shape {rows.shape}"
            f"{' with NaN or infinity' if rows.ndim == 2 else ''}",
            argument="features",
        )
    if rows.shape[1] <= _FEW:
        return rows
    length: Floats = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Floats = np.divide(rows, length, out=np.zeros_like(rows), where=length > 0)
    return unit


@dataclass(frozen=True)
class Index:
    """Rows to be searched, built once."""

    rows: Floats
    search: _Search

    @classmethod
    def of(cls, rows: Floats) -> "Index":
        """By what is quick for so many rows."""
        table = torch.from_numpy(rows)
        middle = table.mean(dim=0)  # far from the origin, products would lose digits
        table = table - middle
        nearest = (_All if len(rows) <= EXACT_UP_TO else Cells)(table).nearest

        def search(queries: Floats, k: int) -> Ints:
            moved = table if queries is rows else torch.from_numpy(queries) - middle
            found: Ints = nearest(moved, k).numpy()
            return found

        return cls(rows, search)

    def neighbours(self, k: int = NEIGHBOURS) -> Neighbours:
        """Of each row, the nearest others.

        >>> found = Index.of(np.array([[0.0], [1.0], [3.0]], np.float32)).neighbours(1)
        >>> found.index.tolist(), found.distance.tolist()
        ([[1], [0], [1]], [[1.0], [1.0], [2.0]])
        """
        own = np.arange(len(self.rows))
        return self._nearest(self.search(self.rows, k + 1), self.rows, k, own)

    def nearest_to(self, queries: Floats, k: int = NEIGHBOURS) -> Neighbours:
        """Of each query, the nearest rows."""
        return self._nearest(self.search(queries, min(k, len(self.rows))), queries, k)

    def _nearest(self, index: Ints, queries: Floats, k: int, own: Ints | None = None) -> Neighbours:
        """The nearest k of the candidates, by distances anew, as products lose digits."""
        index = np.sort(index, axis=1)
        distance = np.empty(index.shape, np.float32)
        for begin in range(0, len(index), _AT_ONCE // index.shape[1]):
            part = slice(begin, begin + _AT_ONCE // index.shape[1])
            difference = self.rows[index[part]] - queries[part, None]
            distance[part] = np.sqrt(np.einsum("nkd,nkd->nk", difference, difference))
        distance[:, 1:][index[:, 1:] == index[:, :-1]] = np.inf
        if own is not None:
            distance[index == own[:, None]] = np.inf
        order = np.argsort(distance, axis=1, kind="stable")[:, :k]
        return Neighbours(
            np.take_along_axis(index, order, 1), np.take_along_axis(distance, order, 1)
        )


class _All:
    """Rows that are all compared with a query: |a − b|² / 2 = |b|² / 2 − ab + what a adds."""

    def __init__(self, rows: Tensor) -> None:
        self.rows, self.halves = rows, rows.square().sum(dim=1) / 2

    def nearest(self, queries: Tensor, k: int) -> Tensor:
        """(M, k and some more) the nearest rows of each query, in any order."""
        most = min(k + _SPARE, len(self.rows))
        step = max(1, PRODUCTS // len(self.rows))
        blocks = (queries[begin : begin + step] for begin in range(0, len(queries), step))
        nearness = (torch.addmm(-self.halves, block, self.rows.T) for block in blocks)
        return torch.cat([x.topk(most, sorted=False).indices for x in nearness])
