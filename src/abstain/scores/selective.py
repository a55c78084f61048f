"""Answer or abstain: which samples to answer, and what share of the answers is then wrong.

`willing` is any score, one per sample, that is higher where an answer is likelier to be right.
Risk is the share of wrong answers among the answers, coverage the share of samples answered.
NumPy and SciPy only.
"""

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from abstain.errors import AbstainError

Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class RiskCoverage:
    """The risk at every coverage that a score can be cut at: 1/n, 2/n, …, 1."""

    coverage: npt.NDArray[np.float64]
    risk: npt.NDArray[np.float64]

    @property
    def area(self) -> float:
        """AURC: the mean risk over all coverages; 0 where nothing is wrong, less is better."""
        return float(self.risk.mean())


@dataclass(frozen=True, kw_only=True)
class RiskThreshold:
    """The threshold of answering that bounds the risk, and the evidence for it."""

    threshold: float
    """Answer where `willing > threshold`; −inf answers everything, inf nothing."""
    answered: int
    """Labelled samples above the threshold, and how many of them were answered wrongly."""
    wrong: int
    samples: int
    bound: float | None
    """Upper bound of the risk at the confidence asked for; None if nothing is answered."""

    @property
    def coverage(self) -> float:
        """Share of the labelled samples that are answered."""
        return self.answered / self.samples


def select_by_coverage(willing: npt.ArrayLike, coverage: float) -> Mask:
    """The round(coverage · n) samples of the highest score; of equals the earlier one.

    >>> select_by_coverage([0.1, 0.9, 0.5, 0.7], 0.5).tolist()
    [False, True, False, True]
    """
    _check_share("coverage", coverage)
    scores = _scores(willing)
    return _first(scores, round(coverage * len(scores)))


def select_by_expected_risk(
    willing: npt.ArrayLike, confidence: npt.ArrayLike, max_risk: float
) -> Mask:
    """As many of the highest scores as keep the mean of 1 − confidence at or below `max_risk`.

    This is what a model expects of itself, not a bound: see `threshold_for_risk`.

    >>> select_by_expected_risk([3, 2, 1], confidence=[0.9, 0.7, 0.5], max_risk=0.2).tolist()
    [True, True, False]
    """
    _check_share("max_risk", max_risk)
    scores = _scores(willing)
    doubts = 1 - _one_per("confidence", confidence, scores).astype(np.float64)
    risks = np.cumsum(doubts[_most_willing_first(scores)]) / np.arange(1, len(scores) + 1)
    # The last prefix that keeps the rule, not the first that breaks it: the mean may dip again.
    kept = np.flatnonzero(risks <= max_risk)
    return _first(scores, int(kept[-1]) + 1 if len(kept) else 0)


def risk_coverage(willing: npt.ArrayLike, wrong: npt.ArrayLike) -> RiskCoverage:
    """r(k/n) = (wrong answers among the k highest scores) / k, for k = 1 … n.

    An answer may be wrong in part: where only its probability is known.

    Equal scores count as if in random order: the curve is its mean over all orders, so that it
    does not depend on how the samples happen to be sorted. The area is the AURC of Geifman,
    Uziel & El-Yaniv 2019, "Bias-reduced uncertainty estimation for deep neural classifiers".

    >>> curve = risk_coverage([0.9, 0.8, 0.7, 0.1], wrong=[False, False, True, True])
    >>> curve.risk.round(3).tolist(), round(curve.area, 3)
    ([0.0, 0.0, 0.333, 0.5], 0.208)
    """
    scores, missed = _scored_answers(willing, wrong, np.float64)
    _, group, sizes = np.unique(-scores, return_inverse=True, return_counts=True)
    rates = np.bincount(group, weights=missed) / sizes
    ranks = np.arange(1, len(scores) + 1)
    risk = np.cumsum(np.repeat(rates, sizes)) / ranks
    return RiskCoverage(coverage=ranks / len(scores), risk=risk)


def threshold_for_risk(
    willing: npt.ArrayLike, wrong: npt.ArrayLike, max_risk: float, confidence: float = 0.95
) -> RiskThreshold:
    """The largest coverage whose risk is at most `max_risk`, with `confidence`, as a threshold.

    Of new samples, drawn as these were, a share of at most `max_risk` of those above the threshold
    is answered wrongly; a calibration set for which this fails comes up with probability at most
    1 − confidence.

    It is selection with guaranteed risk, SGR, of Geifman & El-Yaniv 2017, "Selective
    classification for deep neural networks": the exact binomial bound (Clopper & Pearson 1934) at
    each threshold that is looked at, with the error probability split evenly over these
    ⌈log₂ n⌉ looks. SGR finds its looks by bisection, where the labels steer which thresholds are
    looked at; its union bound then holds only if risk grows with coverage. Here they are fixed
    beforehand, evenly between the fewest samples that can pass and all, which needs no such
    assumption. The threshold is the score of one sample, and those strictly above it are counted:
    given that score they are independent draws, so that the bound is exact, equal scores or not.

    Args:
        willing: One score per sample.
        wrong: Whether the answer would be wrong; by labels that are right, and of samples that the
            model was not trained on.
        max_risk: Largest share of wrong answers.
        confidence: Probability that the bound holds.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> willing = rng.random(2000)
    >>> wrong = rng.random(2000) > willing
    >>> found = threshold_for_risk(willing, wrong, max_risk=0.2)
    >>> round(found.threshold, 2), round(found.bound, 2), found.wrong, found.answered
    (0.69, 0.17, 79, 618)
    """
    _check_bound(max_risk, confidence)
    scores, missed = _scored_answers(willing, wrong)
    total = len(scores)
    looks = _looks(total)
    least = _fewest_that_pass(max_risk, confidence, looks)
    nothing = RiskThreshold(threshold=math.inf, answered=0, wrong=0, samples=total, bound=None)
    if least > total:
        return nothing
    order = _most_willing_first(scores)
    descending = scores[order]
    # Everything is a look too; its threshold is below all scores.
    below = np.append(descending, -math.inf)
    ranks = np.unique(np.linspace(least, total, looks).round().astype(np.int64))
    thresholds = below[ranks]
    counts = np.searchsorted(-descending, -thresholds, side="left")
    errors = np.concatenate(([0], np.cumsum(missed[order])))[counts]
    bounds = risk_bound(errors, counts, 1 - (1 - confidence) / looks)
    passed = np.flatnonzero(bounds <= max_risk)
    if not len(passed):
        return nothing
    last = passed[-1]
    return RiskThreshold(
        threshold=float(thresholds[last]),
        answered=int(counts[last]),
        wrong=int(errors[last]),
        samples=total,
        bound=float(bounds[last]),
    )


def risk_bound(
    wrong: npt.ArrayLike, answered: npt.ArrayLike, confidence: float
) -> npt.NDArray[np.float64]:
    """Clopper–Pearson: the b with P(Binomial(answered, b) ≤ wrong) = 1 − confidence.

    >>> risk_bound([0, 1], [100, 100], confidence=0.95).round(4).tolist()
    [0.0295, 0.0466]
    """
    from scipy.special import betainccinv

    errors, counts = np.asarray(wrong), np.asarray(answered)
    open_ended = errors < counts
    # Where everything is wrong, or nothing was answered, no risk can be ruled out.
    rest = np.where(open_ended, counts - errors, 1)
    return np.where(open_ended, betainccinv(errors + 1, rest, 1 - confidence), 1.0)


def labels_needed(max_risk: float, confidence: float = 0.95) -> int:
    """The fewest labelled samples for which `threshold_for_risk` can answer, if none is wrong.

    >>> labels_needed(0.02), labels_needed(0.1)
    (252, 46)
    """
    _check_bound(max_risk, confidence)
    total = 1
    while (fewest := _fewest_that_pass(max_risk, confidence, _looks(total))) > total:
        total = fewest
    return total


def _looks(total: int) -> int:
    return max(1, math.ceil(math.log2(total)))


def _fewest_that_pass(max_risk: float, confidence: float, looks: int) -> int:
    """The n from which on n right answers are enough: (1 − max_risk)^n ≤ (1 − confidence)/looks."""
    if max_risk == 1:
        return 1
    return math.ceil(math.log((1 - confidence) / looks) / math.log1p(-max_risk))


def _most_willing_first(scores: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    return np.argsort(-scores, kind="stable")


def _first(scores: npt.NDArray[Any], count: int) -> Mask:
    chosen = np.zeros(len(scores), dtype=np.bool_)
    chosen[_most_willing_first(scores)[:count]] = True
    return chosen


def _scores(willing: npt.ArrayLike) -> npt.NDArray[Any]:
    scores = np.asarray(willing)
    if scores.ndim != 1:
        raise AbstainError(
            f"must be one score per sample, got shape {scores.shape}", argument="willing"
        )
    if scores.dtype.kind not in "f":
        scores = scores.astype(np.float64)
    if np.isnan(scores).any():
        raise AbstainError(
            f"must be numbers, got NaN for {int(np.isnan(scores).sum())}", argument="willing"
        )
    return scores


def _scored_answers(
    willing: npt.ArrayLike, wrong: npt.ArrayLike, dtype: npt.DTypeLike = np.int64
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    scores = _scores(willing)
    missed: npt.NDArray[Any] = _one_per("wrong", wrong, scores).astype(dtype)
    if len(scores) == 0:
        raise AbstainError("must hold samples, got none", argument="willing")
    return scores, missed


def _one_per(name: str, values: npt.ArrayLike, scores: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array = np.asarray(values)
    if array.shape != scores.shape:
        raise AbstainError(
            f"must have one value per sample, {len(scores)}, got shape {array.shape}", argument=name
        )
    return array


def _check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise AbstainError(f"must lie in [0, 1], got {value}", argument=name)


def _check_bound(max_risk: float, confidence: float) -> None:
    if not 0 < max_risk <= 1:
        raise AbstainError(
            f"must lie in (0, 1] to be guaranteed, got {max_risk}; "
            "no number of labels can rule out every error",
            argument="max_risk",
        )
    if not 0 < confidence < 1:
        raise AbstainError(f"must lie in (0, 1), got {confidence}", argument="confidence")
