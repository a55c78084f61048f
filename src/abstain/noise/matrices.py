"""Transition matrices: ``T[i, j] = P(given = j | true = i)``; rows sum to 1."""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from abstain.errors import AbstainError
from abstain.noise.checks import FloatArray, check_num_classes, check_rate


def symmetric(num_classes: int, rate: float) -> FloatArray:
    """Each label is wrong with probability ``rate``, and then any of the others, evenly.

    The diagonal is 1 − r, the rest r / (m − 1): a flip never keeps the label.

    >>> symmetric(3, 0.5)
    array([[0.5 , 0.25, 0.25],
           [0.25, 0.5 , 0.25],
           [0.25, 0.25, 0.5 ]])
    """
    m, r = check_num_classes(num_classes), check_rate(rate)
    matrix = np.full((m, m), r / (m - 1))
    np.fill_diagonal(matrix, 1 - r)
    return matrix


def symmetric_any(num_classes: int, rate: float) -> FloatArray:
    """Each label is redrawn with probability ``rate``, from *all* classes, its own among them.

    Part of the literature calls this symmetric noise. Only r · (m − 1) / m of the labels end up
    wrong: "80%" of ten classes is 72% wrong. Figures for it do not compare with `symmetric`.

    >>> matrix = symmetric_any(10, 0.8)
    >>> print(f"{1 - matrix[0, 0]:.2f}")
    0.72
    """
    m, r = check_num_classes(num_classes), check_rate(rate)
    return (1 - r) * np.eye(m) + r / m


def pairflip(num_classes: int, rate: float) -> FloatArray:
    """Each label i becomes i + 1 (the last one becomes 0) with probability ``rate``.

    >>> pairflip(3, 0.25)
    array([[0.75, 0.25, 0.  ],
           [0.  , 0.75, 0.25],
           [0.25, 0.  , 0.75]])
    """
    m, r = check_num_classes(num_classes), check_rate(rate)
    return (1 - r) * np.eye(m) + r * np.roll(np.eye(m), 1, axis=1)


TRANSITIONS: Mapping[str, Callable[[int, float], FloatArray]] = {
    "symmetric": symmetric,
    "symmetric-any": symmetric_any,
    "pairflip": pairflip,
}
"""The kinds of noise that have a matrix."""


def transition(kind: str, num_classes: int, rate: float) -> FloatArray:
    """The transition matrix of a kind of noise named by a word, as a command line does.

    >>> transition("pairflip", 2, 0.25)
    array([[0.75, 0.25],
           [0.25, 0.75]])
    """
    if kind not in TRANSITIONS:
        raise AbstainError(
            f"must be one of {', '.join(TRANSITIONS)}, got {kind!r}", argument="kind"
        )
    return TRANSITIONS[kind](num_classes, rate)


def check_transition(matrix: npt.ArrayLike) -> FloatArray:
    """The matrix in float64, once it is known to be square, non-negative, with rows summing to 1.

    >>> check_transition([[0.75, 0.5], [0, 1]])
    Traceback (most recent call last):
    abstain.errors.AbstainError: rows of matrix must sum to 1 within 1e-06, row 0 sums to 1.25
    """
    try:
        checked = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise AbstainError(f"must be an array of numbers: {error}", argument="matrix") from None
    if checked.ndim != 2 or checked.shape[0] != checked.shape[1] or checked.shape[0] < 2:
        raise AbstainError(
            f"must be square, 2 × 2 or larger, got shape {checked.shape}", argument="matrix"
        )
    # "not all ≥ 0" rather than "any < 0", so that a NaN is refused too
    if not (checked >= 0).all():
        raise AbstainError(f"entries of matrix must be ≥ 0, got {checked[~(checked >= 0)][0]}")
    sums = checked.sum(axis=1)
    worst = int(np.abs(sums - 1).argmax())
    tolerance = 1e-6  # a float32 matrix of a thousand classes passes
    if abs(sums[worst] - 1) > tolerance:
        raise AbstainError(
            f"rows of matrix must sum to 1 within {tolerance}, row {worst} sums to {sums[worst]:g}"
        )
    return checked
