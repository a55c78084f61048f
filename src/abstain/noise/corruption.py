"""Drawing wrong labels: from a transition matrix, or by what the inputs look like."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from abstain.noise.checks import (
    FloatArray,
    IntArray,
    check_features,
    check_labels,
    check_num_classes,
    check_rate,
    check_rng,
)
from abstain.noise.matrices import check_transition


def corrupt(
    labels: npt.ArrayLike,
    matrix: npt.ArrayLike,
    rng: np.random.Generator,
    *,
    exact: bool = False,
) -> IntArray:
    """Draw a given label for every true one.

    Args:
        labels: True labels, integers in [0, m).
        matrix: T[i, j] = P(given = j | true = i), m × m.
        rng: Where the randomness comes from; the same state gives the same flips.
        exact: If false, every sample is drawn by itself and the number of wrong labels varies.
            If true, the *total* number of wrong labels is the expected one, Σ (1 − T[y, y]),
            rounded (halves to even): round(r · N) for symmetric and pairflip noise. The number per
            class still varies, and so do the targets, which are drawn from the off-diagonal row.

    Returns:
        New labels, int64; the input is left alone.

    >>> from abstain.noise import pairflip
    >>> corrupt([0, 1, 2, 2], pairflip(3, 1.0), np.random.default_rng(0))
    array([1, 2, 0, 0])
    """
    transitions = check_transition(matrix)
    true = check_labels(labels, len(transitions))
    check_rng(rng)
    # Flip probabilities are sums of what is drawn from below, not 1 − diagonal: a row that rounds
    # to probability 1e-17 of a flip with nowhere to go cannot occur.
    cumulative = np.cumsum(transitions * ~np.eye(len(transitions), dtype=bool), axis=1)
    flip_probability = cumulative[:, -1]
    expected = float(np.bincount(true, minlength=len(transitions)) @ flip_probability)
    flips = _choose_flips(flip_probability[true], rng, _round(expected) if exact else None)
    given = true.copy()
    given[flips] = _draw_from_rows(cumulative, true[flips], rng)
    return given


class InstanceNoise(NamedTuple):
    """Labels given by `instance_dependent`, and how likely each was to be wrong."""

    given: IntArray
    flip_probability: FloatArray


def instance_dependent(
    features: npt.ArrayLike,
    labels: npt.ArrayLike,
    num_classes: int,
    rate: float,
    rng: np.random.Generator,
    *,
    exact: bool = False,
) -> InstanceNoise:
    """Noise that depends on the input: some samples are harder, and each has its own wrong class.

    After the generator of Xia et al., "Part-dependent Label Noise: Towards Instance-dependent
    Label Noise", NeurIPS 2020 (arXiv:2006.07836). A sample is flipped with its own probability, a
    normal (deviation 0.1) around the rate, truncated; where to is a softmax of a random linear map
    of its features, one map for each true class. So samples that look alike are confused with the
    same class, and wrong labels form regions that a network can learn.

    Two departures keep the outcome independent of how the data happens to be scaled. The normal is
    cut (and, near 0 and 1, narrowed) evenly on both sides of the rate, so that its mean *is* the
    rate; cut to [0, 1] only, a rate of 5% would come out as 10%. Features are centred and the
    scores of each class brought to one spread, sharp enough that the best wrong class takes most
    flips, as it does with the original on normalised images.

    Args:
        features: Inputs, N × anything numeric.
        labels: True labels, integers in [0, num_classes).
        num_classes: Number of classes m.
        rate: Expected noise rate.
        rng: Where the randomness comes from.
        exact: Whether to flip exactly round(rate · N) labels.

    >>> rng = np.random.default_rng(0)
    >>> features, labels = rng.normal(size=(1000, 5)), rng.integers(4, size=1000)
    >>> given, flip_probability = instance_dependent(features, labels, 4, 0.3, rng, exact=True)
    >>> float((given != labels).mean())
    0.3
    """
    m, r = check_num_classes(num_classes), check_rate(rate)
    true = check_labels(labels, m)
    x = check_features(features, len(true))
    check_rng(rng)
    flip_probability = _truncated_normal(r, len(true), rng)
    flips = _choose_flips(flip_probability, rng, _round(r * len(true)) if exact else None)
    given = true.copy()
    mean = x.mean(axis=0, dtype=np.float64)
    for label in range(m):
        projection = rng.standard_normal((x.shape[1], m))
        of_class = true == label
        scores = x[of_class] @ projection - mean @ projection
        spread = float(np.sqrt(np.square(scores).sum() / max(scores.size, 1)))
        scores *= _SHARPNESS / (spread or 1.0)
        scores[:, label] = -np.inf
        # the largest of scores plus Gumbel noise is a draw from their softmax
        wrong = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
        given[of_class] = np.where(flips[of_class], wrong, label)
    return InstanceNoise(given, flip_probability)


_SHARPNESS = 10.0
_DEVIATION = 0.1


def _truncated_normal(rate: float, size: int, rng: np.random.Generator) -> FloatArray:
    """Normal draws around the rate, redrawn until they lie within [0, 1] evenly around it."""
    half_width = min(rate, 1 - rate)
    deviation = min(_DEVIATION, half_width)
    values = rng.normal(rate, deviation, size)
    while (outside := np.abs(values - rate) > half_width).any():
        values[outside] = rng.normal(rate, deviation, int(outside.sum()))
    return values


def _choose_flips(
    probability: FloatArray, rng: np.random.Generator, count: int | None
) -> npt.NDArray[np.bool_]:
    """Which samples to flip: each by itself, or exactly ``count`` of them.

    Fixed-size draws are Pareto sampling (Rosén, 1997): the smallest ratios of random odds to
    wanted odds. Inclusion follows the probabilities closely; equal ones give a uniform subset.
    """
    u = rng.random(len(probability))
    if count is None:
        return u < probability
    possible = np.flatnonzero(probability)
    u, p = u[possible], probability[possible]
    with np.errstate(over="ignore", divide="ignore"):  # odds near 0: infinity, so last, is right
        order = np.argsort(u * (1 - p) / ((1 - u) * p))
    flips = np.zeros(len(probability), dtype=bool)
    flips[possible[order[:count]]] = True
    return flips


def _draw_from_rows(cumulative: FloatArray, rows: IntArray, rng: np.random.Generator) -> IntArray:
    """One column for each entry of ``rows``, by the weights whose running sums are given.

    All rows are laid end to end as intervals [i, i + 1), so that one binary search serves every
    class: the loop over classes would pass over the labels once for each.
    """
    num_rows, num_columns = cumulative.shape
    total = cumulative[:, -1:]
    ends = np.arange(num_rows)[:, None] + np.divide(
        cumulative, total, out=np.ones_like(cumulative), where=total > 0
    )
    # i + u may round up to i + 1, which belongs to the next row
    points = np.minimum(rows + rng.random(len(rows)), np.nextafter(rows + 1.0, 0))
    columns: IntArray = np.searchsorted(ends.ravel(), points, side="right") - rows * num_columns
    return columns


def _round(expected: float) -> int:
    """Nearest whole number; a half is one up to rounding errors of floating point."""
    return round(round(expected, 6))
