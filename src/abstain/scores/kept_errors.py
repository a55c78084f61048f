"""Right labels that even a good model contradicts to the end: counted off a plateau.

On few samples chance hides where a plateau ends, and errors of the model are counted as wrong
labels. But they do not lie anywhere: the less sure the model is of a sample, the likelier it errs,
by about the third power of the sample's rank; and it errs on classes that it hardly ever predicts,
whose labels it contradicts whether they are right or wrong.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from abstain.scores.plateau import (
    PARTS,
    ROWS,
    UNKNOWN,
    Beliefs,
    Doubles,
    Integers,
    Plateau,
    random_part,
    tenths,
)

# Errors are as frequent as this power of the rank among all samples, from the surest, 0, to 1.
_POWER = 3
# Share of all labels that are errors of the model, as a standard deviation, before any is seen.
_SPREAD = 0.015
# A class is hardly known if it is predicted less often than this part of how often it is given.
_HARDLY_KNOWN = 0.5
_HALF = PARTS // 2 - 1  # place of the surer half in a curve


def without_kept_errors(
    plateau: Plateau, counts: Doubles, beliefs: Beliefs, given: Integers
) -> tuple[Plateau, Doubles]:
    """The plateau and its counts, without what are likely errors of the model.

    Args:
        plateau: As found on these beliefs.
        counts: (m, m) of predicted and given labels on it.
        beliefs: What was believed.
        given: (N,) given labels.
    """
    end = round(plateau.share * PARTS) - 1
    hardly_known, contrary = _of_classes_hardly_known(beliefs, given, len(counts))
    # Among the surer half of all samples such classes have hardly a right label; and wrong ones
    # are as frequent there as elsewhere.
    excess = np.maximum(0.0, contrary - contrary[_HALF])
    excess[:_HALF] = 0.0
    slope = _slope(plateau.curve - excess, max(plateau.samples / plateau.share, 1.0))
    errors = float(excess[end]) + slope * plateau.share**_POWER / (_POWER + 1)
    if excess[end] > 0:
        scale = np.where(hardly_known, contrary[_HALF] / contrary[end], 1.0)
        counts = np.where(np.eye(len(counts), dtype=bool), counts, counts * scale)
    return replace(plateau, disagreement=max(0.0, plateau.disagreement - errors)), counts


def _of_classes_hardly_known(
    beliefs: Beliefs, given: Integers, num_classes: int
) -> tuple[npt.NDArray[np.bool_], Doubles]:
    """Which these are; and how many of the surest 10%, 20%, … contradict a label of theirs."""
    seen = random_part(beliefs.predicted != UNKNOWN, ROWS)
    predicted, labels = beliefs.predicted[seen], given[seen]
    believed, told = (np.bincount(x, minlength=num_classes) for x in (predicted, labels))
    hardly_known = believed < _HARDLY_KNOWN * told
    if not hardly_known.any():
        return hardly_known, np.zeros(PARTS)
    part = tenths(beliefs.confidence[seen])
    contrary = hardly_known[labels] & (predicted != labels)
    found, sizes = (np.cumsum(np.bincount(part, x, PARTS)) for x in (contrary, None))
    return hardly_known, found / np.maximum(sizes, 1)


def _slope(curve: Doubles, samples: float) -> float:
    """By how much more the least sure sample is contradicted than the surest; never less.

    Least squares over the tenths of the curve, drawn to none.

    >>> level = np.full(10, 0.2)
    >>> rising = level + 0.1 * (np.arange(1, 11) / 10) ** 3 / 4
    >>> [round(_slope(curve, 1e6), 2) for curve in (level, rising)]
    [0.0, 0.1]
    """
    edges = np.linspace(0, 1, PARTS + 1) ** (_POWER + 1) / (_POWER + 1)
    shape = np.diff(edges) * PARTS  # mean of the power of the rank in each tenth
    shape -= shape.mean()
    contrary = np.diff(curve * np.arange(1, PARTS + 1), prepend=0.0)
    share = float(curve[-1])
    precision = samples / PARTS / max(share * (1 - share), 1 / samples)
    weight = (_SPREAD * (_POWER + 1)) ** -2
    slope = shape @ contrary * precision / (shape @ shape * precision + weight)
    return max(0.0, float(slope))
