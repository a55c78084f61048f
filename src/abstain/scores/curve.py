"""The curve of a data set: log odds that a label is wrong, by the evidence on it.

    log odds = offset − slope · evidence + shift of its pair

One set of labels does not show how often a confident disagreement is a wrong label. So the mapping
was learnt over many data sets whose errors are known (`bench/fit_verdict.py`; its numbers are in
`verdict.toml`). Data sets differ: their offsets are normal around `intercept + memorised · m`, with
m for how far the model memorised its labels, and the logs of their slopes are normal too. Pairs of
given class and rival differ within a data set: their shifts are normal around 0.

Reviewed labels move all of these towards this data set: the curve is the posterior mode (Laplace's
approximation). The likelihood is that of a label *given its evidence*, so that worst-first reviews
do not count as a random sample. No data set follows the curve exactly. So each further answer on
labels of a pair with similar evidence adds less information about the rest of the curve.
"""

import math
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from abstain.scores.evidence import Floats
from abstain.scores.given import Labels

Doubles: TypeAlias = npt.NDArray[np.float64]

_LEAST = 1e-9  # a probability whose log is still finite
_STEPS, _CONVERGED = 100, 1e-7


@dataclass(frozen=True, kw_only=True)
class Learnt:
    """The numbers learnt over data sets: `verdict.toml`."""

    intercept: float
    """Log odds that a label is wrong if its rival is as likely as it is."""
    log_slope: float
    """Log of how fast these log odds fall with the evidence."""
    memorised: float
    """How much they rise where the model memorised labels."""
    offset_spread: float
    """Standard deviation over data sets of the offset."""
    slope_spread: float
    """Standard deviation over data sets of the log of the slope."""
    class_spread: float
    """Standard deviation within a data set of the offset over its classes, and pairs of them."""
    shape_spread: float
    """Standard deviation of the log odds around the curve of a data set, per unit of evidence."""

    @classmethod
    @cache
    def load(cls) -> "Learnt":
        """Read the numbers that come with the package."""
        text = resources.files("abstain.scores").joinpath("verdict.toml").read_text("utf-8")
        return cls(**tomllib.loads(text)["learnt"])


@dataclass(frozen=True, kw_only=True)
class Curve:
    """P(wrong) over evidence for one data set, and its uncertainty.

    Of P pairs some labels were reviewed. The arrays of shifts have an entry more, the last, for all
    other pairs: zero.
    """

    offset: float
    log_slope: float
    covariance: Doubles
    """(2, 2), of offset and log slope."""
    pairs: Labels
    """(P,) ascending: the pairs of which labels were reviewed."""
    shifts: Doubles
    """(P + 1,) how far the log odds of a pair lie from the curve."""
    follows: Doubles
    """(P + 1, 2): what a shift would change by, if offset or log slope were larger by 1."""
    variances: Doubles
    """(P + 1,) of the shifts, if offset and log slope were known."""

    def logits(self, evidence: npt.NDArray[np.floating]) -> Floats:
        """Log odds that labels with this evidence are wrong, but for the shifts of pairs."""
        logits: Floats = np.float32(self.offset) - np.float32(math.exp(self.log_slope)) * evidence
        return logits

    def places(self, pair: Labels) -> Labels:
        """Where the pair of each label stands in the arrays of shifts."""
        last = len(self.pairs)
        if not last:
            return np.zeros(len(pair), np.int64)
        place = np.searchsorted(self.pairs, pair)
        place[self.pairs[np.minimum(place, last - 1)] != pair] = last
        return place


def fit_curve(
    learnt: Learnt,
    memorised: float,
    evidence: npt.ArrayLike = (),
    wrong: npt.ArrayLike = (),
    pair: npt.ArrayLike | None = None,
    slips: float = 0.02,
) -> Curve:
    """The curve of a data set: the prior learnt over others, updated by its reviewed labels.

    Args:
        learnt: The prior.
        memorised: `Evidence.memorised`.
        evidence: Log odds of the reviewed labels.
        wrong: Whether each of them was found to be wrong.
        pair: A number for the given class and the rival of each. Without it pairs have no shifts.
        slips: Share of answers that are wrong themselves. With 0, one typing error could reverse
            the curve.

    >>> learnt = Learnt.load()
    >>> before = fit_curve(learnt, 0.0)
    >>> after = fit_curve(learnt, 0.0, evidence=np.full(50, -3.0), wrong=np.zeros(50))
    >>> after.offset < before.offset, after.covariance[0, 0] < before.covariance[0, 0]
    (True, np.True_)
    """
    x, y = np.asarray(evidence, np.float64), np.asarray(wrong, np.float64)
    pairs, pair_of = np.unique(
        np.zeros(len(x), np.int64) if pair is None else np.asarray(pair, np.int64),
        return_inverse=True,
    )
    spread = np.float64(0.0 if pair is None else learnt.class_spread)
    # Answers at similar evidence and of one pair show the curve around them, not all of it. However
    # many they are, the true log odds there differ from the curve by a variance of shape_spread²,
    # which adds to that of n answers, 1 / (n p (1 − p)), at least 4 / n.
    _, unit_of, crowd = np.unique(
        np.floor(x) * len(pairs) + pair_of, return_inverse=True, return_counts=True
    )
    weight = 1 / (1 + learnt.shape_spread**2 / 4 * crowd[unit_of])
    # A place is an offset, a log slope, and a shift for each pair in units of their spread.
    spreads = np.append([learnt.offset_spread, learnt.slope_spread], np.ones(len(pairs)))
    precision = spreads**-2.0
    prior = np.zeros(len(spreads))
    prior[:2] = learnt.intercept + learnt.memorised * memorised, learnt.log_slope

    def answered(place: Doubles) -> tuple[Doubles, Doubles]:
        """P(wrong) of each label, and P(its answer is "wrong"): reviewers slip too."""
        p = expit(place[0] - math.exp(place[1]) * x + spread * place[2:][pair_of])
        return p, slips + (1 - 2 * slips) * p

    def cost(place: Doubles) -> float:
        _, q = answered(place)
        losses = -np.log(np.maximum(np.where(y, q, 1 - q), _LEAST))
        return float(weight @ losses + precision @ (place - prior) ** 2 / 2)

    def of_pairs(values: Doubles) -> Doubles:
        return spread * np.bincount(pair_of, values, len(pairs))

    place = prior
    for _ in range(_STEPS):  # Fisher scoring, each step halved until it gains
        p, q = answered(place)
        steep = (1 - 2 * slips) * p * (1 - p)  # how P(answer) moves with the log odds
        certain = np.maximum(q * (1 - q), _LEAST)
        moves = np.stack([np.ones_like(x), -math.exp(place[1]) * x], 1)
        knows, error = weight * steep**2 / certain, weight * steep * (y - q) / certain
        gain = -precision * (place - prior)
        gain += np.append(moves.T @ error, of_pairs(error))
        # Every label has one pair, so the information on shifts is diagonal: they are eliminated.
        own = 1 + spread * of_pairs(knows)
        cross = np.stack([of_pairs(knows * move) for move in moves.T])
        known = moves.T @ (moves * knows[:, None]) + np.diag(precision[:2])
        information = known - cross / own @ cross.T
        ahead = np.linalg.solve(information, gain[:2] - cross @ (gain[2:] / own))
        step = np.append(ahead, (gain[2:] - ahead @ cross) / own)
        now = cost(place)
        while np.abs(step).max() > _CONVERGED and cost(place + step) > now:
            step = step / 2
        place = place + step
        if np.abs(step).max() <= _CONVERGED:
            break
    return Curve(
        offset=float(place[0]),
        log_slope=float(place[1]),
        covariance=np.asarray(np.linalg.inv(information), np.float64),
        pairs=pairs,
        shifts=np.append(spread * place[2:], 0.0),
        follows=np.append(-spread * cross / own, np.zeros((2, 1)), 1).T,
        variances=np.append(spread**2 / own, 0.0),
    )
