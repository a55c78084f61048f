"""What the gambler's loss comes to: closed forms and their inverses.

A network that is trained on partly wrong labels first learns what can be learnt, and its loss
rests on a *plateau* before it starts to memorise. This module says where that plateau lies.

It sees each point as a horse race with a reserve. The given label of the point is class j with
probability p_j; the network bets f_j on each class and keeps f_0 (the abstention) in its pocket;
its loss is −Σ p_j log(f_j + f_0/λ), with λ the payoff. Everything below follows from the best bet.

Theorems are numbered as in "Learning Not to Learn in the Presence of Noisy Labels"; where the
paper is wrong, the docstring says so and the function gives the right value. Arguments may be
numbers or arrays; arrays broadcast, and the last axis of `probabilities` runs over the classes.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr, xlogy

from abstain.errors import AbstainError

__all__ = [
    "NOISE_KINDS",
    "Bet",
    "Plateau",
    "clean_rate_from_plateau",
    "entropy_bound",
    "is_learnable",
    "label_distribution",
    "optimal_bet",
    "plateau",
    "plateau_of",
    "plateau_parts",
    "plateau_parts_of",
    "robustness_gain",
    "stoppable_payoffs",
    "suggested_payoff",
    "untrained_loss",
]

Floats = NDArray[np.float64]

NOISE_KINDS = ("symmetric", "pairflip")


class Bet(NamedTuple):
    """The best bet on a point, and what it loses.

    Attributes:
        classes: f_1 … f_m, what is bet on each class; shape (..., m).
        abstention: f_0, what is kept in the pocket.
        loss: the gambler's loss of this bet, expected over the given label.
    """

    classes: Floats
    abstention: Floats
    loss: Floats


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
    p = _distribution("probabilities", probabilities)
    odds = _payoff(payoff)
    _broadcast_shape(probabilities=p[..., 0], payoff=odds)
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
    p = _distribution("probabilities", probabilities)
    odds = _payoff(payoff)
    _broadcast_shape(probabilities=p[..., 0], payoff=odds)
    learnable: NDArray[np.bool_] = odds * p.max(axis=-1) > 1.0
    return learnable


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
    a = _rate("clean_rate", clean_rate)[..., None]
    wrong = _rival_classes(num_classes, noise)
    rivals = np.zeros(num_classes - 1)
    rivals[:wrong] = 1.0 / wrong
    return np.concatenate([a, (1.0 - a) * rivals], axis=-1)


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
    odds = _payoff(payoff)
    _broadcast_shape(clean_rate=p[..., 0], payoff=odds)
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
    rows = _distribution("transition", transition)
    classes = rows.shape[-1]
    if rows.ndim < 2 or rows.shape[-2] != classes:
        raise AbstainError(f"transition must be a square matrix, got shape {rows.shape}")
    odds = _payoff(payoff)
    _broadcast_shape(transition=rows[..., 0, 0], payoff=odds)
    if priors is None:
        share = np.full(classes, 1.0 / classes)
    else:
        share = _distribution("priors", priors)
        if share.shape != (classes,):
            raise AbstainError(f"priors must have shape ({classes},), got {share.shape}")
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
    possible = _rival_classes(num_classes, noise) + 1
    level, odds = _numbers("loss", loss), _payoff(payoff)
    shape = _broadcast_shape(loss=level, payoff=odds)
    level, odds = np.broadcast_to(level, shape), np.broadcast_to(odds, shape)
    # Above the number of possible labels a higher payoff changes nothing: no bet abstains.
    capped = np.minimum(odds, possible)
    outside = ~((level >= 0.0) & (level < np.log(capped)))
    if outside.any():
        raise AbstainError(
            f"loss must lie in [0, {np.log(capped[outside][0]):.6g}) to be a plateau of {noise}"
            f" noise over {num_classes} classes with payoff {odds[outside][0]:.6g},"
            f" got {level[outside][0]:.6g}"
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
    even: Floats = np.log(_classes(num_classes) + 1.0) - np.log1p(1.0 / _payoff(payoff))
    return even


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
    a, odds = _rate("clean_rate", clean_rate), _payoff(payoff)
    _broadcast_shape(clean_rate=a, payoff=odds)
    return -(1.0 - a) * np.log1p(-1.0 / odds)


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
    m = _classes(num_classes)
    likeliest = np.maximum(1.0 / _payoff(payoff), 1.0 / m)
    bound: Floats = entr(likeliest) + entr(1.0 - likeliest) + xlogy(1.0 - likeliest, m - 1.0)
    return bound


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
    a = _rate("clean_rate", clean_rate)
    possible = _rival_classes(num_classes, noise) + 1
    _require(
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


def _rival_classes(num_classes: int, noise: str) -> int:
    """How many classes share a point's wrong labels; those that share none might not exist."""
    classes = _classes(num_classes)
    if noise not in NOISE_KINDS:
        raise AbstainError(f"noise must be one of {', '.join(NOISE_KINDS)}, got {noise!r}")
    return 1 if noise == "pairflip" else classes - 1


def _classes(num_classes: int) -> int:
    if not isinstance(num_classes, int | np.integer) or num_classes < 2:
        raise AbstainError(f"num_classes must be a whole number of at least 2, got {num_classes}")
    return int(num_classes)


def _payoff(payoff: ArrayLike) -> Floats:
    values = _numbers("payoff", payoff)
    return _require("payoff", values, values > 1.0, "be greater than 1")


def _rate(name: str, rate: ArrayLike) -> Floats:
    values = _numbers(name, rate)
    return _require(name, values, (values >= 0.0) & (values <= 1.0), "lie in [0, 1]")


def _distribution(name: str, probabilities: ArrayLike) -> Floats:
    p = _numbers(name, probabilities)
    if p.ndim == 0 or p.shape[-1] < 2:
        raise AbstainError(f"{name} must have at least 2 classes on the last axis, got {p.shape}")
    _require(name, p, p >= 0.0, "not be negative")
    total = p.sum(axis=-1, keepdims=True)
    # Wide enough for a softmax that was taken in float32.
    _require(name, total, np.abs(total - 1.0) <= 1e-5, "sum to 1 over the last axis")
    normalised: Floats = p / total
    return normalised


def _numbers(name: str, value: ArrayLike) -> Floats:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise AbstainError(f"{name} must be a number or an array of them, got {value!r}") from error


def _require(name: str, values: Floats, holds: NDArray[np.bool_], rule: str) -> Floats:
    if not np.all(holds):
        raise AbstainError(f"{name} must {rule}, got {values[~holds][0]:.6g}")
    return values


def _broadcast_shape(**arrays: Floats) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*(array.shape for array in arrays.values()))
    except ValueError as error:
        shapes = " and ".join(str(array.shape) for array in arrays.values())
        raise AbstainError(f"{' and '.join(arrays)} must broadcast, got shapes {shapes}") from error
