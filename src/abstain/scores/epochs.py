"""What single epochs of a training believed, and how sure they were while labels were unknown."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from abstain.scores.ledger import EVIDENCE_FLOOR, Snapshot
from abstain.scores.plateau import UNKNOWN, Beliefs, Floats
from abstain.scores.ramp import ramp

# See `weights_of_epochs`; all of these were found on planted errors.
_FEW_TO_MANY = (3_000, 10_000)  # samples
_HARDLY_ERRS, _ERRS_OFTEN = (0.03, 0.06), (0.2, 0.3)  # share of samples whose class is mistaken
_ERRS_MUCH = (0.3, 0.4)
_LAGS, _NOT_NEEDED = (0.03, 0.08), 0.7
_TYPICAL_EVIDENCE = 0.85  # odds of about five to one, as few epochs were right on planted errors


def beliefs_of(snapshot: Snapshot, given: npt.NDArray[np.int32]) -> Beliefs:
    """What one epoch believed of each sample: its label, or the rival of that."""
    rival, belief, rival_belief = (
        _numpy(x) for x in (snapshot.rival, snapshot.belief, snapshot.rival_belief)
    )
    predicted = np.where(rival_belief > belief, rival, given)
    predicted[rival == UNKNOWN] = UNKNOWN
    return Beliefs(predicted=predicted, confidence=np.maximum(belief, rival_belief))


def early_beliefs(
    numbers: Sequence[int], single: Sequence[Beliefs]
) -> tuple[Beliefs, tuple[Beliefs, ...]]:
    """Beliefs of the first epochs together, and of the single ones to compare with.

    Predictions are those of the second, third and fifth epoch, whichever is surest: there the model
    mostly knows enough. How sure to call it is taken from the first and second, where a sample's
    own label has been seen not at all or once, so that those whose label agrees have hardly become
    surer by it.
    """
    if list(numbers[:3]) != [0, 1, 2]:
        return single[-1], tuple(single)  # a single epoch, or none of the usual ones
    predicted, surest = single[1].predicted.copy(), single[1].confidence
    for epoch in single[2:4]:
        surer = epoch.confidence > surest
        predicted[surer & (predicted != UNKNOWN)] = epoch.predicted[surer & (predicted != UNKNOWN)]
        surest = np.maximum(surest, epoch.confidence)
    confidence = single[0].confidence * np.float32(0.5) + single[1].confidence
    return Beliefs(predicted=predicted, confidence=confidence), tuple(single[1:6])


def sureness(
    numbers: Sequence[int], single: Sequence[Beliefs], second: float, later: float
) -> Floats:
    """How sure the model was of each sample while it hardly knew its label.

    Args:
        numbers: The epochs kept.
        single: What was believed in each.
        second: How much the second epoch counts, to twice the first.
        later: How much the third and fifth do.
    """
    if list(numbers[:3]) != [0, 1, 2]:
        return single[0].confidence
    sureness: Floats = single[0].confidence * np.float32(0.5)
    for weight, epoch in zip((second, later, later), single[1:4], strict=False):
        if weight:
            sureness += np.float32(weight) * epoch.confidence
    return sureness


def weights_of_epochs(samples: int, errors: float, lag: float) -> tuple[float, float]:
    """How much the second, and the third and fifth epoch tell of how sure to call a model.

    The first has not seen the labels, but knows least. The more samples there are, the less each
    label does to the model: of many, the third and fifth may be asked too, which know far more of
    what is hard. But they are surer where labels agree: of a model that hardly errs they are not
    needed, and if the second knew nearly all there is to know, it is not needed much itself.

    Args:
        samples: How many there are.
        errors: Share of samples whose class the model mistakes.
        lag: Share of which the second epoch mistook it, less that.
    """
    few, many = _FEW_TO_MANY
    knew = (1 - ramp(lag, _LAGS)) * (1 - ramp(errors, _ERRS_OFTEN))
    late = max(ramp(samples, (few, many)), ramp(errors, _ERRS_MUCH))
    later = late * ramp(errors, _HARDLY_ERRS) * (1 - knew)
    return 1 - _NOT_NEEDED * knew, later


def contradicted(single: Sequence[Beliefs], given: npt.NDArray[np.int32]) -> float:
    """Share of labels that the last epoch with most samples in it contradicts."""
    for epoch in reversed(single):
        known = epoch.predicted != UNKNOWN
        if 2 * int(known.sum()) > len(known):
            return float((epoch.predicted != given)[known].mean())
    return 0.0


def likeliest_rival(snapshots: Sequence[Snapshot]) -> npt.NDArray[np.int32]:
    """The class that was the rival of each sample with the most belief, over the snapshots."""
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


def evidence_of(snapshots: Sequence[Snapshot]) -> Floats:
    """Like the ledger's evidence, from these epochs only; NaN where a sample was not seen in them.

    A model that has learnt for so short says too little: its typical evidence is made up to
    `_TYPICAL_EVIDENCE`.
    """
    kept = [x for x in snapshots if x.epoch > 0] or snapshots
    beliefs = np.stack([_numpy(x.belief) for x in kept])
    rivals = np.stack([_numpy(x.rival_belief) for x in kept])
    seen = beliefs >= 0
    floor = np.float32(EVIDENCE_FLOOR)
    odds = np.where(seen, np.log((np.abs(beliefs) + floor) / (np.abs(rivals) + floor)), 0)
    with np.errstate(invalid="ignore"):
        evidence: Floats = (odds.sum(0) / seen.sum(0)).astype(np.float32)
    typical = np.nanmedian(np.abs(evidence)) if seen.any() else 0
    return evidence * np.float32(_TYPICAL_EVIDENCE / max(float(typical), EVIDENCE_FLOOR))


def _numpy(tensor: Any) -> npt.NDArray[Any]:  # noqa: ANN401
    array: npt.NDArray[Any] = tensor.numpy(force=True)
    return array.astype(np.float32) if array.dtype == np.float16 else array
