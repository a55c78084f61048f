"""Neighbours of many rows: each row is compared with those of the cells that are nearest to it.

k-means puts the rows into cells of about a hundred. A row i meets a row j where j's cell is among
the nearest ones of i, or i's cell among those of j: the second half doubles what is found at the
same cost, as the products are the same. Then each row meets the neighbours of its neighbours,
which finds a third of those that were missed. Everything is a product of matrices, and a seed makes
two runs equal.
"""

import torch
from torch import Tensor

_SIZE = 128
"""Rows of a cell on average."""
_ASKED = 80
"""Cells that are nearest to a row, of which the rows are compared with it."""
_ROUNDS, _FITTED = 3, 16
"""Rounds of k-means, and rows per cell by which it is fitted."""
_AT_ONCE = 1 << 19
PRODUCTS = {"cpu": 1 << 23, "cuda": 1 << 29}
_GATHERED = {"cpu": 1 << 20, "cuda": 1 << 28}
"""Held in memory at a time, of 4 bytes each: products, and numbers of rows; on a CPU, in caches."""


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
        self.near = self._cells_near(rows)
        self.members = _by_cell(self.near[:, 0], cells)

    def nearest(self, queries: Tensor, k: int) -> Tensor:
        """(M, k) the nearest rows that were met; for the rows themselves, twice as many."""
        best = _Best(len(queries), k, queries.device)
        if queries is not self.rows:
            self._meet_all(queries, self._cells_near(queries), best, None)
            return best.index
        met_by = _Best(len(queries), k, queries.device)
        self._meet_all(queries, self.near, best, met_by)
        index = torch.cat([best.index, met_by.index], dim=1)
        nearness = torch.cat([best.nearness, met_by.nearness], dim=1)
        return self._neighbours_of(_top_distinct(index, nearness, k), 2 * k)

    def _cells_near(self, rows: Tensor) -> Tensor:
        return nearest_cells(rows, self.centres, min(_ASKED, len(self.centres))).int()

    def _meet_all(
        self, queries: Tensor, near: Tensor, best: "_Best", met_by: "_Best | None"
    ) -> None:
        for begin in range(0, len(queries), _AT_ONCE):
            part = slice(begin, begin + _AT_ONCE)
            first, others = near[part, :1], near[part, 1:]
            self._meet(queries[part], first, begin, best, None)  # so that the others are measured
            self._meet(queries[part], others, begin, best, met_by)

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
            cell = self.rows.index_select(0, members)
            # A cell of identical rows may be large.
            for part in torch.split(places, max(1, most // len(members))):
                asking = part // near.shape[1]
                rows = asking + begin
                # Half the squared distance, less than 0.
                nearness = torch.addmm(
                    -self.halves[members, None], cell, block.index_select(0, asking).T
                )
                nearness -= halves[asking]
                best.take(rows, members, nearness.T, best.least[rows])
                if met_by is not None:
                    least = torch.maximum(best.least[members], met_by.least[members])
                    met_by.take(members, rows, nearness, least)

    def _neighbours_of(self, index: Tensor, k: int) -> Tensor:
        """(N, k) the nearest among the neighbours of the neighbours; each row is its own, too."""
        k = min(k, index.shape[1] ** 2)
        # Small results kept between large temporary ones would scatter the memory, by gigabytes.
        nearest = torch.empty((len(index), k), dtype=index.dtype, device=index.device)
        step = max(1, _GATHERED[index.device.type] // (index.shape[1] ** 2 * self.rows.shape[1]))
        for begin in range(0, len(index), step):
            part = slice(begin, begin + step)
            others = index[index[part]].flatten(1)
            rows = self.rows.index_select(0, others.flatten()).view(*others.shape, -1)
            nearness = (rows @ self.rows[part, :, None])[:, :, 0] - self.halves[others]
            nearest[part] = _top_distinct(others, nearness, k)
        return nearest


class _Best:
    """The nearest k that each of some rows has met so far."""

    def __init__(self, size: int, k: int, device: torch.device) -> None:
        self.nearness = torch.full((size, k), -torch.inf, device=device)
        self.index = torch.zeros((size, k), dtype=torch.int64, device=device)
        self.least = torch.full((size,), -torch.inf, device=device)
        """The similarity that another row must exceed to be among them."""

    def take(self, rows: Tensor, others: Tensor, nearness: Tensor, least: Tensor) -> None:
        """Others (columns) that some rows have met, and how near; only above the least counts."""
        better = (nearness.amax(dim=1) > least).nonzero()[:, 0]
        if not len(better):
            return
        rows = rows[better]
        k = self.nearness.shape[1]
        # Quicker than nearness[better] and than a topk of rows that are not contiguous.
        new = nearness.index_select(0, better).contiguous().topk(min(k, len(others)), sorted=False)
        known = torch.cat([self.nearness.index_select(0, rows), new.values], dim=1)
        index = torch.cat([self.index.index_select(0, rows), others[new.indices]], dim=1)
        top = known.topk(k, sorted=False)
        self.nearness[rows], self.index[rows] = top.values, index.gather(1, top.indices)
        self.least[rows] = top.values.amin(dim=1)


def _top_distinct(index: Tensor, nearness: Tensor, k: int) -> Tensor:
    """(N, k) the nearest first; one that comes again counts once, where others are left."""
    index, order = index.sort(dim=1)
    nearness = nearness.gather(1, order)
    nearness[:, 1:][index[:, 1:] == index[:, :-1]] = -torch.inf
    return index.gather(1, nearness.topk(k).indices)


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
        cell = nearest_cells(part, centres, 1)[:, 0]
        members = _by_cell(cell, cells)
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
