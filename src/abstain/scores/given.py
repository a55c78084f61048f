"""Given labels, checked."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from abstain.errors import AbstainError

__all__ = ["Labels", "checked_labels"]

Labels: TypeAlias = npt.NDArray[np.int64]


def checked_labels(
    given: npt.ArrayLike, samples: int, num_classes: int | None = None
) -> npt.NDArray[np.int32]:
    """One class index for each sample, below `num_classes` where that is known; else an error."""
    labels = np.asarray(given)
    if labels.shape != (samples,):
        raise AbstainError(
            f"must have one label for each of {samples} samples, got shape {labels.shape}",
            argument="given",
        )
    if labels.dtype.kind not in "iu":
        raise AbstainError(f"must be class indices, got {labels.dtype}", argument="given")
    if samples == 0:
        raise AbstainError("must hold labels, got none", argument="given")
    if int(labels.min()) < 0 or (num_classes is not None and int(labels.max()) >= num_classes):
        rule = "at least 0" if num_classes is None else f"in [0, {num_classes})"
        bad = labels.min() if int(labels.min()) < 0 else labels.max()
        raise AbstainError(f"must be class indices {rule}, got {bad}", argument="given")
    return labels.astype(np.int32)
