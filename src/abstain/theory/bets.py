"""The best bet on a point: its parts, its loss, and when betting pays at all."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr, xlogy

from abstain.theory.checks import (
    Floats,
    broadcast_shape,
    check_distribution,
    check_num_classes,
    check_payoff,
)


class Bet(NamedTuple):
    """The best bet on a point, and what it loses.

    Attributes:
        classes: f_1 … f_m, what is bet on each class; shape (..., m).
        abstention: f_0, what is kept in reserve.
        loss: the gambler's loss of this bet, expected over the given label.
    """

    classes: Floats
    abstention: Floats
    loss: Floats


def optimal_bet(probabilities: ArrayLike, payoff: ArrayLike) -> Bet:
    """Theorems 3.1 and 3.2 for any p: minimise −Σ p_j log(f_j + f_0/λ) over the simplex, exactly.

    The optimum bets what a class has above a common floor c, f_j = max(p_j − c, 0), and keeps
    f_0 = λc. The paper's Theorem 3.2 is the case in which only one class stands above the floor.
    Above λ = m it never pays to abstain: f_0 = 0 and the loss is the entropy H(p). Where several
    bets are best (λ equal to the number of possible classes), this is the one that abstains most.

    Args:
        probabilities: p, of shape (..., m); sums to 1 over the last axis.
        payoff: λ > 1, broadcast against the leading axes; may be infinite.

    Returns:
        The bet on the classes, the abstention, and the loss.

    Raises:
        AbstainError: if p is no distribution over at least two classes, or λ ≤ 1.

    Example:
        >>> bet = optimal_bet([0.7, 0.2, 0.1], payoff=2.0)
        >>> print(bet.classes.round(3), bet.abstention.round(3), bet.loss.round(3))
        [0.4 0.  0. ] 0.6 0.611
    """
    p = check_distribution("probabilities", probabilities)
    odds = check_payoff(payoff)
    broadcast_shape(probabilities=p[..., 0], payoff=odds)
    floor = _floor(p, odds)
    reserve = np.zeros_like(floor)
    # An infinite payoff has a floor of exactly 0, and ∞ · 0 is no number.
    np.multiply(odds, floor, out=reserve, where=floor > 0)
    return Bet(
        classes=np.maximum(p - floor[..., None], 0.0),
        abstention=reserve[()],
        loss=0.0 - xlogy(p, np.maximum(p, floor[..., None])).sum(axis=-1),
    )


def is_learnable(probabilities: ArrayLike, payoff: ArrayLike) -> NDArray[np.bool_]:
    """Definition 3.1 with Theorem 3.1: a point is learnable iff λ > 1/max p, else f_0 = 1.

    Args:
        probabilities: p, of shape (..., m).
        payoff: λ > 1, broadcast against the leading axes.

    Returns:
        Whether the best bet puts anything on a class.

    Example:
        >>> is_learnable([[0.9, 0.1], [0.6, 0.4]], payoff=1.5)
        array([ True, False])
    """
    p = check_distribution("probabilities", probabilities)
    odds = check_payoff(payoff)
    broadcast_shape(probabilities=p[..., 0], payoff=odds)
    learnable: NDArray[np.bool_] = odds * p.max(axis=-1) > 1.0
    return learnable


def entropy_bound(payoff: ArrayLike, num_classes: int) -> Floats:
    """Corollary 3.1.1 for m classes: learnable points have entropy ≤ H(1/λ) + (1 − 1/λ) log(m − 1).

    The paper's H(1/λ) is the case m = 2. Above λ = m every point is learnable,
    and the bound is log m.

    Args:
        payoff: λ > 1.
        num_classes: m.

    Returns:
        The largest entropy that the labels of a learnable point can have.

    Example:
        >>> print(entropy_bound(5.0, num_classes=10).round(4))
        2.2582
    """
    m = check_num_classes(num_classes)
    likeliest = np.maximum(1.0 / check_payoff(payoff), 1.0 / m)
    bound: Floats = entr(likeliest) + entr(1.0 - likeliest) + xlogy(1.0 - likeliest, m - 1.0)
    return bound


def untrained_loss(payoff: ArrayLike, num_classes: int) -> Floats:
    """Equation (3) at a uniform output, f = 1/(m + 1): log((m + 1) λ/(λ + 1)).

    Args:
        payoff: λ > 1; may be infinite.
        num_classes: m.

    Returns:
        The loss at which training starts.

    Example:
        >>> print(untrained_loss(9.99, num_classes=10).round(4))
        2.3025
    """
    m, odds = check_num_classes(num_classes), check_payoff(payoff)
    even: Floats = np.log(m + 1.0) - np.log1p(1.0 / odds)
    return even


def _floor(p: Floats, payoff: Floats) -> Floats:
    """The c with Σ max(p_j − c, 0) + λc = 1: the largest one, where there are several.

    The left side is the largest of (λ − k)c + Σ_{k likeliest} p over k, so that it is at most 1
    iff c ≤ (what lies outside the k likeliest)/(λ − k) for every k < λ: c is the least of these.
    """
    # Summed from the small end, so that little mass far down keeps its digits.
    outside = np.cumsum(np.sort(p, axis=-1), axis=-1)[..., ::-1]
    outside = np.concatenate([outside, np.zeros_like(outside[..., :1])], axis=-1)
    left = payoff[..., None] - np.arange(outside.shape[-1])
    outside, left = np.broadcast_arrays(outside, left)
    bounds = np.full(left.shape, np.inf)
    np.divide(outside, left, out=bounds, where=left > 0)
    return np.asarray(bounds.min(axis=-1))
