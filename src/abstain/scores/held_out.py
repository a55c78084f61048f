"""Held-out labels: how well a model predicts labels that it was not trained on."""

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """The accuracy of a model on held-out labels, where its loss on them was lowest.

    >>> HeldOut(epoch=4, accuracy=0.75, rows=np.arange(100)).disagreement
    0.25
    """

    epoch: int
    """Epochs trained until then."""
    accuracy: float
    """Share of the held-out labels that it predicted."""
    rows: npt.NDArray[np.int64] = field(repr=False)
    """The held-out samples."""

    @property
    def disagreement(self) -> float:
        """Share of the held-out labels that it disagreed with."""
        return 1 - self.accuracy

    @property
    def standard_error(self) -> float:
        """Standard error of both shares, never 0: one right and one wrong prediction are added."""
        samples = len(self.rows)
        share = (self.accuracy * samples + 1) / (samples + 2)
        return math.sqrt(share * (1 - share) / samples)
