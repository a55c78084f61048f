"""Payoffs: at which training can be stopped, which to choose, and what one gains by it."""

import numpy as np
from numpy.typing import ArrayLike

from abstain.theory.checks import Floats, broadcast_shape, check_payoff, check_rate, require
from abstain.theory.label_noise import rival_classes


def stoppable_payoffs(
    clean_rate: ArrayLike, num_classes: int, noise: str = "symmetric"
) -> tuple[Floats, Floats]:
    """Theorems 3.1 and 4.1: the open interval (1/a, m) of payoffs at which training can be stopped.

    Below it points are not learnable, and the loss has no plateau but log λ. From m upwards
    abstaining earns nothing, and the loss is cross-entropy. In between the plateau lies below the
    untrained loss, as it must: an untrained network's even bet is one that the best bet beats.
    The interval is what theory allows; in practice a low payoff can freeze training at log λ
    before any feature has formed, so stay near its upper end (see `suggested_payoff`).

    Args:
        clean_rate: a, the share of labels that are right.
        num_classes: m.
        noise: "symmetric" or "pairflip".

    Returns:
        The lower and the upper end, neither included.

    Raises:
        AbstainError: if there is none, because the true class is not the likeliest given label.

    Example:
        >>> low, high = stoppable_payoffs(0.8, num_classes=10)
        >>> print(low, high)
        1.25 10.0
    """
    a = check_rate("clean_rate", clean_rate)
    possible = rival_classes(num_classes, noise) + 1
    require(
        "clean_rate",
        a,
        a > 1.0 / possible,
        f"be greater than 1/{possible} for {noise} noise over {num_classes} classes (else the"
        " true class is not the likeliest given label, and no payoff can work)",
    )
    return 1.0 / a, np.full_like(a, num_classes)[()]


def suggested_payoff(clean_rate: ArrayLike, num_classes: int, noise: str = "symmetric") -> Floats:
    """Section 5: a payoff that works well, just below m: 9.99 for ten classes, 1.95 for two.

    The first is the paper's, the second that of the code released with it. Near m a network
    learns fastest and is least drawn to abstain before it has learnt anything. Where so few labels
    are right that this is not well inside `stoppable_payoffs`, it is the middle of that interval.

    Args:
        clean_rate: a, the share of labels that are right.
        num_classes: m.
        noise: "symmetric" or "pairflip".

    Returns:
        A payoff inside the interval.

    Raises:
        AbstainError: if no payoff works.

    Example:
        >>> print(suggested_payoff(0.5, num_classes=10), suggested_payoff(0.7, num_classes=2))
        9.99 1.95
    """
    low, high = stoppable_payoffs(clean_rate, num_classes, noise)
    return np.maximum(num_classes - max(0.1 / num_classes, 0.01), (low + high) / 2)


def robustness_gain(clean_rate: ArrayLike, payoff: ArrayLike) -> Floats:
    """Theorem 3.3: the gain over cross-entropy in the smoothing limit, (1 − a) log(λ/(λ − 1)).

    The perturbative corollary of appendix C.1 has another limit, (1 − a)/(λ − 1); it is wrong.

    Args:
        clean_rate: a, the share of labels that are right.
        payoff: λ > 1.

    Returns:
        By how much the generalisation error falls.

    Example:
        >>> print(robustness_gain(0.8, payoff=2.0).round(4))
        0.1386
    """
    a, odds = check_rate("clean_rate", clean_rate), check_payoff(payoff)
    broadcast_shape(clean_rate=a, payoff=odds)
    return -(1.0 - a) * np.log1p(-1.0 / odds)
