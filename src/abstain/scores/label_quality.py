"""How far each given label can be trusted, and which class it should have been."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from abstain.errors import AbstainError
from abstain.scores.doubts import are_few
from abstain.scores.epochs import (
    beliefs_of,
    contradicted,
    early_beliefs,
    evidence_of,
    likeliest_rival,
    sureness,
    weights_of_epochs,
)
from abstain.scores.fading_errors import FadingErrors
from abstain.scores.first_epoch import FirstEpoch
from abstain.scores.given import Labels, checked_labels
from abstain.scores.held_out import HeldOut, all_learnt_by_heart, mistaken, with_all
from abstain.scores.ledger import EVIDENCE_FLOOR, Ledger
from abstain.scores.noise_model import SLOPE, NoiseModel, fit_noise_model
from abstain.scores.out_of_sample import share_out_of_sample
from abstain.scores.plateau import UNKNOWN, Beliefs, Floats, find_plateau
from abstain.scores.two_classes import TwoClasses
from abstain.scores.whole_training import share_by_whole_training
from abstain.scores.wrong_share import (
    WrongShare,
    share_by_first_epochs,
    share_by_one_epoch,
)


@dataclass(frozen=True, kw_only=True)
class LabelQuality:
    """What is thought of each label; arrays over all N samples."""

    label_score: Floats
    """P(label is right), in [0, 1]: low = bad, the worst labels first when sorted."""
    predicted_label: Labels
    """The class that is believed most, which may be the given one."""
    confidence: Floats
    """P(predicted label is right); NaN for a sample that was never seen."""
    abstention: Floats
    """f_0 at the last visit; NaN where there is no abstention output."""
    noise: NoiseModel = field(repr=False)
    """How labels went wrong, as fitted; `estimate_noise` reads it."""

    def __len__(self) -> int:
        return len(self.label_score)

    def worst_first(self) -> Labels:
        """Indices of all samples, the lowest score first; of equals the earlier one."""
        # By the logits: scores of hopeless labels round to the same number.
        return _ascending(self.noise.logits)


def label_quality(
    ledger: Ledger, given: npt.ArrayLike, held_out: HeldOut | None = None
) -> LabelQuality:
    """Scores from one training run: P(label is right) = 1/(1 + exp −(a·evidence + log-prior + c)).

    The evidence is the log odds of the given label against its rival, averaged over training so
    that every doubling of it counts alike, with a floor below which beliefs are all the same; and,
    where labels set aside show that none are learnt by heart, also without a floor and with all
    epochs alike. The prior odds come from the transition matrix of `noise_model`; c is fitted, so
    that as many labels are expected to be wrong as there are; and a is less the more often the
    model errs. Chosen on planted errors: the plain mean of belief or margin ranks as well where
    nothing is learnt by heart, and worse elsewhere; the prior gains most where wrong labels go to
    one class.

    A sample that the training never saw gets the score that all labels have on average.

    Args:
        ledger: Of a training that went through all epochs of it.
        given: (N,) given labels.
        held_out: How good the model was where it was best on labels set aside, if some were: they
            say how far errors of the model may be taken for wrong labels, and whether labels were
            learnt by heart; what was believed after that is then left out.

    >>> import torch
    >>> generator = torch.Generator().manual_seed(0)
    >>> given = torch.arange(300) % 3
    >>> believed = given.clone()
    >>> believed[:30] = (given[:30] + 1) % 3
    >>> ledger = Ledger(300)
    >>> for epoch in range(4):
    ...     logits = 3 * torch.nn.functional.one_hot(believed, 3).float()
    ...     logits += torch.randn(300, 3, generator=generator) / 2
    ...     ledger.update(torch.arange(300), logits, given, has_abstention=False, epoch=epoch)
    >>> quality = label_quality(ledger, given)
    >>> set(quality.worst_first()[:30].tolist()) == set(range(30))
    True
    >>> float((quality.predicted_label == believed.numpy()).mean()) > 0.98
    True
    """
    labels = checked_labels(given, len(ledger))
    snapshots = ledger.snapshots
    if not snapshots:
        raise AbstainError("ledger must have seen a training, got one that saw nothing")
    single = [beliefs_of(snapshot, labels) for snapshot in snapshots]
    numbers = [snapshot.epoch for snapshot in snapshots]
    early, epochs = early_beliefs(numbers, single)
    belief, margin = ledger.belief.numpy(force=True), ledger.margin.numpy(force=True)
    evidence = ranked = ledger.evidence.numpy(force=True)
    log_odds: Floats | None = None
    if held_out is not None and all_learnt_by_heart(evidence < 0, held_out):
        snapshots = [x for x in snapshots if x.epoch < max(held_out.epoch, 1)]
        evidence = ranked = evidence_of(snapshots)
    elif held_out is not None:
        # Labels learnt by heart would spoil the log odds, in which late epochs weigh most.
        log_odds = ledger.log_odds.numpy(force=True)
        ranked = _together(evidence, log_odds)
    rival = likeliest_rival(snapshots)
    classes = _num_classes(labels, rival)
    plateaus = [find_plateau(epoch, labels, classes)[0] for epoch in epochs]
    share = share_by_first_epochs(labels, early, plateaus, contradicted(single, labels), classes)
    if held_out is not None and len(single) == 1:
        share = share_by_one_epoch(share, single[0], labels, held_out)
    if held_out is not None and numbers[:2] == [0, 1]:
        believed = np.where(evidence < 0, rival, labels)
        believed[(rival == UNKNOWN) | np.isnan(evidence)] = UNKNOWN
        by_first, unseen = share, FirstEpoch.of(single[0], labels, held_out, classes)
        shape = None if log_odds is None else _shape(log_odds, labels, classes)

        def by_whole(weights: tuple[float, float]) -> WrongShare:
            whole = Beliefs(predicted=believed, confidence=sureness(numbers, single, *weights))
            return share_by_whole_training(
                labels, whole, unseen, plateaus[0], held_out, by_first, shape
            )

        weights = weights_of_epochs(len(labels), errors=1.0, lag=1.0)
        share = by_whole(weights)
        behind = contradicted(single[1:2], labels) - held_out.disagreement
        at_best = with_all(held_out, float((evidence < 0).mean()))
        for _ in range(_AT_MOST):  # what they should be is known only by the share
            errors = mistaken(at_best.excess(share.value), share.value, classes)
            better = weights_of_epochs(len(labels), errors, mistaken(behind, share.value, classes))
            if better == weights:
                break
            weights, share = better, by_whole(better)
    return _judged(
        labels,
        rival=rival,
        evidence=ranked,
        share=share,
        rival_share=_share(belief - margin, belief),
        abstention=ledger.abstention.numpy(force=True),
    )


def label_quality_from_probabilities(
    probabilities: npt.ArrayLike, given: npt.ArrayLike
) -> LabelQuality:
    """Scores from out-of-sample probabilities, say of a cross-validation.

    Args:
        probabilities: (N, m) of each class, by models that were not trained on the sample.
        given: (N,) given labels.

    >>> probabilities = [[0.9, 0.1]] * 60 + [[0.1, 0.9]] * 60
    >>> given = [0] * 60 + [1] * 50 + [0] * 10
    >>> quality = label_quality_from_probabilities(probabilities, given)
    >>> quality.worst_first()[:10].tolist() == list(range(110, 120))
    True
    """
    beliefs = np.asarray(probabilities)
    if beliefs.ndim != 2 or beliefs.shape[1] < 2 or not len(beliefs):
        raise AbstainError(f"probabilities must be (samples, classes), got shape {beliefs.shape}")
    if beliefs.dtype.kind not in "fiu":
        raise AbstainError(f"probabilities must be numbers, got {beliefs.dtype}")
    labels = checked_labels(given, len(beliefs), beliefs.shape[1])
    rows = len(beliefs)
    belief, rival_belief = np.empty(rows, np.float32), np.empty(rows, np.float32)
    rival, odds = np.empty(rows, np.int32), np.empty(rows, np.float32)
    for begin in range(0, rows, _ROWS_AT_ONCE):  # a copy of all would double the memory
        part = slice(begin, begin + _ROWS_AT_ONCE)
        _check_probabilities(beliefs[part])
        index = np.arange(len(labels[part]))
        others = beliefs[part].astype(np.float32)
        belief[part] = others[index, labels[part]]
        others[index, labels[part]] = -1
        rival[part] = others.argmax(1)
        rival_belief[part] = others[index, rival[part]]
        # Not the belief itself: many a model's rounds to 1, but not what it leaves to the others.
        others[index, labels[part]] = belief[part]
        top = others.argmax(1)
        most = others[index, top]
        others[index, top] = 0
        odds[part] = np.log((most + _TINY) / (others.sum(1) + _TINY))
    # Of equal beliefs the first: were it the label, beliefs that say nothing would confirm it.
    contrary = (rival_belief > belief) | ((rival_belief == belief) & (rival < labels))
    told = Beliefs(predicted=np.where(contrary, rival, labels), confidence=odds)
    return _judged(
        labels,
        rival=rival,
        evidence=np.log((belief + EVIDENCE_FLOOR) / (rival_belief + EVIDENCE_FLOOR)),
        share=share_out_of_sample(labels, told, beliefs.shape[1]),
        rival_share=_share(rival_belief, belief),
        abstention=np.full(rows, np.nan, np.float32),
    )


SUM_OFF_BY = 0.05
"""How far from 1 probabilities may sum up: those of naive Bayes in float32 are off by 0.01."""
_ROWS_AT_ONCE = 2**16
_TINY = np.finfo(np.float32).tiny
_AT_MOST = 3  # times that weights are mended: more hardly change them


def _judged(
    given: npt.NDArray[np.int32],
    *,
    rival: npt.NDArray[np.int32],
    evidence: Floats,
    share: WrongShare,
    rival_share: Floats,
    abstention: Floats,
) -> LabelQuality:
    noise = fit_noise_model(given, rival, evidence, share)
    wrong = noise.wrong_probability
    doubted = wrong > 0.5
    # What speaks for the rival against the other classes counts as evidence on the label does.
    rival_right: Floats = expit(SLOPE * logit(rival_share))
    confidence = np.where(doubted, wrong * rival_right, 1 - wrong)
    confidence[rival == UNKNOWN] = np.nan
    return LabelQuality(
        label_score=1 - wrong,
        predicted_label=np.where(doubted & (rival != UNKNOWN), rival, given).astype(np.int64),
        confidence=confidence,
        abstention=abstention,
        noise=noise,
    )


def _num_classes(*labels: npt.NDArray[np.int32]) -> int:
    return max(2, *(int(x.max()) + 1 for x in labels))


def _shape(
    log_odds: Floats, given: npt.NDArray[np.int32], classes: int
) -> TwoClasses | FadingErrors | None:
    if classes == 2:
        return TwoClasses.of(log_odds, given)
    if not are_few(len(given)):  # it would have no say
        return None
    seen = log_odds[~np.isnan(log_odds)]
    return FadingErrors.of(np.abs(seen), seen < 0, classes)


def _ascending(values: Floats) -> Labels:
    """What a stable argsort gives, in a third of its time: whole numbers of value and place."""
    bits = (values + np.float32(0)).view(np.int32)  # there is but one zero
    # Floats are in the order of their bits, but for the negative ones, which are in the reverse.
    keys = (bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))).astype(np.int64)
    keys <<= 32
    keys |= np.arange(len(values))
    keys.sort()
    keys &= 0xFFFFFFFF
    return keys


def _together(evidence: Floats, log_odds: Floats) -> Floats:
    """Evidence and log odds, of which each tells what the other does not where a model errs too.

    Log odds have no floor: they grow with the odds that a label is wrong, where evidence has come
    to its end. Their scale is that of the logits, which every network has its own of; here it is
    that of the evidence.
    """
    typical, own = (float(np.nanmedian(np.abs(x))) for x in (evidence, log_odds))
    scaled = log_odds * np.float32(typical / own if own else 0)
    together: Floats = (evidence + scaled) * np.float32(0.5)
    return together


def _share(rival_belief: Floats, belief: Floats) -> Floats:
    """Of the belief that is not in the given label, the rival's share."""
    with np.errstate(invalid="ignore", divide="ignore"):
        share: Floats = np.clip(rival_belief / (1 - belief), 0, 1)
    return share


def _check_probabilities(part: npt.NDArray[Any]) -> None:
    # "not all within" rather than "any outside", so that a NaN is refused too.
    within = (part >= 0) & (part <= 1 + SUM_OFF_BY)
    if not within.all():
        bad = part[~within][0]
        raise AbstainError(
            f"probabilities must lie in [0, 1], got {bad}; of logits, take the softmax"
        )
    sums = part.sum(1, dtype=np.float64)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > SUM_OFF_BY:
        raise AbstainError(
            f"rows of probabilities must sum to 1, got {sums[worst]:g}; if there is a column for "
            "every class, divide each row by its sum"
        )
