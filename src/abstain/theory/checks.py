"""Checks of the arguments of the theory."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from abstain.errors import AbstainError

Floats = NDArray[np.float64]


def check_num_classes(num_classes: int) -> int:
    """m, if it is a number of classes."""
    if not isinstance(num_classes, int | np.integer) or num_classes < 2:
        raise AbstainError(
            f"must be a whole number of at least 2, got {num_classes}", argument="num_classes"
        )
    return int(num_classes)


def check_payoff(payoff: ArrayLike) -> Floats:
    """λ as an array, if every one is greater than 1."""
    values = check_numbers("payoff", payoff)
    return require("payoff", values, values > 1.0, "be greater than 1")


def check_rate(name: str, rate: ArrayLike) -> Floats:
    """Rates as an array, if each is a share."""
    values = check_numbers(name, rate)
    return require(name, values, (values >= 0.0) & (values <= 1.0), "lie in [0, 1]")


def check_distribution(name: str, probabilities: ArrayLike) -> Floats:
    """Probabilities, normalised, if they are such over the last axis."""
    p = check_numbers(name, probabilities)
    if p.ndim == 0 or p.shape[-1] < 2:
        raise AbstainError(
            f"must have at least 2 classes on the last axis, got {p.shape}", argument=name
        )
    require(name, p, p >= 0.0, "not be negative")
    total = p.sum(axis=-1, keepdims=True)
    # Wide enough for a softmax that was taken in float32.
    require(name, total, np.abs(total - 1.0) <= 1e-5, "sum to 1 over the last axis")
    normalised: Floats = p / total
    return normalised


def check_numbers(name: str, value: ArrayLike) -> Floats:
    """An array of floats, if it is made of numbers."""
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise AbstainError(
            f"must be a number or an array of them, got {value!r}", argument=name
        ) from error


def require(name: str, values: Floats, holds: NDArray[np.bool_], rule: str) -> Floats:
    """The values, if the rule holds for all; else the error names the first that breaks it."""
    if not np.all(holds):
        raise AbstainError(f"must {rule}, got {values[~holds][0]:.6g}", argument=name)
    return values


def broadcast_shape(**arrays: Floats) -> tuple[int, ...]:
    """The shape that these arrays have together, if they broadcast."""
    try:
        return np.broadcast_shapes(*(array.shape for array in arrays.values()))
    except ValueError as error:
        shapes = " and ".join(str(array.shape) for array in arrays.values())
        raise AbstainError(f"{' and '.join(arrays)} must broadcast, got shapes {shapes}") from error
