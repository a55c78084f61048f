"""How many labels are wrong, in which classes, and which: an estimate from one training run."""

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from abstain.errors import AbstainError
from abstain.scores.given import checked_labels
from abstain.scores.label_quality import LabelQuality
from abstain.scores.noise_model import NoiseModel
from abstain.scores.wrong_share import Z, half_width

# Standard error of an expected share that comes from the shape of the odds; by planted errors.
_SHAPE = 0.025


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A value, and where it lies with 95% confidence."""

    value: float
    low: float
    high: float

    def __contains__(self, truth: float) -> bool:
        return self.low <= truth <= self.high


@dataclass(frozen=True, kw_only=True)
class NoiseEstimate:
    """How many labels are wrong, and how sure that is. Intervals are analytic, not bootstrapped."""

    rate: Interval
    """Share of wrong labels."""
    per_class: list[Interval]
    """Share of wrong labels among those given class j; NaN where no label is j."""
    transition: npt.NDArray[np.float64]
    """T[i, j] = P(given = j | true = i); rows sum to 1."""
    transition_low: npt.NDArray[np.float64]
    transition_high: npt.NDArray[np.float64]
    wrong_probability: npt.NDArray[np.float32] = field(repr=False)
    """P(label of sample i is wrong), calibrated: its mean is `rate.value`."""
    is_label_issue: npt.NDArray[np.bool_] = field(repr=False)
    """The worst labels, as many as are estimated to be wrong; decided without true labels."""
    trust: float
    """How far labels are contradicted because they are wrong, from 0 to 1, rather than by errors of
    a weak model, or because samples do not tell their class."""
    shifts: tuple[float, float] = field(repr=False)
    """What to add to the log odds of being wrong for the lower and the upper end of the rate."""

    def expected_wrong(self, budget: int) -> Interval:
        """How many of the `budget` worst labels are expected to be wrong.

        The interval has the uncertainty of the rate in it, that of the draw, and what the odds
        leave out.

        >>> probabilities = [[0.9, 0.1]] * 600 + [[0.1, 0.9]] * 600
        >>> given = [0] * 600 + [1] * 500 + [0] * 100
        >>> from abstain.scores.label_quality import label_quality_from_probabilities
        >>> quality = label_quality_from_probabilities(probabilities, given)
        >>> round(estimate_noise(quality, given, 2).expected_wrong(100).value)
        100
        """
        samples = len(self.wrong_probability)
        if not 0 <= budget <= samples:
            raise AbstainError(f"budget must lie in [0, {samples}], got {budget}")
        if budget == 0:
            return Interval(value=0.0, low=0.0, high=0.0)
        worst = np.partition(self.wrong_probability, samples - budget)[samples - budget :]
        wrong = worst.astype(np.float64)
        value = float(wrong.sum())
        chance = Z * math.hypot(math.sqrt(float((wrong * (1 - wrong)).sum())), _SHAPE * budget)
        odds = logit(np.clip(wrong, 1e-12, 1 - 1e-12))
        low, high = (float(expit(odds + shift).sum()) for shift in self.shifts)
        return Interval(
            value=value,
            low=max(0.0, value - math.hypot(value - low, chance)),
            high=min(float(budget), value + math.hypot(high - value, chance)),
        )


def estimate_noise(quality: LabelQuality, given: npt.ArrayLike, num_classes: int) -> NoiseEstimate:
    """Estimate the share of wrong labels, overall, per class and as a transition matrix.

    The intervals are analytic: the chance of the sample, and a term for what the model of the noise
    leaves out. Where wrong labels cannot be told from errors of the model they are wide: see
    `wrong_share`.

    Args:
        quality: Scores.
        given: (N,) given labels.
        num_classes: Number of classes m.

    >>> from abstain.scores.label_quality import label_quality_from_probabilities
    >>> probabilities = [[0.9, 0.1]] * 600 + [[0.1, 0.9]] * 600
    >>> given = [0] * 600 + [1] * 500 + [0] * 100
    >>> estimate = estimate_noise(label_quality_from_probabilities(probabilities, given), given, 2)
    >>> 1 / 12 in estimate.rate, int(estimate.is_label_issue.sum())
    (True, 100)
    """
    labels = checked_labels(given, len(quality), num_classes)
    noise = quality.noise
    rate = Interval(value=noise.share.value, low=noise.share.low, high=noise.share.high)
    wrong = noise.wrong_probability
    shifts = tuple(noise.offset - noise.offset_for(end) for end in (rate.low, rate.high))
    # Not those more likely wrong than right: where a model is weak hardly one is, and a reviewer
    # would be told to look at next to nothing.
    flags = np.zeros(len(labels), dtype=bool)
    flags[quality.worst_first()[: round(rate.value * len(labels))]] = True
    transition, low, high = _transition(quality, labels, num_classes, rate)
    return NoiseEstimate(
        rate=rate,
        per_class=_per_class(noise, wrong, labels, num_classes, rate),
        transition=transition,
        transition_low=low,
        transition_high=high,
        wrong_probability=wrong,
        is_label_issue=flags,
        trust=noise.share.trust,
        shifts=(shifts[0], shifts[1]),
    )


def _per_class(
    noise: NoiseModel,
    wrong: npt.NDArray[np.float32],
    labels: npt.NDArray[np.int32],
    num_classes: int,
    rate: Interval,
) -> list[Interval]:
    sizes = np.bincount(labels, minlength=num_classes)
    sums = np.bincount(labels, wrong, minlength=num_classes)
    intervals = []
    for size, total in zip(sizes.tolist(), sums.tolist(), strict=True):
        if not size:
            intervals.append(Interval(value=math.nan, low=0.0, high=1.0))
            continue
        value = total / size
        seen = max(1, round(size * noise.share.plateau.share))
        own = half_width(value, seen, 1 - noise.share.plateau.share)
        # What is uncertain of the whole is uncertain of its parts, in proportion.
        scale = min(value / max(rate.value, 1e-9), len(labels) / size)
        low = value - math.hypot(own, scale * (rate.value - rate.low))
        high = value + math.hypot(own, scale * (rate.high - rate.value))
        intervals.append(Interval(value=value, low=max(0.0, low), high=min(1.0, high)))
    return intervals


def _transition(
    quality: LabelQuality, labels: npt.NDArray[np.int32], num_classes: int, rate: Interval
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """T and its bounds, off the diagonal scaled so that it gives the rate."""
    noise = quality.noise
    known = min(len(noise.transition), num_classes)
    matrix = np.eye(num_classes)
    matrix[:known, :known] = noise.transition[:known, :known]
    matrix /= matrix.sum(1, keepdims=True)
    shares = np.bincount(quality.predicted_label, minlength=num_classes) / len(labels)
    leaving = 1 - np.diagonal(matrix)
    scale = rate.value / max(float(shares[:num_classes] @ leaving), 1e-12)
    scale = min(scale, 1 / max(float(leaving.max()), 1e-12))
    np.fill_diagonal(matrix, 0)
    matrix *= scale
    np.fill_diagonal(matrix, 1 - matrix.sum(1))
    seen = np.zeros(num_classes)
    seen[:known] = noise.share.counts[:known].sum(1)
    n = np.maximum(seen, 1)[:, None]
    # Wilson's score interval, and the uncertainty of the rate in proportion.
    centre = (matrix + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * np.sqrt(matrix * (1 - matrix) / n + Z**2 / (4 * n * n))
    relative = (rate.high - rate.low) / 2 / max(rate.value, 1e-9)
    moved = np.minimum(matrix, 1 - matrix) * relative
    low = np.clip(np.minimum(matrix, centre - np.hypot(half, moved)), 0, 1)
    low = np.where(low < 1 / n, 0, low)  # less than one label
    high = np.clip(np.maximum(matrix, centre + np.hypot(half, moved)), 0, 1)
    return matrix, low, high
