"""Neighbours of many rows: each row is compared with those of the cells that are nearest to it.

k-means puts the rows into cells of about a hundred. A row i meets a row j where j's cell is among
the nearest ones of i, or i's cell among those of j: the second half doubles what is found at the
same cost, as the products are the same. Everything is a product of matrices, and a seed makes two
runs equal.
"""

import torch
from torch import Tensor

_SIZE = 128
"""Rows of a cell on average."""
_ASKED = 80
"""Cells that are nearest to a row, of which the rows are compared with it."""
_ROUNDS, _FITTED = 3, 16
"""Of k-means, and rows per cell by which it is fitted."""
_AT_ONCE = 1 << 17
PRODUCTS = {"cpu": 1 << 23, "cuda": 1 << 29}
"""Held in memory at a time, of 4 bytes each."""


class Cells:
    """Rows in cells.

    >>> rows = torch.rand(500, 8, generator=torch.Generator().manual_seed(0))
    >>> found = Cells(rows).nearest(rows, 3)
    >>> bool((found[:, :3] == torch.arange(500)[:, None]).any(dim=1).all())
    True
    """

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows
        self.halves = rows.square().sum(dim=1) / 2
        cells = max(1, len(rows) // _SIZE)
        self.centres = k_means(rows, cells, cells * _FITTED)
        own = nearest_cells(rows, self.centres, 1)[:, 0]
        self.members = _by_cell(own, len(self.centres))

    def nearest(self, queries: Tensor, k: int) -> Tensor:
        """(M, k) the nearest rows that were met; (N, 2k) for the rows themselves, some twice.

        The second half then are rows that met these, rather than being met by them.
        """
        own = queries is self.rows
        best = _Best(len(queries), k, queries.device)
        met_by = _Best(len(self.rows), k, queries.device) if own else None
        for begin in range(0, len(queries), _AT_ONCE):
            block = queries[begin : begin + _AT_ONCE]
            near = nearest_cells(block, self.centres, min(_ASKED, len(self.centres)))
            self._meet(block, near[:, :1], begin, best, None)  # so that the others are measured
            self._meet(block, near[:, 1:], begin, best, met_by)
        return best.index if met_by is None else torch.cat([best.index, met_by.index], dim=1)

    def _meet(
        self, block: Tensor, near: Tensor, begin: int, best: "_Best", met_by: "_Best | None"
    ) -> None:
        """Compare queries with the rows of some cells, one cell after the other."""
        halves = block.square().sum(dim=1) / 2
        most = PRODUCTS[block.device.type]
        asked = _by_cell(near.flatten(), len(self.centres))
        for members, places in zip(self.members, asked, strict=True):
            if not len(places) or not len(members):
                continue
            # A cell of identical rows may be large.
            for part in torch.split(places, max(1, most // len(members))):
                asking = part // near.shape[1]
                rows = asking + begin
                # Half the squared distance, less than 0.
                nearness = torch.addmm(-self.halves[members], block[asking], self.rows[members].T)
                nearness -= halves[asking, None]
                best.take(rows, members, nearness, best.least[rows])
                if met_by is not None:
                    least = torch.maximum(best.least[members], met_by.least[members])
                    met_by.take(members, rows, nearness.T, least)


class _Best:
    """The nearest k that each of some rows has met so far."""

    def __init__(self, size: int, k: int, device: torch.device) -> None:
        self.nearness = torch.full((size, k), -torch.inf, device=device)
        self.index = torch.zeros((size, k), dtype=torch.int64, device=device)
        self.least = torch.full((size,), -torch.inf, device=device)
        """What another one must exceed to be among them."""

    def take(self, rows: Tensor, others: Tensor, nearness: Tensor, least: Tensor) -> None:
        """Others (columns) that some rows have met, and how near; only above the least counts."""
        better = (nearness.amax(dim=1) > least).nonzero()[:, 0]
        if not len(better):
            return
        rows = rows[better]
        known = torch.cat([self.nearness[rows], nearness[better]], dim=1)
        k = self.nearness.shape[1]
        top = known.topk(k, sorted=False)
        before = self.index[rows].gather(1, top.indices.clamp(max=k - 1))
        index = torch.where(top.indices < k, before, others[(top.indices - k).clamp(min=0)])
        self.nearness[rows], self.index[rows] = top.values, index
        self.least[rows] = top.values.amin(dim=1)


def _by_cell(cell: Tensor, cells: int) -> tuple[Tensor, ...]:
    """The places at which each cell stands."""
    counts = torch.bincount(cell, minlength=cells).tolist()
    return torch.split(torch.argsort(cell, stable=True), counts)


def k_means(rows: Tensor, cells: int, fitted: int) -> Tensor:
    """(cells, columns) centres of rows, by at most so many of them."""
    generator = torch.Generator().manual_seed(0)
    chosen = torch.randperm(len(rows), generator=generator)[:fitted]
    part = rows[chosen.to(rows.device)]
    centres = part[:cells].clone()
    for _ in range(_ROUNDS):
        own = nearest_cells(part, centres, 1)[:, 0]
        members = _by_cell(own, cells)
        means = (
            part[x].mean(dim=0) if len(x) else centre
            for x, centre in zip(members, centres, strict=True)
        )
        centres = torch.stack([*means])
    return centres


def nearest_cells(rows: Tensor, centres: Tensor, number: int) -> Tensor:
    """(N, number) the centres that are nearest to each row, the nearest first."""
    halves = centres.square().sum(dim=1) / 2
    parts = (torch.addmm(-halves, part, centres.T) for part in torch.split(rows, 4096))
    return torch.cat([x.topk(number).indices for x in parts])
