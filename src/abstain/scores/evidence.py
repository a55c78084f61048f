"""Evidence on each given label: its log odds against its rival, the likeliest other class.

After a training it comes from the ledger, as a mean over all visits of a sample. On small sets,
and after a cross-validation, it comes from the probabilities of models that were not trained on the
sample.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from abstain.errors import AbstainError
from abstain.scores.given import checked_labels
from abstain.scores.held_out import HeldOut
from abstain.scores.ledger import EVIDENCE_FLOOR, Ledger, Snapshot

Floats: TypeAlias = npt.NDArray[np.float32]

UNKNOWN = -1
"""The rival of a sample that was never seen."""
SUM_OFF_BY = 0.05
"""Largest error of a sum of probabilities: naive Bayes in float32 is off by 0.01."""
_ROWS_AT_ONCE = 2**16
# Added to both disagreement rates, as the ratio of two tiny rates is mostly chance.
_RATE_FLOOR = 0.05


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The evidence on each of N labels before any of them is reviewed."""

    log_odds: Floats = field(repr=False)
    """(N,) log odds of the given label against its rival; NaN if never seen."""
    rival: npt.NDArray[np.int32] = field(repr=False)
    """(N,) the likeliest other class; `UNKNOWN` if never seen."""
    rival_share: Floats = field(repr=False)
    """(N,) belief in the rival, as a share of the belief in all classes but the given one."""
    memorised: float
    """Log of the disagreement rate on held-out labels over that on training labels."""
    abstention: Floats = field(repr=False)
    """(N,) f_0 at the last visit; NaN where there is no abstention output."""

    def __len__(self) -> int:
        return len(self.log_odds)

    @property
    def disagreement(self) -> float:
        """Share of the labels whose rival is likelier than they are."""
        return _disagreement(self.log_odds)


def evidence_from_ledger(
    ledger: Ledger, given: npt.ArrayLike, held_out: HeldOut | None = None
) -> Evidence:
    """Evidence from one training.

    Args:
        ledger: Of a training.
        given: (N,) given labels.
        held_out: The model's accuracy on held-out labels. Without it, memorised labels count as
            right.

    >>> import torch
    >>> ledger = Ledger(2)
    >>> logits = torch.tensor([[2.0, 0.0, 1.0], [0.0, 3.0, 0.0]])
    >>> ledger.update(torch.arange(2), logits, torch.zeros(2).long(), has_abstention=False)
    >>> evidence = evidence_from_ledger(ledger, [0, 0])
    >>> evidence.rival.tolist(), (evidence.log_odds < 0).tolist()
    ([2, 1], [False, True])
    """
    checked_labels(given, len(ledger))
    snapshots = ledger.snapshots
    if not snapshots:
        raise AbstainError("must have seen a training, got one that saw nothing", argument="ledger")
    log_odds = ledger.evidence.numpy(force=True)
    belief, margin = ledger.belief.numpy(force=True), ledger.margin.numpy(force=True)
    return Evidence(
        log_odds=log_odds,
        rival=_likeliest_rival(snapshots),
        rival_share=_share(belief - margin, belief),
        memorised=0.0 if held_out is None else memorised(log_odds, held_out.accuracy),
        abstention=ledger.abstention.numpy(force=True),
    )


def evidence_from_probabilities(probabilities: npt.ArrayLike, given: npt.ArrayLike) -> Evidence:
    """Evidence from out-of-sample probabilities, such as those of a cross-validation.

    Args:
        probabilities: (N, m) of each class, by models that were not trained on the sample.
        given: (N,) given labels.

    >>> evidence = evidence_from_probabilities([[0.9, 0.1], [0.2, 0.8]], [0, 0])
    >>> evidence.log_odds.round(2), evidence.rival.tolist()
    (array([ 2.11, -1.35], dtype=float32), [1, 1])
    """
    beliefs = np.asarray(probabilities)
    if beliefs.ndim != 2 or beliefs.shape[1] < 2 or not len(beliefs):
        raise AbstainError(
            f"must be (samples, classes), got shape {beliefs.shape}", argument="probabilities"
        )
    if beliefs.dtype.kind not in "fiu":
        raise AbstainError(f"must be numbers, got {beliefs.dtype}", argument="probabilities")
    labels = checked_labels(given, len(beliefs), beliefs.shape[1])
    rows = len(beliefs)
    belief, rival_belief = np.empty(rows, np.float32), np.empty(rows, np.float32)
    rival = np.empty(rows, np.int32)
    for begin in range(0, rows, _ROWS_AT_ONCE):  # a copy of all would double the memory
        part = slice(begin, begin + _ROWS_AT_ONCE)
        _check_probabilities(beliefs[part])
        index = np.arange(len(labels[part]))
        others = beliefs[part].astype(np.float32)
        others /= others.sum(1, keepdims=True)
        belief[part] = others[index, labels[part]]
        others[index, labels[part]] = -1
        rival[part] = others.argmax(1)
        rival_belief[part] = others[index, rival[part]]
    return Evidence(
        log_odds=np.log((belief + EVIDENCE_FLOOR) / (rival_belief + EVIDENCE_FLOOR)),
        rival=rival,
        rival_share=_share(rival_belief, belief),
        memorised=0.0,
        abstention=np.full(rows, np.nan, np.float32),
    )


def memorised(log_odds: Floats, accuracy: float) -> float:
    """Log of the disagreement rate on held-out labels over that on training labels.

    Args:
        log_odds: (N,) evidence of a training.
        accuracy: Share of the held-out labels that the model predicts.

    >>> memorised(np.array([-1.0, 2.0, 2.0, 2.0], np.float32), accuracy=0.75)
    0.0
    """
    return math.log((1 - accuracy + _RATE_FLOOR) / (_disagreement(log_odds) + _RATE_FLOOR))


def _disagreement(log_odds: Floats) -> float:
    seen = log_odds[~np.isnan(log_odds)]
    return float((seen < 0).mean()) if len(seen) else 0.0


def _share(rival_belief: Floats, belief: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        share: Floats = np.clip(rival_belief / (1 - belief), 0, 1)
    return share


def _likeliest_rival(snapshots: Sequence[Snapshot]) -> npt.NDArray[np.int32]:
    """The rival of each sample with the most belief, summed over the snapshots."""
    kept = [(_numpy(x.rival), _numpy(x.rival_belief)) for x in snapshots if x.epoch > 0]
    kept = kept or [(_numpy(x.rival), _numpy(x.rival_belief)) for x in snapshots]
    best = np.full(len(kept[0][0]), UNKNOWN, np.int32)
    most = np.full(len(best), -1, np.float32)
    for rival, _ in kept:
        votes = np.zeros(len(best), np.float32)
        for other, belief in kept:
            votes += np.where(rival == other, belief, 0)
        better = (votes > most) & (rival != UNKNOWN)
        best[better], most[better] = rival[better], votes[better]
    return best


def _numpy(tensor: Any) -> npt.NDArray[Any]:  # noqa: ANN401
    array: npt.NDArray[Any] = tensor.numpy(force=True)
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _check_probabilities(part: npt.NDArray[Any]) -> None:
    # "not all within" rather than "any outside", so that a NaN is refused too.
    within = (part >= 0) & (part <= 1 + SUM_OFF_BY)
    if not within.all():
        bad = part[~within][0]
        raise AbstainError(
            f"must lie in [0, 1], got {bad}; of logits, take the softmax", argument="probabilities"
        )
    sums = part.sum(1, dtype=np.float64)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > SUM_OFF_BY:
        raise AbstainError(
            f"rows of probabilities must sum to 1, got {sums[worst]:g}; if there is a column for "
            "every class, divide each row by its sum"
        )
