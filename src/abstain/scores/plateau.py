"""The plateau: where a model is surest, the share of labels that contradict it stays level.

Where a model is surest, it is hardly ever wrong. So among the samples it is surest of, the share of
labels that contradict it *is* the share of wrong labels. Going down from the surest, that share
first stays level, then rises as errors of the model come in: the plateau ends there (Lepski's rule:
as far as the rise is explained by chance).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float32]
Doubles: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int32]

UNKNOWN = -1
"""The class of a sample that was not seen."""
# Standard errors by which the share may rise and still count as level. Where it ends is a close
# call: the estimate is the mean over a strict, a middling and a lenient one.
CLOSE_CALL = (1.0, 1.5, 2.0)
LENIENT = (2.0, 2.5, 3.0)
"""The same for a share that rises late and little, as that of a whole training does: it ends only
where chance cannot explain it."""
LEAST_PART = 0.2
"""Of all samples, the surest: fewer of them are so partly because of their labels."""
_FEWEST = 200
# By how much the share rises from the surest tenth to the surest half where there is no plateau.
_STEEP = 0.06
PARTS = 10
"""Into which samples are divided, from the surest to the least sure."""
_SUREST = 3  # tenths that tell where a curve begins
ROWS = 500_000
"""Of more than these a random part says as much."""


@dataclass(frozen=True, kw_only=True)
class Beliefs:
    """What was believed of each sample, and how sure the model was before it knew its label."""

    predicted: Integers
    """The class believed most; `UNKNOWN` where the sample was not seen."""
    confidence: Floats
    """How surely, on any scale: only its order counts."""


@dataclass(frozen=True, kw_only=True)
class Plateau:
    """Of the samples that a model is surest of, how many contradict their label."""

    share: float
    """Share of all samples that lie on the plateau."""
    samples: int
    """How many of them were looked at."""
    disagreement: float
    """Share of its samples whose label contradicts the prediction; of three ends, the mean."""
    curve: Doubles
    """Disagreement among the surest 10%, 20%, …, 100%."""


def at_certainty(curve: Doubles) -> float:
    """What a curve of a plateau comes to where a model is quite sure: by its surest three tenths.

    >>> rising = 0.1 + 0.4 * np.arange(1, 11) / 20  # 10%, and 4% more in each tenth
    >>> round(at_certainty(rising), 3)
    0.1
    """
    tenth = np.diff(curve[:_SUREST] * np.arange(1, _SUREST + 1), prepend=0.0)
    middles = (np.arange(_SUREST) + 0.5) / PARTS
    return max(0.0, float(np.polyfit(middles, tenth, 1)[1]))


def certainty_error(curve: Doubles, samples: int) -> float:
    """Standard error of `at_certainty`, by chance alone.

    >>> round(certainty_error(np.full(10, 0.2), 10_000), 3)
    0.015
    """
    middles = (np.arange(_SUREST) + 0.5) / PARTS
    apart = middles - middles.mean()
    weights = 1 / _SUREST - middles.mean() * apart / (apart @ apart)  # of the three, in the line
    share = float(curve[_SUREST - 1])
    each = max(share * (1 - share), 1 / max(samples, 1)) * PARTS / max(samples, 1)
    return float(np.sqrt(weights @ weights * each))


def find_plateau(
    beliefs: Beliefs,
    given: Integers,
    num_classes: int,
    chances: Sequence[float] = CLOSE_CALL,
    least: float | None = None,
) -> tuple[Plateau, Doubles]:
    """The plateau, and the (m, m) counts of predicted and given labels on it.

    Easy classes have more of the surest samples than hard ones. So the share is taken class by
    class, and a class counts by how often it is predicted at all; but where the model is hardly
    ever sure of a class, little is known of its labels, and its share is drawn to the common one.
    (Taking the same part of each class instead would count as wrong labels what the model cannot
    tell apart even where it is surest.)

    Args:
        beliefs: What was believed.
        given: (N,) given labels.
        num_classes: Number of classes m.
        chances: Standard errors by which a level share may rise, from strict to lenient.
        least: Part of all samples, the surest, that is on the plateau in any case: of fewer, their
            share says nothing about where it ends; None for `_FEWEST` of them, or half.
    """
    seen = random_part(beliefs.predicted != UNKNOWN, ROWS)
    part = tenths(beliefs.confidence[seen])
    predicted, labels = beliefs.predicted[seen].astype(np.int64), given[seen]

    def by_class(weights: npt.NDArray[np.bool_] | None) -> Doubles:
        counts = np.bincount(part * num_classes + predicted, weights, PARTS * num_classes)
        return np.cumsum(counts.reshape(PARTS, num_classes), 0)

    totals, contrary = by_class(None), by_class(predicted != labels)
    of_class = totals[-1] / max(len(seen), 1)
    curve = np.array([rates @ of_class for rates in map(shrunk_rates, contrary, totals)])
    sizes = totals.sum(1).astype(np.int64)
    fewest = min(_FEWEST, len(seen) // 2) if least is None else int(least * len(seen))
    ends = [_end_of_plateau(curve, sizes, chance, fewest) for chance in chances]
    last = ends[1]
    on = part <= last
    counts = np.bincount(predicted[on] * num_classes + labels[on], minlength=num_classes**2)
    plateau = Plateau(
        share=(last + 1) / PARTS,
        samples=int(sizes[last]),
        disagreement=float(curve[ends].mean()),
        curve=curve,
    )
    return plateau, counts.reshape(num_classes, num_classes).astype(np.float64)


def tenths(confidence: Floats) -> npt.NDArray[np.int64]:
    """(N,) 0 for the surest tenth of samples, up to 9.

    >>> tenths(np.linspace(0, 1, 20, dtype=np.float32))[[0, 1, 2, 18, 19]].tolist()
    [9, 9, 8, 0, 0]
    """
    # Equal ones in random order: as they stand, data are often sorted by label.
    keys = confidence + np.random.default_rng(0).random(len(confidence)) * 1e-6
    part = np.empty(len(keys), np.int64)
    part[np.argsort(-keys)] = np.arange(len(keys)) * PARTS // max(len(keys), 1)
    return part


def within_classes(beliefs: Beliefs) -> Beliefs:
    """The same beliefs, each as sure as its rank among those of its class."""
    # Equal ones in random order, as in `tenths`.
    chance = np.random.default_rng(0).random(len(beliefs.predicted), dtype=np.float32)
    order = np.lexsort((chance, beliefs.confidence, beliefs.predicted))
    classes = beliefs.predicted[order]
    _, first, sizes = np.unique(classes, return_index=True, return_counts=True)
    ranks = np.arange(len(order)) - np.repeat(first, sizes) + 1
    confidence = np.empty(len(order), np.float32)
    confidence[order] = ranks / np.repeat(sizes, sizes)
    return Beliefs(predicted=beliefs.predicted, confidence=confidence)


def shrunk_rates(hits: Doubles, totals: Doubles) -> Doubles:
    """The rate of each class, drawn to the common one as strongly as the counts ask for.

    A beta–binomial model; its concentration by moments.
    """
    rate = hits.sum() / max(totals.sum(), 1)
    spread = np.square(hits - totals * rate) / np.maximum(totals * rate * (1 - rate), 1e-9)
    strength = concentration(spread[totals > 0].sum(), (totals > 0).sum() - 1, totals)
    rates: Doubles = (hits + strength * rate) / (totals + strength)
    return rates


def concentration(chi2: float, freedom: int, totals: Doubles) -> float:
    """Concentration of the prior whose extra spread explains a χ² above its degrees of freedom."""
    if freedom < 1 or totals.sum() <= 0:
        return 1e9
    typical = float(np.square(totals).sum() / totals.sum())
    correlation = max(chi2 / freedom - 1, 0.0) / max(typical - 1, 1.0)
    # Never none: a class without samples has the common rate.
    return min((1 - min(correlation, 1 - 1e-6)) / max(correlation, 1e-9), 1e9)


def _end_of_plateau(
    curve: Doubles, totals: npt.NDArray[np.int64], errors: float, fewest: int
) -> int:
    """The last part before the curve rises by more than chance above any part before it."""
    first = min(int(np.searchsorted(totals, fewest)), len(curve) - 1)
    sizes = np.maximum(totals, 1).astype(np.float64)
    last = first
    for part in range(first + 1, len(curve)):
        before = slice(first, part)
        # Parts are nested: the difference of two varies by the difference of their variances.
        variance = max(curve[part] * (1 - curve[part]), 1 / sizes[part])
        chance = np.sqrt(variance * (1 / sizes[before] - 1 / sizes[part]) + 1e-9)
        if (curve[part] > curve[before] + errors * chance).any():
            break
        last = part
    return last


def has_plateau(epochs: Sequence[Plateau]) -> bool:
    """Whether single epochs, the second, third, fifth, …, have one: else a poor model looks alike.

    Three tenths in the second or third are enough; two tenths if the fifth has them too, or if
    there is none to compare with. Chance may cut a plateau short: only a steep curve has none.
    """
    tenths = [round(epoch.share * PARTS) for epoch in epochs]
    long = max(tenths[:2], default=0) >= 3 or min([max(tenths[:2], default=0), *tenths[2:3]]) >= 2
    rises = [epoch.curve[PARTS // 2 - 1] - epoch.curve[0] for epoch in epochs[:2]]
    return long or float(np.mean(rises)) <= _STEEP


def random_part(chosen: npt.NDArray[np.bool_], most: int) -> npt.NDArray[np.intp]:
    """Indices of the chosen rows, or of a random part of about `most` of them."""
    count = int(chosen.sum())
    if count > most:
        # The same part whenever asked: nothing here may differ from run to run.
        draws = np.random.default_rng(0).random(len(chosen), dtype=np.float32)
        chosen = chosen & (draws < most / count)
    return np.flatnonzero(chosen)
