"""Kinds of noise as theory sees them: how a point's given label is distributed."""

import numpy as np
from numpy.typing import ArrayLike

from abstain.errors import AbstainError
from abstain.theory.checks import Floats, check_num_classes, check_rate

NOISE_KINDS = ("symmetric", "pairflip")


def label_distribution(clean_rate: ArrayLike, num_classes: int, noise: str = "symmetric") -> Floats:
    """Section 3.1 for m classes: the distribution of a point's given label, its true class first.

    Args:
        clean_rate: a, the share of labels that are right.
        num_classes: m.
        noise: "symmetric" (wrong labels spread evenly over the other classes) or
            "pairflip" (all wrong labels of a class go to one other class).

    Returns:
        Probabilities of shape (..., m).

    Example:
        >>> label_distribution(0.7, 4)
        array([0.7, 0.1, 0.1, 0.1])
        >>> label_distribution(0.75, 4, noise="pairflip")
        array([0.75, 0.25, 0.  , 0.  ])
    """
    a = check_rate("clean_rate", clean_rate)[..., None]
    wrong = rival_classes(num_classes, noise)
    rivals = np.zeros(num_classes - 1)
    rivals[:wrong] = 1.0 / wrong
    return np.concatenate([a, (1.0 - a) * rivals], axis=-1)


def rival_classes(num_classes: int, noise: str) -> int:
    """Count the classes that share a point's wrong labels; the others might as well not exist."""
    classes = check_num_classes(num_classes)
    if noise not in NOISE_KINDS:
        raise AbstainError(
            f"must be one of {', '.join(NOISE_KINDS)}, got {noise!r}", argument="noise"
        )
    return 1 if noise == "pairflip" else classes - 1
