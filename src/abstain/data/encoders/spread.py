"""Mean and spread of the columns of a table, robust to a few absurd values."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from abstain.data.contract import Inputs
from abstain.data.inputs import blocks

_FAR = 5.0
"""Standard deviations from the mean beyond which a value is compared with the others."""
_ABSURD = 1000.0
"""A value is absurd if it lies this many times as far from the mean as the others do.

Pixels up to 255 are not, where most are 0 and a few are 1.
"""
_TAME = 10.0
"""Smallest limit of a column, in standard deviations, whatever the training data had."""
_AT_ONCE = 1 << 18
"""Values, 2 MiB of float64."""


@dataclass(frozen=True)
class Spread:
    """float32, for each column."""

    mean: Tensor
    std: Tensor
    limit: Tensor
    """Largest standardised value that is not absurd; larger ones are clipped to it.

    0 for a column that never varied: no weight was learnt for it.
    """
    missing: Tensor
    """Number of missing values."""

    def is_beyond(self, rows: Tensor) -> Tensor:
        """Mark values beyond the limit of their column."""
        return is_beyond((rows - self.mean) / self.std, self.limit)


def is_beyond(standardised: Tensor, limit: Tensor) -> Tensor:
    """Mark values beyond the limit of their column, if that is not 0."""
    return (standardised.abs() > limit) & (limit > 0)


def spread_of(inputs: Inputs) -> Spread:
    """Mean and standard deviation of the values that are neither missing nor absurd.

    Values that lie a thousand times as far from the others as these from each other (1e30 among
    heights) would make them all alike. Where the others are all the same there is nothing to lose:
    a rare event is none of these.

    >>> heights = torch.arange(150.0, 190.0)[:, None]
    >>> plain = spread_of(heights)
    >>> slip = spread_of(torch.cat([heights, torch.tensor([[1e30]])]))
    >>> plain.mean.item(), slip.mean.item(), plain.std.equal(slip.std), slip.limit.item()
    (169.5, 169.5, True, 10.0)
    """
    low, high = (torch.tensor(x, dtype=torch.float64) for x in (-math.inf, math.inf))
    while True:
        moments = _moments(inputs, low, high)
        low, high = (bound.expand(moments.mean.shape).clone() for bound in (low, high))
        far = (moments.farthest(moments.mean) > _FAR * moments.std).nonzero().flatten()
        if not len(far):
            return moments.spread()
        mean, around = moments.mean[far], _FAR * moments.std[far]
        inner = torch.maximum(low[far], mean - around), torch.minimum(high[far], mean + around)
        rest = _moments(inputs, *inner, far)
        reach = _ABSURD * rest.typical
        absurd = ~rest.is_constant & (moments.farthest(rest.mean, far) > reach)
        if not absurd.any():
            return moments.spread()
        low[far] = torch.where(absurd, torch.maximum(low[far], rest.mean - reach), low[far])
        high[far] = torch.where(absurd, torch.minimum(high[far], rest.mean + reach), high[far])


@dataclass(frozen=True)
class _Moments:
    """float64, for each column, of its values within bounds."""

    mean: Tensor
    std: Tensor
    typical: Tensor
    """Σd²/Σ|d| of the distances from the mean; the size of an event, however rare."""
    smallest: Tensor
    largest: Tensor
    missing: Tensor

    def farthest(self, centre: Tensor, columns: Tensor | slice = slice(None)) -> Tensor:
        return torch.maximum(self.largest[columns] - centre, centre - self.smallest[columns])

    @property
    def is_constant(self) -> Tensor:
        return self.std <= 1e-7 * self.mean.abs()  # but for rounding

    def spread(self) -> Spread:
        # Rounding must not blow up a column that never varies.
        mean, std = self.mean.float(), self.std.masked_fill(self.is_constant, 1.0).float()
        # By the arithmetic of the encoder, so that no value of the training is changed by a bit.
        ends = torch.stack([self.smallest, self.largest]).float()
        limit = ((ends - mean) / std).abs().amax(0).clamp(min=_TAME)
        limit = limit.masked_fill(self.is_constant, 0.0)
        return Spread(mean, std, limit, self.missing)


def _moments(
    inputs: Inputs, low: Tensor, high: Tensor, columns: Tensor | slice = slice(None)
) -> _Moments:
    """Compute in float64, in two passes over blocks, so that it works for lazy tables too."""
    total = missing = count = squares = distances = torch.zeros((), dtype=torch.float64)
    smallest, largest = torch.tensor(math.inf), torch.tensor(-math.inf)
    for rows in _small_blocks(inputs, columns):
        least, most = rows.amin(0), rows.amax(0)
        inside = _inside(rows, least, most, low, high)
        if inside is None:
            total, count = total + rows.sum(0, dtype=torch.float64), count + len(rows)
        else:
            values = rows.double()
            total, count = total + values.where(inside, 0.0).sum(0), count + inside.sum(0)
            least = values.where(inside, math.inf).amin(0)
            most = values.where(inside, -math.inf).amax(0)
            missing = missing + rows.isnan().sum(0)
        smallest, largest = torch.minimum(smallest, least), torch.maximum(largest, most)
    count = torch.as_tensor(count).clamp(min=1)
    mean = total / count
    for rows in _small_blocks(inputs, columns):
        distance = rows - mean
        inside = _inside(rows, rows.amin(0), rows.amax(0), low, high)
        distance = distance if inside is None else distance.where(inside, 0.0)
        squares = squares + distance.square().sum(0)
        distances = distances + distance.abs_().sum(0)
    std = (squares / count).sqrt()
    missing = missing.expand(mean.shape)
    return _Moments(mean, std, squares / distances, smallest.double(), largest.double(), missing)


def _small_blocks(inputs: Inputs, columns: Tensor | slice) -> Iterator[Tensor]:
    """Rows whose sums stay in the processor's cache."""
    for rows in blocks(inputs):
        step = 1 + _AT_ONCE // (1 + rows.shape[1])
        for begin in range(0, len(rows), step):
            yield rows[begin : begin + step, columns]


def _inside(rows: Tensor, least: Tensor, most: Tensor, low: Tensor, high: Tensor) -> Tensor | None:
    """Mark values that are there and within bounds; None where all are, as in most tables."""
    if bool(((least >= low) & (most <= high)).all()):  # not where a value is missing
        return None
    return (rows >= low) & (rows <= high)
