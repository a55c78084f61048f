"""Draw labels to check at random, and measure the noise rate by the answers, whatever the noise.

P(wrong) of an audit only decides how often a label is drawn. It never enters the estimate, so a
wrong P(wrong) makes the interval wider and does not make it invalid.

The design: labels are sorted by P(wrong) and cut into four strata, with the same number of draws.
The estimate is the stratified mean (Cochran, Sampling Techniques, 1977, chapter 5). Its interval is
what the answers show, plus an interval for the labels that nobody checked: Clopper and Pearson's at
the effective sample size (Korn and Graubard, Survey Methodology 24, 1998). `bench/sampling.py`
measures how often it covers.
"""

from bisect import bisect_right
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from abstain.errors import AbstainError
from abstain.scores.interval import Interval

STRATA = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """Labels to check, in the order to check them. The first m of them are a sample of size m.

    >>> sample = draw(np.linspace(0.01, 0.99, 100), size=40, rng=np.random.default_rng(0))
    >>> sample.rows[:8], sample.stratum[:8]
    (array([42, 50, 88, 11, 45, 14, 93, 51]), array([1, 2, 3, 0, 1, 0, 3, 2]))
    """

    rows: NDArray[np.int64]
    """The labels drawn, as rows of the population."""
    stratum: NDArray[np.int64]
    """Stratum of each label drawn; 0 has the lowest P(wrong)."""
    sizes: NDArray[np.int64]
    """Labels of the population in each stratum."""

    def first(self, size: int) -> "Sample":
        """The sample of that size, which this one goes on from."""
        return Sample(rows=self.rows[:size], stratum=self.stratum[:size], sizes=self.sizes)

    @property
    def inclusion_probability(self) -> NDArray[np.float64]:
        """The probability, before the draw, that each label drawn would be in the sample."""
        turns = _turns(self.sizes, len(self.rows))
        draws = np.minimum(self.sizes, turns).astype(np.float64)
        unfinished = self.sizes > turns
        draws[unfinished] += (len(self.rows) - draws.sum()) / max(unfinished.sum(), 1)
        return np.asarray((draws / np.maximum(self.sizes, 1))[self.stratum])


def strata(wrong_probability: ArrayLike) -> NDArray[np.int64]:
    """The stratum of each label, of equal sums of √(p(1−p)) plus its mean over all labels.

    Equal sums of √(p(1−p)) alone would be Neyman's allocation, the best one if p were right. The
    mean added keeps every label's inclusion probability above half that of a plain random sample,
    as p may be wrong.

    Args:
        wrong_probability: P(wrong) of each label.

    >>> np.bincount(strata([0.01] * 80 + [0.5] * 20))
    array([32, 32, 23, 13])
    """
    p = np.asarray(wrong_probability, np.float64)
    if p.ndim != 1 or not len(p):
        raise AbstainError(
            f"must be one number per label, got shape {p.shape}", argument="wrong_probability"
        )
    if not np.all((p >= 0) & (p <= 1)):
        bad = p[~((p >= 0) & (p <= 1))][0]
        raise AbstainError(f"must lie in [0, 1], got {bad}", argument="wrong_probability")
    spread = np.sqrt(p * (1 - p))
    order = np.argsort(p, kind="stable")
    measure = (spread + (spread.mean() or 1.0))[order]
    ends = np.cumsum(measure)
    stratum = np.empty(len(p), np.int64)
    stratum[order] = (ends - measure / 2) / ends[-1] * STRATA
    return stratum


def draw(wrong_probability: ArrayLike, size: int, rng: np.random.Generator) -> Sample:
    """Draw labels to check, without replacement.

    The strata take turns, in a new random order each turn, until they have no label left. So the
    first m labels of a sample are distributed as a sample of size m, for whoever stops early.

    Args:
        wrong_probability: P(wrong) of each label.
        size: How many to draw.
        rng: Makes the draw.

    >>> sample = draw([0.1, 0.2, 0.1, 0.9, 0.8], size=5, rng=np.random.default_rng(0))
    >>> sample.rows, sample.sizes, sample.inclusion_probability
    (array([1, 0, 4, 3, 2]), array([1, 2, 1, 1]), array([1., 1., 1., 1., 1.]))
    """
    stratum = strata(wrong_probability)
    if not 1 <= size <= len(stratum):
        raise AbstainError(
            f"must lie in [1, {len(stratum)}] (all labels), got {size}", argument="size"
        )
    sizes = np.bincount(stratum, minlength=STRATA)
    turns = _turns(sizes, size) + 1
    drawn = [
        rng.choice(np.flatnonzero(stratum == k), min(turns, sizes[k]), replace=False)
        for k in range(STRATA)
    ]
    when = np.concatenate([np.arange(len(rows)) + rng.random(len(rows)) for rows in drawn])
    rows = np.concatenate(drawn)[np.argsort(when)[:size]].astype(np.int64)
    return Sample(rows=rows, stratum=stratum[rows], sizes=sizes)


def measured_rate(
    stratum: ArrayLike, wrong: ArrayLike, sizes: ArrayLike, confidence: float = 0.95
) -> Interval:
    """The noise rate of all labels, from the answers to a sample or to its first labels.

    Within a stratum the answered labels must be a random choice: the first labels of a sample are
    one, the easy labels are not.

    Args:
        stratum: Of each answered label.
        wrong: Whether each answered label is wrong.
        sizes: Labels of the population in each stratum.
        confidence: How often the interval should cover the noise rate.

    >>> rate = measured_rate([0, 1, 2, 3] * 25, [False] * 96 + [True] * 4, [400, 300, 200, 100])
    >>> f"{rate.value:.3f}, {rate.low:.3f} to {rate.high:.3f}"
    '0.040, 0.011 to 0.107'
    """
    where, is_wrong = np.asarray(stratum), np.asarray(wrong, bool)
    population = np.asarray(sizes, np.int64)
    if where.ndim != 1 or where.shape != is_wrong.shape or not len(where):
        raise AbstainError(
            "stratum and wrong must hold one entry per answer, and at least one, "
            f"got shapes {where.shape} and {is_wrong.shape}"
        )
    if where.min() < 0 or where.max() >= len(population):
        bad = where.min() if where.min() < 0 else where.max()
        raise AbstainError(f"must lie in [0, {len(population) - 1}], got {bad}", argument="stratum")
    answers = np.bincount(where, minlength=len(population))
    if np.any(answers > population):
        k = int(np.argmax(answers > population))
        raise AbstainError(
            f"must name each label once: {k} has {population[k]} labels, got {answers[k]} answers",
            argument="stratum",
        )
    errors = np.bincount(where[is_wrong], minlength=len(population))
    value, low, high = stratified_interval(answers, errors, population, confidence)
    return Interval(value=float(value), low=float(low), high=float(high))


def stratified_interval(
    answers: ArrayLike, errors: ArrayLike, sizes: ArrayLike, confidence: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """The noise rate and the ends of its interval from counts; strata are the last dimension.

    A stratum without answers may have any rate: the lower end takes it as 0, the upper end as 1.

    Args:
        answers: Answered labels in each stratum.
        errors: Wrong labels among them.
        sizes: Labels of the population in each stratum.
        confidence: How often the interval should cover the noise rate.

    >>> stratified_interval([[50, 50], [50, 0]], [[0, 10], [0, 0]], [900, 100])[2].round(3)
    array([0.071, 0.164])
    """
    if not 0 < confidence < 1:
        raise AbstainError(f"must lie in (0, 1), got {confidence}", argument="confidence")
    n, k, size = (np.asarray(x, np.float64) for x in (answers, errors, sizes))
    total, seen, counted = size.sum(-1), k.sum(-1), np.maximum(n, 1)
    covered = np.where(n > 0, size, 0)
    rate = (covered * k / counted).sum(-1) / covered.sum(-1)
    # The answers are known. What is left to estimate is the noise rate of the unchecked labels.
    unchecked = np.where(n > 0, size - n, 0)
    left = unchecked.sum(-1)
    weight = unchecked / np.maximum(left, 1)[..., None]
    # Without one answer of each kind added, a stratum without errors would have no variance.
    smooth = (k + 1) / (n + 2)
    mean = (weight * smooth).sum(-1)
    spread = 1 / counted + 1 / np.maximum(unchecked, 1)
    variance = (weight**2 * smooth * (1 - smooth) * spread).sum(-1)
    effective = mean * (1 - mean) / np.where(left > 0, variance, 1)
    wrong, right = (effective * (weight * x / counted).sum(-1) for x in (k, n - k))
    tail = (1 - confidence) / 2
    low = np.where(wrong > 0, betaincinv(wrong, right + 1, tail), 0)
    high = np.where(right > 0, betaincinv(wrong + 1, right, 1 - tail), 1)
    # The count of wrong labels is a whole number: round the ends outwards.
    fewest = np.floor(seen + left * low)
    most = np.ceil(seen + left * high) + (total - n.sum(-1) - left)
    return rate, fewest / total, most / total


def wrong_unchecked(rate: Interval, total: int, checked: int, wrong: int) -> Interval:
    """Estimate the number of wrong labels among those that nobody checked.

    The labels checked may be more than the sample, such as those flagged.

    Args:
        rate: Noise rate of all labels.
        total: How many labels there are.
        checked: How many were checked, in the sample or not.
        wrong: How many of these were wrong.

    >>> wrong_unchecked(Interval(value=0.05, low=0.02, high=0.1), total=1000, checked=100, wrong=30)
    Interval(value=20.0, low=0.0, high=70.0)
    """
    if not 0 <= wrong <= checked <= total:
        raise AbstainError(
            "wrong, checked and total must be counts in ascending order, "
            f"got {wrong}, {checked} and {total}"
        )
    value, low, high = (
        min(max(x * total - wrong, 0.0), float(total - checked))
        for x in (rate.value, rate.low, rate.high)
    )
    return Interval(value=value, low=low, high=high)


def answers_needed(answers: int, total: int) -> int:
    """Estimate the answers that halve the interval: its width goes with √(1/answers − 1/total).

    Args:
        answers: How many there are.
        total: How many labels there are.

    >>> answers_needed(100, 1_000_000), answers_needed(100, 200)
    (300, 60)
    """
    if not 1 <= answers <= total:
        raise AbstainError(f"must lie in [1, {total}], got {answers}", argument="answers")
    return ceil(4 / (1 / answers + 3 / total)) - answers


def _turns(sizes: NDArray[np.int64], size: int) -> int:
    """Count the turns in a sample of a size that are complete for all strata with a label left."""
    return bisect_right(range(size + 1), size, key=lambda t: int(np.minimum(sizes, t).sum())) - 1
