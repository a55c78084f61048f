"""Held-out labels: how often a model met labels that it had not been trained on."""

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """What a model had learnt where its loss on held-out labels was lowest.

    >>> HeldOut(epoch=4, accuracy=0.75, rows=np.arange(100)).disagreement
    0.25
    """

    epoch: int
    """Epochs it had trained for."""
    accuracy: float
    """Share of the held-out labels that it met."""
    rows: npt.NDArray[np.int64] = field(repr=False)
    """Which samples these were."""

    @property
    def disagreement(self) -> float:
        """Share of the held-out labels that it disagreed with."""
        return 1 - self.accuracy

    @property
    def standard_error(self) -> float:
        """Of both shares, as if one more label had been met and one more missed."""
        samples = len(self.rows)
        share = (self.accuracy * samples + 1) / (samples + 2)
        return math.sqrt(share * (1 - share) / samples)
