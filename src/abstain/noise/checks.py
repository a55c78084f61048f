"""Checks of the arguments for planted noise."""

from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from abstain.errors import AbstainError

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


def check_num_classes(num_classes: int) -> int:
    """m, if it is a number of classes."""
    if not isinstance(num_classes, Integral) or num_classes < 2:
        raise AbstainError(f"must be an integer ≥ 2, got {num_classes!r}", argument="num_classes")
    return int(num_classes)


def check_rate(rate: float) -> float:
    """The rate, if it is a share."""
    if not isinstance(rate, Real) or not 0 <= rate <= 1:
        raise AbstainError(f"must lie in [0, 1], got {rate!r}", argument="rate")
    return float(rate)


def check_seed(seed: int) -> int:
    """The seed, if generators take it."""
    if not isinstance(seed, Integral) or seed < 0:
        raise AbstainError(f"must be an integer ≥ 0, got {seed!r}", argument="seed")
    return int(seed)


def check_rng(rng: np.random.Generator) -> None:
    """Raise an error if it is no generator."""
    if not isinstance(rng, np.random.Generator):
        raise AbstainError(
            f"must be a numpy.random.Generator, got {rng!r}; "
            "make one with numpy.random.default_rng(seed)",
            argument="rng",
        )


def check_labels(labels: npt.ArrayLike, num_classes: int, name: str = "labels") -> IntArray:
    """The labels as int64, if each names a class."""
    checked = np.asarray(labels)
    if checked.ndim != 1 or checked.size == 0 or checked.dtype.kind not in "iu":
        raise AbstainError(
            f"must be a non-empty one-dimensional array of integers, "
            f"got {checked.dtype} of shape {checked.shape}",
            argument=name,
        )
    outside = (checked < 0) | (checked >= num_classes)
    if outside.any():
        first = int(outside.argmax())
        raise AbstainError(
            f"must lie in [0, {num_classes}), got {checked[first]} at position {first}",
            argument=name,
        )
    return checked.astype(np.int64, copy=False)


def check_ids(ids: npt.ArrayLike) -> npt.NDArray[Any]:
    """The ids as an array, if each stands once."""
    checked = np.asarray(ids)
    # Columns of data frames arrive as objects.
    if checked.dtype.kind == "O" and all(isinstance(item, str) for item in checked.flat):
        checked = checked.astype(str)
    if checked.ndim != 1 or checked.size == 0 or checked.dtype.kind not in "iuU":
        raise AbstainError(
            "must be a non-empty one-dimensional array of strings or of integers, "
            f"got {checked.dtype} of shape {checked.shape}",
            argument="ids",
        )
    values, counts = np.unique(checked, return_counts=True)
    if len(values) != len(checked):
        raise AbstainError(
            f"must be unique, got {values[counts > 1][0]!s} more than once", argument="ids"
        )
    return checked


def check_features(features: npt.ArrayLike, size: int) -> npt.NDArray[Any]:
    """The features as an array, if there are some for each sample."""
    checked = np.asarray(features)
    if checked.ndim < 2 or len(checked) != size or checked.dtype.kind not in "biuf":
        raise AbstainError(
            f"must be numbers of shape ({size}, …), one row per label, "
            f"got {checked.dtype} of shape {checked.shape}",
            argument="features",
        )
    if not np.isfinite(checked).all():
        raise AbstainError("must be finite, got NaN or infinity", argument="features")
    return checked.reshape(size, -1)


def describe(ids: npt.NDArray[Any]) -> str:
    """Ids in words."""
    return f"{len(ids)} {'strings' if ids.dtype.kind == 'U' else 'integers'}"
