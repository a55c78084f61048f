"""Probabilities that a user has already: checked, and what they tell of the labels."""

import numpy as np
import numpy.typing as npt
from torch import Tensor

from abstain.data import LabeledData
from abstain.errors import AbstainError
from abstain.scores.evidence import SUM_OFF_BY, Evidence, evidence_from_probabilities
from abstain.scores.held_out import HeldOut
from abstain.support.wording import many, some


def from_probabilities(probabilities: npt.ArrayLike, data: LabeledData) -> tuple[Evidence, HeldOut]:
    """The evidence on the labels, which were held out, all of them."""
    given, checked = data.given.numpy(), _checked(probabilities, data)
    met = float((checked.argmax(axis=1) == given).mean())
    held_out = HeldOut(epoch=0, accuracy=met, rows=np.arange(len(data)))
    return evidence_from_probabilities(checked, given), held_out


def _checked(probabilities: npt.ArrayLike, data: LabeledData) -> npt.NDArray[np.float64]:
    """Probabilities as a user may have them, or what is wrong with them."""
    try:
        # A tensor may lie on a GPU, or want its gradient.
        own = probabilities.detach().cpu() if isinstance(probabilities, Tensor) else probabilities
        array = np.asarray(own, dtype=np.float64)
        columns = [str(name).strip() for name in getattr(probabilities, "columns", ())]
    except (ValueError, TypeError) as error:
        raise AbstainError(
            f"must be an array of numbers (samples, classes), got: {error}",
            argument="probabilities",
        ) from error
    expected = (len(data), data.num_classes)
    if array.shape != expected:
        raise AbstainError(
            f"must have the shape (samples, classes), {expected}, got {array.shape}",
            argument="probabilities",
        )
    array = array[:, _order(columns, data.classes)]
    bad = np.flatnonzero(~(np.isfinite(array) & (array >= 0)).all(axis=1))
    if len(bad):
        raise AbstainError(
            f"must be numbers of 0 or more, got others in {many(len(bad), 'row')}, the first of "
            f"them row {bad[0]}",
            argument="probabilities",
            remedy="take the softmax of logits",
        )
    sums = array.sum(axis=1)
    off = np.flatnonzero(np.abs(sums - 1) > SUM_OFF_BY)
    if len(off):
        raise AbstainError(
            f"must sum to 1 in every row, got {sums[off[0]]:g} in row {off[0]} "
            f"({many(len(off), 'such row')})",
            argument="probabilities",
            remedy="divide each row of probabilities by its sum, take the softmax of logits",
        )
    if np.isin(array, (0, 1)).all():
        raise AbstainError(
            "must be probabilities, got 0 and 1 alone in every row, as predicted labels are",
            argument="probabilities",
            remedy="give what predict_proba makes, not what predict does",
        )
    return array


def _order(columns: list[str], classes: tuple[str, ...]) -> list[int]:
    """Find the column of each class; columns that do not name classes are taken in their order.

    >>> _order(["dog", "cat"], ("cat", "dog")), _order(["p0", "p1"], ("cat", "dog"))
    ([1, 0], [0, 1])
    """
    in_order = list(range(len(classes)))
    numbered = columns == [str(k) for k in in_order]  # as pandas does by default
    if not set(columns) & set(classes) or numbered:
        return in_order
    if set(columns) != set(classes):
        raise AbstainError(
            f"columns of probabilities must name the classes {some(classes, 10)}, "
            f"got {some(columns, 10)}"
        )
    return [columns.index(name) for name in classes]
