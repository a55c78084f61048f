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
    """How many values are missing."""

    def is_beyond(self, rows: Tensor) -> Tensor:
        """Which values lie beyond the limit of their column."""
        return is_beyond((rows - self.mean) / self.std, self.limit)


def is_beyond(standardised: Tensor, limit: Tensor) -> Tensor:
    """Which values go beyond the limit of their column, if that is not 0."""
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
    low, high = torch.tensor(-math.inf), torch.tensor(math.inf)
    while True:
        found = _moments(inputs, low, high)
        far = found.farthest(found.mean) > _FAR * found.std
        if not far.any():
            return found.spread()
        around = _FAR * found.std
        rest = _moments(
            inputs,
            torch.maximum(low, found.mean - around),
            torch.minimum(high, found.mean + around),
        )
        reach = _ABSURD * rest.typical
        absurd = far & ~rest.is_constant & (found.farthest(rest.mean) > reach)
        if not absurd.any():
            return found.spread()
        low = torch.where(absurd, torch.maximum(low, rest.mean - reach), low)
        high = torch.where(absurd, torch.minimum(high, rest.mean + reach), high)


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

    def farthest(self, centre: Tensor) -> Tensor:
        return torch.maximum(self.largest - centre, centre - self.smallest)

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


def _moments(inputs: Inputs, low: Tensor, high: Tensor) -> _Moments:
    """In float64, in two passes over blocks, so that it works for lazy tables too."""
    total = missing = count = squares = distances = torch.zeros((), dtype=torch.float64)
    smallest, largest = torch.tensor(math.inf), torch.tensor(-math.inf)
    for rows in _parts(inputs):
        inside = _inside(rows, low, high)
        total = total + inside.nansum(0)
        missing = missing + rows.isnan().sum(0)
        count = count + (~inside.isnan()).sum(0)
        smallest = torch.minimum(smallest, inside.nan_to_num(math.inf).amin(0))
        largest = torch.maximum(largest, inside.nan_to_num(-math.inf).amax(0))
    count = count.clamp(min=1)
    mean = total / count
    for rows in _parts(inputs):
        distance = _inside(rows, low, high) - mean
        squares = squares + (distance**2).nansum(0)
        distances = distances + distance.abs().nansum(0)
    std = (squares / count).sqrt()
    return _Moments(mean, std, squares / distances, smallest, largest, missing)


def _parts(inputs: Inputs) -> Iterator[Tensor]:
    """Some rows at a time, so few that the processor's cache holds what is computed of them."""
    for rows in blocks(inputs):
        yield from rows.split(1 + _AT_ONCE // (1 + rows.shape[1]))  # type: ignore[no-untyped-call]


def _inside(rows: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Values within bounds, NaN for all others."""
    values = rows.double()
    return values.where((values >= low) & (values <= high), math.nan)
