"""A model of how labels went wrong, fitted to what one training run believed.

Two facts carry it. In its first epochs a model has hardly learnt any single label by heart, so that
its prediction and the given label are nearly independent given the true class; and where such an
early model is surest, it is hardly ever wrong. So among the samples it is surest of, the share of
labels that contradict it *is* the share of wrong labels, and which classes contradict which is the
transition matrix. Going down from the surest, that share first stays level, then rises as errors
of the model come in: the *plateau* ends there (Lepski's rule: as far as the rise is explained by
chance).

Where labels were set aside, how many of them the model met says how often it errs itself
(`HeldOut`). On data that are hard to learn these errors may look like wrong labels even where it is
surest: the rate is then open from below.

What a sample was believed to be over the whole training (`evidence`) and how often its rival is
mistaken for its label then make the odds that its label is right, shifted so that as many labels
are expected to be wrong as the plateau says.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

Floats: TypeAlias = npt.NDArray[np.float32]
Doubles: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int32]

UNKNOWN = -1
"""The class of a sample that was not seen."""
_Z = 2.0
_PARTS = 10
_FEWEST = 100  # samples; a share of fewer says nothing about where the plateau ends
# Standard errors by which the share may rise and still count as level. Where it ends is a close
# call: the estimate is the mean over a strict, a middling and a lenient one.
_CHANCES = (1.0, 1.5, 2.0)
# By how much the share rises from the surest tenth to the surest half where there is no plateau.
_STEEP = 0.06
# Of more rows than these a random part says as much.
_ROWS_FOR_PLATEAU, _ROWS_FOR_SLOPE = 2_000_000, 200_000
_USUAL_SLOPE, _LEAST_SLOPE, _MOST_SLOPE = 2.0, 1.0, 3.0
# What the model leaves out, as standard deviations: relative to the rate, and absolute; fitted
# on planted errors, and checked on others by bench/noise_rate.py.
_RELATIVE_ERROR, _ABSOLUTE_ERROR = 0.07, 0.003
# However far the plateau reaches, its end is uncertain: some samples are always extrapolated to.
_LEAST_BEYOND = 0.25
_DOUBT_OF_SECOND = 0.8  # of what the model leaves out, for the end of the training
# The prior odds count twice: the evidence of a label partly learnt by heart is too high, and where
# wrong labels go to few classes it is the prior that tells it. Measured, like the slopes.
_PRIOR_WEIGHT, _WEIGHT_OF_POOR_PRIOR = 2.0, 0.7
_BINS = 4096


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """What a model had learnt where it was best on labels set aside.

    >>> round(HeldOut(epoch=4, accuracy=0.72, samples=10_000).errors(rate=0.2), 3)
    0.089
    """

    epoch: int
    """Epochs it had trained for."""
    accuracy: float
    """Share of the labels set aside that it met."""
    samples: int
    """How many were set aside."""

    def errors(self, rate: float) -> float:
        """Share of right labels that it surely contradicts, if `rate` of all labels are wrong.

        Surely: if by chance it met fewer of the labels set aside than it would meet of others.
        """
        share = (self.accuracy * self.samples + 1) / (self.samples + 2)
        share += _Z * float(np.sqrt(share * (1 - share) / self.samples))
        return min(max(0.0, 1 - share / max(1 - rate, 1e-9)), 1.0)


@dataclass(frozen=True, kw_only=True)
class Early:
    """What was believed of each sample before its own label could be learnt by heart."""

    predicted: Integers
    """The class believed most; `UNKNOWN` where the sample was not seen."""
    confidence: Floats
    """How surely, on any scale: only its order counts."""


@dataclass(frozen=True, kw_only=True)
class Plateau:
    """Of the samples that an early model is surest of, how many contradict their label."""

    share: float
    """Share of all samples that lie on the plateau."""
    samples: int
    """How many of them were looked at."""
    disagreement: float
    """Share of its samples whose label contradicts the prediction; of three ends, the mean."""
    curve: Doubles
    """Disagreement among the surest 10%, 20%, …, 100%."""


@dataclass(frozen=True, kw_only=True)
class NoiseModel:
    """What was fitted; see the module."""

    plateau: Plateau
    others: tuple[Plateau, ...]
    """The same by single epochs: how far they differ says how far to trust it."""
    counts: Doubles
    """(m, m): on the plateau, how often class i was predicted and j given."""
    transition: Doubles
    """T[i, j] = P(given = j | true = i), estimated from the counts."""
    rate: float
    least: float
    """What is left of the rate if all errors of the model look like wrong labels; no less than the
    rate where nothing is known of them."""
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
    given: Integers,
    rival: Integers,
    evidence: Floats,
    early: Early,
    epochs: Sequence[Early],
    contradicted: float,
    num_classes: int,
    late: Early | None = None,
    held_out: HeldOut | None = None,
) -> NoiseModel:
    """Fit the model.

    Args:
        given: (N,) given labels.
        rival: (N,) likeliest other class; `UNKNOWN` where the sample was not seen.
        evidence: (N,) log odds of the given label over its rival; NaN where it was not seen.
        early: Beliefs of the first epochs, to find the plateau on.
        epochs: Beliefs of single epochs in order, to compare with.
        contradicted: Share of labels that the model contradicts in the end.
        num_classes: Number of classes m.
        late: Beliefs of the last epochs before labels were learnt by heart, where these are known.
        held_out: How good the model was then on labels set aside.
    """
    plateau, counts = find_plateau(early, given, num_classes)
    others = tuple(find_plateau(epoch, given, num_classes)[0] for epoch in epochs)
    transition = estimate_transition(counts)
    level = has_plateau(others)
    known = rival != UNKNOWN
    if level:
        rate = _second_opinion(plateau, contradicted)
    else:
        # The first epochs know too little; the next ones more, and not yet too much.
        rate = float(np.mean([epoch.disagreement for epoch in others[2:4] or others[-1:]]))
    least = rate
    if late is not None and held_out is not None:
        # Right labels that a model contradicts out of sample, it may contradict here too.
        seen = find_plateau(late, given, num_classes)[0].disagreement
        least = max(0.0, min(rate, seen - held_out.errors(seen)))
    rivals = np.where(known, rival, given)
    prior = np.log(transition)
    # Where there is no plateau, the counts are as much of the model's errors as of wrong labels.
    weight = np.float32(_PRIOR_WEIGHT if level else _WEIGHT_OF_POOR_PRIOR)
    odds = weight * (prior[given, given] - prior[rivals, given]).astype(np.float32)
    evidence = np.where(known, evidence, np.float32(0))
    slope = _fit_slope(evidence, odds, early.predicted != given, known & (early.predicted >= 0))
    logits = np.float32(slope) * evidence + odds
    offset = _solve_offset(logits[known] if not known.all() else logits, rate)
    # Of a sample that was never seen nothing is known but the rate.
    logits[~known] = -logit(min(max(rate, 1e-6), 1 - 1e-6)) - offset
    return NoiseModel(
        plateau=plateau,
        others=others,
        counts=counts,
        transition=transition,
        rate=rate,
        least=least,
        logits=logits,
        offset=offset,
    )


def _second_opinion(plateau: Plateau, contradicted: float) -> float:
    """The disagreement on the plateau, drawn to the share of labels contradicted in the end.

    That share counts every sample, but errors of the model too, and labels learnt by heart not: it
    may be far off. So it is heard only where it agrees, and by how sure each of the two is.
    """
    chance = standard_error(plateau.disagreement, plateau.samples, 1 - plateau.share)
    doubt = standard_error(contradicted, 10**9, 0.0) * _DOUBT_OF_SECOND
    if abs(contradicted - plateau.disagreement) > 2 * float(np.hypot(chance, doubt)):
        return plateau.disagreement
    weight = chance**2 / (chance**2 + doubt**2)
    return (1 - weight) * plateau.disagreement + weight * contradicted


def standard_error(share: float, samples: int, beyond: float) -> float:
    """Of a share seen on some samples of a plateau, and extrapolated to the share `beyond` of all.

    To chance it adds what the model leaves out: labels learnt by heart even in the first epochs,
    errors of the early model that look like wrong labels.
    """
    samples = max(samples, 1)
    chance = max(share * (1 - share), 1 / samples) / samples * max(beyond, _LEAST_BEYOND)
    return float(np.sqrt(chance + (_RELATIVE_ERROR * share) ** 2 + _ABSOLUTE_ERROR**2))


def has_plateau(epochs: Sequence[Plateau]) -> bool:
    """Whether single epochs, the second, third, fifth, …, have one: else a poor model looks alike.

    Three tenths in the second or third are enough; two tenths if the fifth has them too, or if
    there is none to compare with. Chance may cut a plateau short: only a steep curve has none.
    """
    tenths = [round(epoch.share * _PARTS) for epoch in epochs]
    long = max(tenths[:2], default=0) >= 3 or min([max(tenths[:2], default=0), *tenths[2:3]]) >= 2
    rises = [epoch.curve[_PARTS // 2 - 1] - epoch.curve[0] for epoch in epochs[:2]]
    return long or float(np.mean(rises)) <= _STEEP


def find_plateau(early: Early, given: Integers, num_classes: int) -> tuple[Plateau, Doubles]:
    """The plateau, and the (m, m) counts of predicted and given labels on it.

    The surest are taken class by class, the same share of each predicted class: else the easiest
    classes alone would decide.
    """
    seen = _some(early.predicted != UNKNOWN, _ROWS_FOR_PLATEAU)
    predicted, confidence = early.predicted[seen], early.confidence[seen]
    # One sort by class, then from sure to unsure: confidence mapped into [0, 1).
    low, high = float(confidence.min(initial=1)), float(confidence.max(initial=0))
    scale = 0.999 / max(high - low, 1e-30)
    keys = predicted + (high - confidence.astype(np.float64)) * scale
    # Equal ones in random order: as they stand, data are often sorted by label.
    keys += np.random.default_rng(0).random(len(keys), dtype=np.float32) * 1e-6
    order = np.argsort(keys)
    predicted, labels = predicted[order], given[seen[order]]
    sizes = np.bincount(predicted, minlength=num_classes)
    begins = np.cumsum(sizes) - sizes
    rank = (np.arange(len(seen)) - begins[predicted] + 0.5) / np.maximum(sizes[predicted], 1)
    part = (rank * _PARTS).astype(np.int8)
    totals = np.cumsum(np.bincount(part, minlength=_PARTS)[:_PARTS])
    contrary = np.cumsum(np.bincount(part, predicted != labels, minlength=_PARTS)[:_PARTS])
    curve = contrary / np.maximum(totals, 1)
    ends = [_end_of_plateau(curve, totals, chance) for chance in _CHANCES]
    last = ends[1]
    on = part <= last
    counts = np.bincount(
        predicted[on].astype(np.int64) * num_classes + labels[on], minlength=num_classes**2
    )
    plateau = Plateau(
        share=(last + 1) / _PARTS,
        samples=int(totals[last]),
        disagreement=float(curve[ends].mean()),
        curve=curve,
    )
    return plateau, counts.reshape(num_classes, num_classes).astype(np.float64)


def _end_of_plateau(curve: Doubles, totals: npt.NDArray[np.int64], errors: float) -> int:
    """The last part before the curve rises by more than chance above any part before it."""
    first = min(int(np.searchsorted(totals, _FEWEST)), len(curve) - 1)
    variance = np.maximum(curve * (1 - curve), 1 / np.maximum(totals, 1)) / np.maximum(totals, 1)
    last = first
    for part in range(first + 1, len(curve)):
        before = slice(first, part)
        # Parts are nested: the difference of two varies by the difference of their variances.
        chance = np.sqrt(np.maximum(variance[before] - variance[part], 0) + 1e-9)
        if (curve[part] > curve[before] + errors * chance).any():
            break
        last = part
    return last


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
    rate = wrong.sum() / max(totals.sum(), 1)
    spread = np.square(wrong - totals * rate) / np.maximum(totals * rate * (1 - rate), 1e-9)
    strength = _concentration(spread[totals > 0].sum(), (totals > 0).sum() - 1, totals)
    rates = (wrong + strength * rate) / np.maximum(totals + strength, 1e-9)
    even = (1 - np.eye(m)) / max(m - 1, 1)
    expected = wrong[:, None] * even
    scatter = np.square(off - expected)[expected > 0] / expected[expected > 0]
    strength = _concentration(scatter.sum(), (wrong > 0).sum() * (m - 2), wrong)
    spreads = (off + strength * even) / np.maximum(wrong[:, None] + strength, 1e-9)
    # Nothing is impossible: half a count in every place keeps the odds finite.
    rows = np.maximum(totals, 1)[:, None]
    transition = rates[:, None] * spreads + np.diag(1 - rates) + 0.5 / m / rows
    smoothed: Doubles = transition / transition.sum(1, keepdims=True)
    return smoothed


def _concentration(chi2: float, freedom: int, totals: Doubles) -> float:
    """Concentration of the prior whose extra spread explains a χ² above its degrees of freedom."""
    if freedom < 1 or totals.sum() <= 0:
        return 1e9
    typical = float(np.square(totals).sum() / totals.sum())
    correlation = max(chi2 / freedom - 1, 0.0) / max(typical - 1, 1.0)
    return min((1 - min(correlation, 1.0)) / max(correlation, 1e-9), 1e9)


def _fit_slope(
    evidence: Floats, odds: Floats, contrary: npt.NDArray[np.bool_], known: npt.NDArray[np.bool_]
) -> float:
    """How much a unit of evidence counts: logistic regression of the early verdict on it.

    The early verdict (prediction contrary to the label) is a rough stand-in for "label is wrong";
    the slope that it gives was found, on planted errors, to be nearly that of the truth.
    """
    rows = _some(known, _ROWS_FOR_SLOPE)
    x, fixed = evidence[rows].astype(np.float64), odds[rows].astype(np.float64)
    y = ~contrary[rows]
    slope, offset = _USUAL_SLOPE, 0.0
    for _ in range(30):
        right = expit(slope * x + fixed + offset)
        weight = right * (1 - right) + 1e-9
        miss = y - right
        # A weak pull towards the usual slope keeps a perfect separation finite.
        gradient = np.array([(miss * x).sum() - (slope - _USUAL_SLOPE), miss.sum() - 1e-3 * offset])
        mixed = (weight * x).sum()
        hessian = np.array([[(weight * x * x).sum() + 1, mixed], [mixed, weight.sum() + 1e-3]])
        step = np.clip(np.linalg.solve(hessian, gradient), -2, 2)
        slope, offset = slope + float(step[0]), offset + float(step[1])
        if np.abs(step).max() < 1e-4:
            break
    return float(np.clip(slope, _LEAST_SLOPE, _MOST_SLOPE))


def _some(chosen: npt.NDArray[np.bool_], most: int) -> npt.NDArray[np.intp]:
    """Indices of the chosen rows, or of a random part of about `most` of them."""
    count = int(chosen.sum())
    if count > most:
        # The same part whenever asked: nothing here may differ from run to run.
        draws = np.random.default_rng(0).random(len(chosen), dtype=np.float32)
        chosen = chosen & (draws < most / count)
    return np.flatnonzero(chosen)


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
