"""The plateau of the loss before a network starts to memorise, and the noise that puts it there."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr, xlogy

from abstain.errors import AbstainError
from abstain.theory.bets import optimal_bet
from abstain.theory.checks import (
    Floats,
    broadcast_shape,
    check_distribution,
    check_numbers,
    check_payoff,
)
from abstain.theory.label_noise import label_distribution, rival_classes


class Plateau(NamedTuple):
    """The mean loss on the plateau; a part is nan where no point belongs to it.

    Attributes:
        total: over all points.
        clean: over the points whose given label is right.
        corrupt: over the points whose given label is wrong.
    """

    total: Floats
    clean: Floats
    corrupt: Floats


def plateau(
    clean_rate: ArrayLike, payoff: ArrayLike, num_classes: int, noise: str = "symmetric"
) -> Floats:
    """Theorem 4.1: ℓ*(a, λ) = H(a) + (1 − a) log(λ − 1), where that holds, and the truth elsewhere.

    The formula holds for symmetric noise with 1/a < λ ≤ m. For λ ≤ 1/a there is nothing but
    log λ. For pairflip noise it holds only up to λ = 2; above, the network bets on both classes,
    never abstains, and the plateau is H(a), far below the paper's threshold.

    Args:
        clean_rate: a, the share of labels that are right.
        payoff: λ > 1.
        num_classes: m.
        noise: "symmetric" or "pairflip".

    Returns:
        The training loss on the plateau.

    Example:
        >>> plateau([0.9, 0.8, 0.7], payoff=1.95, num_classes=2).round(4)
        array([0.32  , 0.4901, 0.5955])
        >>> print(plateau(0.8, payoff=9.99, num_classes=10, noise="pairflip").round(4))
        0.5004
    """
    return plateau_parts(clean_rate, payoff, num_classes, noise).total


def plateau_parts(
    clean_rate: ArrayLike, payoff: ArrayLike, num_classes: int, noise: str = "symmetric"
) -> Plateau:
    """Theorem 4.1, term by term: the plateau of points with right and with wrong labels apart.

    For symmetric noise with 1/a < λ ≤ m, clean points rest at −log a and corrupt ones at
    log((λ − 1)/(1 − a)).

    Args:
        clean_rate: a, the share of labels that are right.
        payoff: λ > 1.
        num_classes: m.
        noise: "symmetric" or "pairflip".

    Returns:
        The mean loss of all points, of the clean and of the corrupt ones.

    Example:
        >>> parts = plateau_parts(0.5, payoff=9.99, num_classes=10)
        >>> print(parts.total.round(3), parts.clean.round(3), parts.corrupt.round(3))
        1.791 0.693 2.889
    """
    p = label_distribution(clean_rate, num_classes, noise)
    odds = check_payoff(payoff)
    broadcast_shape(clean_rate=p[..., 0], payoff=odds)
    true_class_first = np.arange(num_classes) == 0
    return _split(p[..., None, :], odds, true_class_first, np.ones(1))


def plateau_of(transition: ArrayLike, payoff: ArrayLike, priors: ArrayLike | None = None) -> Floats:
    """Theorem 4.1 for any noise: the best bet on each row of its matrix, averaged over classes.

    Args:
        transition: T[i, j] = P(given = j | true = i), of shape (..., m, m); rows sum to 1.
        payoff: λ > 1, broadcast against the leading axes.
        priors: the share of each true class, of shape (m,); equal if not given.

    Returns:
        The training loss on the plateau.

    Example:
        >>> one_way = [[1.0, 0.0], [0.3, 0.7]]  # only the second class is ever mislabelled
        >>> print(plateau_of(one_way, payoff=1.95).round(4))
        0.2977
    """
    return plateau_parts_of(transition, payoff, priors).total


def plateau_parts_of(
    transition: ArrayLike, payoff: ArrayLike, priors: ArrayLike | None = None
) -> Plateau:
    """Theorem 4.1 for any noise, term by term: see `plateau_of` and `plateau_parts`.

    Args:
        transition: T[i, j] = P(given = j | true = i), of shape (..., m, m); rows sum to 1.
        payoff: λ > 1, broadcast against the leading axes.
        priors: the share of each true class, of shape (m,); equal if not given.

    Returns:
        The mean loss of all points, of the clean and of the corrupt ones.

    Example:
        >>> parts = plateau_parts_of([[1.0, 0.0], [0.3, 0.7]], payoff=1.95)
        >>> print(parts.clean.round(4), parts.corrupt.round(4))
        0.1469 1.1527
    """
    rows = check_distribution("transition", transition)
    classes = rows.shape[-1]
    if rows.ndim < 2 or rows.shape[-2] != classes:
        raise AbstainError(
            f"must be a square matrix, got shape {rows.shape}", argument="transition"
        )
    odds = check_payoff(payoff)
    broadcast_shape(transition=rows[..., 0, 0], payoff=odds)
    if priors is None:
        share = np.full(classes, 1.0 / classes)
    else:
        share = check_distribution("priors", priors)
        if share.shape != (classes,):
            raise AbstainError(
                f"must have shape ({classes},), got {share.shape}", argument="priors"
            )
    return _split(rows, odds, np.eye(classes, dtype=bool), share)


def clean_rate_from_plateau(
    loss: ArrayLike, payoff: ArrayLike, num_classes: int, noise: str = "symmetric"
) -> Floats:
    """Theorem 4.1, inverted: the clean rate a whose plateau is this loss.

    The loss falls strictly in a on (1/λ, 1], so there is exactly one answer there; the bare
    formula of the theorem has a second root below 1/λ, where it does not hold. For pairflip noise
    with λ > 2 the plateau is H(a), and of its two roots this is the one with a > 1/2: below it the
    wrong class would be the likelier one.

    Args:
        loss: the loss on the plateau.
        payoff: λ > 1.
        num_classes: m.
        noise: "symmetric" or "pairflip".

    Returns:
        The clean rate.

    Raises:
        AbstainError: if no clean rate has that plateau.

    Example:
        >>> print(clean_rate_from_plateau(1.791, payoff=9.99, num_classes=10).round(3))
        0.5
    """
    possible = rival_classes(num_classes, noise) + 1
    level, odds = check_numbers("loss", loss), check_payoff(payoff)
    shape = broadcast_shape(loss=level, payoff=odds)
    level, odds = np.broadcast_to(level, shape), np.broadcast_to(odds, shape)
    # Above the number of possible labels a higher payoff changes nothing: no bet abstains.
    capped = np.minimum(odds, possible)
    outside = ~((level >= 0.0) & (level < np.log(capped)))
    if outside.any():
        raise AbstainError(
            f"must lie in [0, {np.log(capped[outside][0]):.6g}) to be a plateau of {noise}"
            f" noise over {num_classes} classes with payoff {odds[outside][0]:.6g},"
            f" got {level[outside][0]:.6g}",
            argument="loss",
        )
    # Bisection on r = 1 − a: the slope is infinite at one end and zero at the other, so Newton's
    # method has no good start. Sixty halvings leave less than the rounding of a.
    low, high = np.zeros(shape), 1.0 - 1.0 / capped
    for _ in range(60):
        middle = (low + high) / 2
        too_low = entr(1.0 - middle) + entr(middle) + xlogy(middle, capped - 1.0) < level
        low, high = np.where(too_low, middle, low), np.where(too_low, high, middle)
    clean_rate: Floats = 1.0 - (low + high) / 2
    return clean_rate


def _split(p: Floats, payoff: Floats, right: NDArray[np.bool_], share: Floats) -> Plateau:
    """Average the best bets on the rows of p (..., rows, m), weighted by `share` (rows,).

    `right` (rows, m) says which given label of a row is the true one.
    """
    bet = optimal_bet(p, payoff[..., None])
    held = (bet.abstention / payoff[..., None])[..., None]
    loss = -share[:, None] * xlogy(p, bet.classes + held)
    weight = share[:, None] * p

    def mean(part: NDArray[np.bool_]) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):  # 0/0: no such point, or hardly one
            average: Floats = loss.sum(axis=(-2, -1), where=part) / weight.sum(
                axis=(-2, -1), where=part
            )
        return average

    return Plateau(total=(bet.loss * share).sum(axis=-1), clean=mean(right), corrupt=mean(~right))
