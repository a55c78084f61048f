"""How many labels are wrong, in which classes, and which: an estimate from one training run."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from abstain.scores.label_quality import LabelQuality


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A value, and where it lies with 95% confidence."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class NoiseEstimate:
    """How many labels are wrong, and how sure that is."""

    rate: Interval
    """Share of wrong labels."""
    per_class: list[Interval]
    """Share of wrong labels among those given class j."""
    transition: npt.NDArray[np.float64]
    """T[i, j] = P(given = j | true = i); rows sum to 1."""
    transition_low: npt.NDArray[np.float64]
    transition_high: npt.NDArray[np.float64]
    wrong_probability: npt.NDArray[np.float32]
    """P(label of sample i is wrong), calibrated."""
    is_label_issue: npt.NDArray[np.bool_]
    """Labels to be looked at, decided without true labels."""

    def expected_wrong(self, budget: int) -> Interval:
        """How many of the `budget` worst labels are expected to be wrong."""
        raise NotImplementedError


def estimate_noise(
    quality: LabelQuality, given: npt.ArrayLike, num_classes: int, *, seed: int = 0
) -> NoiseEstimate:
    """Estimate the share of wrong labels, overall, per class and as a transition matrix."""
    raise NotImplementedError
