"""A model of how labels went wrong, fitted to what one training run believed.

How many are wrong is read off by `wrong_share`; which classes contradict which, on the same
plateau, is the transition matrix. What a sample was believed to be over the whole training
(`evidence`), how often its rival is mistaken for its label, and whether the model itself mixes the
two up then make the odds that its label is right, shifted so that as many labels are expected to be
wrong as are.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, ndtr, ndtri

from abstain.scores.beyond_mix_ups import confusion, habits
from abstain.scores.held_out import mistaken
from abstain.scores.plateau import (
    UNKNOWN,
    Doubles,
    Floats,
    Integers,
    concentration,
    shrunk_rates,
)
from abstain.scores.wrong_share import WrongShare

SLOPE = 2.4
"""How much a unit of evidence counts. On planted errors the slope of the truth was within a third
of this in most runs, whatever the set, the noise and its rate; one that was fitted to the verdict
of the first epochs was further off."""
# The same where the shape of the evidence is known: it may be small, and yet tell much; and of two
# classes that a model hardly tells, of which it is smaller still.
_SLOPE_BY_SHAPE, _SLOPE_IF_DIM = 3.0, 5.8
# Of a unit of prior odds, where the model is trusted. On planted errors more ranks wrong labels of
# single classes better, and less those of a model that mixes classes up; and 1 is what it would be
# if beliefs in a sample's classes were independent of which classes are mixed up.
_PRIOR_WEIGHT = 1.2
# Even if a model hardly ever errs, half of its labels have log odds below these: more would drown
# prior odds, by which wrong labels of single classes are told.
_MOST_LOG_ODDS = 7.0
# Where wrong labels go to one class, a model errs towards it: by this part of the odds of being so.
_LEARNT = 0.7
_LEAST = 0.01  # a share that is not told from none
_FEW = 5.0  # labels: so many more or less are chance
_BINS = 4096


@dataclass(frozen=True, kw_only=True)
class NoiseModel:
    """What was fitted; see the module."""

    share: WrongShare
    """Of wrong labels."""
    transition: Doubles
    """T[i, j] = P(given = j | true = i), estimated from the counts."""
    logits: Floats
    """(N,) log odds that the label is right, up to `offset`."""
    offset: float

    @property
    def wrong_probability(self) -> Floats:
        """(N,) P(label is wrong)."""
        wrong: Floats = expit(-(self.logits + np.float32(self.offset)))
        return wrong

    def offset_for(self, rate: float) -> float:
        """What to add to the logits for this share of wrong labels."""
        return _solve_offset(self.logits, rate)


def fit_noise_model(
    given: Integers, rival: Integers, evidence: Floats, share: WrongShare
) -> NoiseModel:
    """Fit the model.

    Args:
        given: (N,) given labels.
        rival: (N,) likeliest other class; `UNKNOWN` where the sample was not seen.
        evidence: (N,) log odds of the given label over its rival; NaN where it was not seen.
        share: How many labels are wrong, and the counts of which classes contradict which.
    """
    known = rival != UNKNOWN
    slope = _slope(evidence[known], share)
    transition = estimate_transition(share.counts)
    rivals = np.where(known, rival, given)
    evidence = np.where(known, evidence, np.float32(0))
    prior = np.log(transition)
    odds = (prior[given, given] - prior[rivals, given]).astype(np.float32)
    odds *= np.float32(_PRIOR_WEIGHT * share.trust)
    seen = confusion(given, np.where(evidence < 0, rivals, given), len(transition))
    logits = np.float32(slope) * evidence + odds + mix_ups(seen, transition)[rivals, given]
    if share.trust < 1:
        logits -= np.float32(1 - share.trust) * one_way(seen, share.value)[rivals, given]
    offset = _solve_offset(logits[known] if not known.all() else logits, share.value)
    # Of a sample that was never seen nothing is known but the rate.
    logits[~known] = -logit(min(max(share.value, 1e-6), 1 - 1e-6)) - offset
    return NoiseModel(share=share, transition=transition, logits=logits, offset=offset)


def mix_ups(seen: Doubles, transition: Doubles) -> Floats:
    """[i, j]: the log of how many times more often i is believed and j given than labels go wrong.

    A shirt among T-shirts is contradicted more often than wrong labels explain: by the model, which
    cannot tell the two. Nothing is made of pairs that are contradicted less often, nor of wrong
    labels that avoid a class: what the model takes for it may be its likeness.

    Args:
        seen: (m, m) how often class i was believed and j given.
        transition: (m, m) how often labels go wrong.
    """
    m = len(transition)
    evenly = (1 - np.diagonal(transition)) / max(m - 1, 1)
    wrong = seen.sum(1, keepdims=True) * np.maximum(transition, evenly[:, None])
    excess = np.log((seen + _FEW) / (wrong + _FEW))
    np.fill_diagonal(excess, 0)
    mixed_up: Floats = np.maximum(excess, 0).astype(np.float32)
    return mixed_up


def one_way(seen: Doubles, rate: float) -> Floats:
    """[i, j]: the log of how many times more often i is given as j than if that were done evenly.

    Even a weak model tells such habits; see `beyond_mix_ups`.

    Args:
        seen: (m, m) how often class i was believed and j given.
        rate: Share of wrong labels.

    >>> seen = np.full((5, 5), 20.0) + 400 * np.eye(5)
    >>> seen[1, 0] += 100  # believed to be 1, and given 0
    >>> one_way(seen, rate=0.2).argmax() == 5, (one_way(seen, rate=0.2) > 0).sum()
    (np.True_, np.int64(1))
    """
    more, sure = habits(seen)
    found = more * sure
    rest = rate - float(np.average(found.sum(1), weights=np.maximum(seen.sum(1), 1)))
    evenly = max(rest, rate / 2, _LEAST) / max(len(seen) - 1, 1)
    times: Floats = np.log1p(found / evenly).astype(np.float32)
    return times


def _slope(evidence: Floats, share: WrongShare) -> float:
    """How much a unit of evidence counts: less, the more often the model errs."""
    if not len(evidence):
        return SLOPE
    m, rate = len(share.counts), share.value
    # Labels that were learnt by heart are not contradicted; those set aside are.
    excess = max(float((evidence < 0).mean()) - rate, share.excess)
    # Where they go to few classes, the model has learnt that: the more, the more are wrong.
    learnt = min(max(1 / (m - 1), _LEARNT * rate / (1 - rate)), 1.0)
    towards = share.anywhere / (m - 1) + (1 - share.anywhere) * learnt
    log_odds = typical_log_odds(mistaken(excess, rate, m), towards, m, rate)
    typical = float(np.median(np.abs(evidence)))
    dim = max(0.0, 1 - share.trust - share.shape) if m == 2 else 0.0
    steepest = SLOPE + share.shape * (_SLOPE_BY_SHAPE - SLOPE) + dim * (_SLOPE_IF_DIM - SLOPE)
    return min(steepest, min(log_odds, _MOST_LOG_ODDS) / max(typical, 1e-9))


def typical_log_odds(errors: float, towards: float, num_classes: int, rate: float) -> float:
    """Half of all labels are right or wrong by larger log odds than these, of a model that errs.

    As if evidence were normal, of right and wrong labels with the same spread: below 0 for as many
    right labels as the model errs on, and above 0 for as many wrong ones as it errs on towards just
    this class. The log odds of the two are then a straight line.

    Args:
        errors: Share of samples whose true class is not believed most.
        towards: Of the errors on samples with wrong labels, those of just the class given.
        num_classes: Number of classes m.
        rate: Share of wrong labels.

    >>> [round(typical_log_odds(errors, 1 / 9, 10, 0.2), 1) for errors in (0.01, 0.1, 0.3, 0.5)]
    [13.3, 5.3, 2.2, 1.3]
    >>> round(typical_log_odds(0.3, 1, 2, 0.2), 1)
    0.8
    """
    errors = min(max(errors, _LEAST), (1 - _LEAST) * (1 - 1 / num_classes))
    right, wrong = -float(ndtri(errors)), -float(ndtri(errors * towards))

    def inside(end: float) -> float:
        of_right = ndtr(end - right) - ndtr(-end - right)
        of_wrong = ndtr(end + wrong) - ndtr(-end + wrong)
        return float((1 - rate) * of_right + rate * of_wrong)

    typical = brentq(lambda end: inside(end) - 0.5, 0.0, abs(right) + abs(wrong) + 10)
    return (right + wrong) * float(typical)


def estimate_transition(counts: Doubles) -> Doubles:
    """T[i, j] from counts of predicted i and given j; empirical Bayes, rows sum to 1.

    The rate of each class is drawn towards the common rate, and where its wrong labels go towards
    "anywhere, evenly"; each as strongly as the counts themselves ask for: with symmetric noise all
    rows are alike and hardly anything of a row's own chance is left, with pairflip noise they
    differ by far more than chance and stay as they are. (Beta–binomial and Dirichlet–multinomial
    models; their concentrations by moments.)
    """
    m = len(counts)
    off = counts * ~np.eye(m, dtype=bool)
    totals, wrong = counts.sum(1), off.sum(1)
    rates = shrunk_rates(wrong, totals)
    even = (1 - np.eye(m)) / max(m - 1, 1)
    expected = wrong[:, None] * even
    scatter = np.square(off - expected)[expected > 0] / expected[expected > 0]
    strength = concentration(scatter.sum(), (wrong > 0).sum() * (m - 2), wrong)
    spreads = (off + strength * even) / np.maximum(wrong[:, None] + strength, 1e-9)
    # Nothing is impossible: half a count in every place keeps the odds finite.
    rows = np.maximum(totals, 1)[:, None]
    transition = rates[:, None] * spreads + np.diag(1 - rates) + 0.5 / m / rows
    smoothed: Doubles = transition / transition.sum(1, keepdims=True)
    return smoothed


def _solve_offset(logits: Floats, rate: float) -> float:
    """The c with mean of 1/(1 + exp(logits + c)) = rate, on a histogram of the logits."""
    if not len(logits):
        return 0.0
    low, high = float(logits.min()), float(logits.max())
    # Wide enough for bins to differ in float32 where all logits are one number.
    counts, edges = np.histogram(logits, bins=_BINS, range=(low - 0.1, high + 0.1))
    middles, shares = (edges[:-1] + edges[1:]) / 2, counts / len(logits)
    # Less than a quarter of one label, or all but that, would need an infinite offset.
    rate = min(max(rate, 0.25 / len(logits)), 1 - 0.25 / len(logits))
    below, above = -high - 50.0, -low + 50.0
    for _ in range(60):
        middle = (below + above) / 2
        if float(shares @ expit(-(middles + middle))) > rate:
            below = middle
        else:
            above = middle
    return (below + above) / 2
