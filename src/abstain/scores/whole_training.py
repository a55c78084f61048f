"""The share of wrong labels that a whole training tells, checked by labels set aside.

Samples are ordered by how sure the model was of them while it hardly knew their labels. What may
mislead it are `doubts`: where labels were learnt by heart the first epochs are believed instead (of
a fast learner the very first, `first_epoch`); errors of a weak model are counted off; where classes
overlap, the share is what it comes to where the model is quite sure; and the interval is left open.
Errors that even a good model keeps are counted off (`kept_errors`). Of more than two classes, wrong
labels are told from errors by which classes are given for which (`beyond_mix_ups`); of two, by how
errors fade (`two_classes`).
"""

from dataclasses import dataclass

import numpy as np

from abstain.scores import doubts
from abstain.scores.beyond_mix_ups import BeyondMixUps
from abstain.scores.fading_errors import FadingErrors
from abstain.scores.first_epoch import FirstEpoch
from abstain.scores.held_out import HeldOut, likely_excess, with_all
from abstain.scores.plateau import (
    UNKNOWN,
    Beliefs,
    Doubles,
    Integers,
    Plateau,
    at_certainty,
    certainty_error,
)
from abstain.scores.ramp import ramp
from abstain.scores.two_classes import OneOfTwo, TwoClasses
from abstain.scores.wrong_share import KEPT, WrongShare, Z, half_width, read

# All numbers were found on planted errors, and checked on others by bench/noise_rate.py.
# Of two classes, the part of a vague share that is heard: a model that hardly knows anything errs
# too, and that all labels which it contradicts are wrong is less likely still.
_DIMLY = 0.3
_KEPT_VARIES = 0.08  # the standard deviation of `KEPT`
# Part of the errors that a model may keep even where it is quite sure, and which says that it is
# weak; if of the labels contradicted there, this part may be, and is, told by unlike classes.
_KEPT_CERTAIN, _MOSTLY = (0.4, 0.55), (0.4, 0.6)
# Standard errors by which more labels may be, and are, wrong than mix-ups do not explain; and
# standard errors of the latter from which they are not quite, and not, heard.
_MORE, _FEW = (0.0, 3.0), (0.05, 0.1)
_SURELY_LESS = (2.0, 4.0)  # standard errors by which they may be, and are, fewer than contradicted
# Right labels that a training may contradict to its end, as a standard deviation: up to 1.6% on
# clean sets.
_NEVER_MENDED = 0.006


def share_by_whole_training(
    given: Integers,
    whole: Beliefs,
    unseen: FirstEpoch,
    first: Plateau,
    held_out: HeldOut,
    early: WrongShare,
    shape: TwoClasses | FadingErrors | None = None,
) -> WrongShare:
    """Disagreement on the plateau of all epochs together, checked by labels set aside.

    Args:
        given: (N,) given labels.
        whole: What was believed over the whole training, and how surely while labels were unknown.
        unseen: What the first epoch tells, which had not seen the labels.
        first: Plateau of the first epoch that knows anything.
        held_out: Labels set aside.
        early: The share as the first epochs have it.
        shape: What the evidence tells, of two classes, or of few samples of more; None where all
            labels were learnt by heart.
    """
    m = len(early.counts)
    plateau, counts, by_class = read(given, whole, m, keeps_errors=True)
    known = whole.predicted != UNKNOWN
    contradicted = float((whole.predicted != given)[known].mean())
    seen, at_best = plateau.disagreement, with_all(held_out, contradicted)
    by_heart = doubts.learnt_by_heart(whole.predicted != given, first, held_out)
    raised = by_heart * max(0.0, first.disagreement - seen)
    knew = early.trust == 1
    weak = doubts.weakness(seen + raised, whole, given, first, held_out, knew=knew)
    beyond, if_weak = None, 0.0
    if m > 2:
        beyond = BeyondMixUps.of(whole, given, m)
        if_weak = _beyond_errors(beyond, plateau, first, at_best, len(given))
        is_so = doubts.weak_if(if_weak + beyond.error, first, at_best, knew=knew)
        weak = max(weak, _tells(beyond, plateau) * is_so)
    seen += (1 - weak) * raised

    half = float(np.hypot(half_width(seen, plateau.samples, 1 - plateau.share), Z * _NEVER_MENDED))
    low = seen - held_out.errors(seen, doubts.SURELY) - half
    high = max(seen, by_class.disagreement) + half
    aside = held_out.disagreement + held_out.chance
    for before, told in ((first, 1.0), (unseen.plateau, unseen.heard)):
        if before.disagreement > seen:  # what was learnt by heart unseen
            high += told * max(0.0, min(before.disagreement + half, aside) - high)

    overlap, steep = doubts.overlap(by_class, plateau, len(given))
    if beyond is not None:
        explained = beyond.at_most + beyond.by_habit
        mixed_up, maybe = doubts.mixed_up(plateau, len(given), explained)
        overlap, steep = max(overlap, mixed_up), max(steep, maybe)
    guess = doubts.no_more_than_a_guess(given, held_out)
    sure = doubts.too_many(seen) * (1 - weak) * (1 - steep) * (1 - guess)
    doubt = max(weak, overlap)
    if shape is not None:
        low += doubts.are_few(len(given)) * min(shape.rate - Z * shape.error - low, 0.0)
    if beyond is not None:
        value = (1 - doubt) * seen + doubt * min(if_weak, seen)
        if isinstance(shape, FadingErrors):
            errs = doubts.errs_on_few(seen, shape, len(given))
            value += errs * min(max(shape.rate, beyond.rate) - value, 0.0)
            doubt, sure = max(doubt, errs), sure * (1 - errs)
        share = _of_many(_Share(value=value, high=high, counts=counts), beyond, seen, held_out)
    else:
        value = _without_own_errors(seen, doubt, plateau, first, at_best)
        share = _Share(value=value, high=high, counts=counts)
        one = OneOfTwo.of(whole, given)
        two = shape if isinstance(shape, TwoClasses) else None
        share = _of_two(share, two, one, seen, doubt, held_out)
    value = share.value
    value += (1 - guess) * (unseen.raised(value, contradicted) - value)
    return WrongShare(
        value=value,
        low=max(0.0, min(low * sure, value)),
        high=min(1.0, max(share.high, value + half)),
        plateau=plateau,
        counts=share.counts,
        trust=1 - doubt,
        # All labels tell more of that than the few set aside.
        excess=(1 - share.shape) * likely_excess(held_out, value, m),
        shape=share.shape,
        anywhere=share.anywhere,
    )


@dataclass(frozen=True, kw_only=True)
class _Share:
    """What is known of a `WrongShare` on the way to it; the fields are those of that."""

    value: float
    high: float
    counts: Doubles
    shape: float = 0.0
    anywhere: float = 1.0


def _of_many(share: _Share, beyond: BeyondMixUps, seen: float, held_out: HeldOut) -> _Share:
    """The share of wrong labels of more than two classes, by which of them are given for which.

    Args:
        share: What is left of it without errors of a weak model.
        beyond: Wrong labels that mix-ups do not explain.
        seen: Share contradicted on the plateau.
        held_out: Labels set aside.
    """
    mended = 1 - doubts.not_mended(max(seen, share.value), held_out)
    return _Share(
        # But errors that are not mended yet are not of one class alone.
        value=max(share.value * mended, beyond.alone),
        high=share.high,
        counts=beyond.among(share.counts),
        anywhere=min(1.0, beyond.anywhere / max(share.value, 1e-9)),
    )


def _of_two(
    share: _Share,
    two: TwoClasses | None,
    one: OneOfTwo,
    seen: float,
    doubt: float,
    held_out: HeldOut,
) -> _Share:
    """The share of wrong labels of two classes, by how errors fade.

    Args:
        share: What is left of it without errors of a weak model.
        two: What the evidence tells, if labels were not all learnt by heart.
        one: Wrong labels of one class alone.
        seen: Share contradicted on the plateau.
        doubt: How far errors of the model are in that.
        held_out: Labels set aside.
    """
    value, high, counts, shape, uneven = share.value, share.high, share.counts, 0.0, 0.0
    if two is not None:
        unspoilt = two.unspoilt(held_out)
        errs = max(doubt, unspoilt * two.surely_less_than(seen))
        value += max(two.told, _DIMLY) * (two.beside(seen, errs) - value)
        counts = two.among(counts)
        shape = doubt * two.told
        uneven = two.told * two.uneven
        high = max(high, max(value, two.rate if two.told else 0.0) + Z * two.error)
        aside = held_out.disagreement + held_out.chance
        high += uneven * (1 - unspoilt) * max(0.0, aside - high)
        uneven *= two.rate
    value *= 1 - doubts.not_mended(max(seen, value), held_out)
    return _Share(
        # But errors that are not mended yet are not of one class alone.
        value=max(value, one.rate, uneven),
        high=max(high, one.rate + Z * one.error),
        counts=one.among(counts),
        shape=shape,
    )


def _without_own_errors(
    seen: float, doubt: float, plateau: Plateau, first: Plateau, held_out: HeldOut
) -> float:
    """The share that is `seen`, without errors of the model, as far as that is in `doubt`.

    One that is still learning keeps a part of the errors that it makes on labels set aside. One
    that learnt at once what there is to learn hardly errs where it is quite sure.
    """
    learning = doubts.still_learning(plateau, first)
    weak = held_out.without_errors(seen, KEPT * doubt)
    overlapping = (1 - doubt) * seen + doubt * min(at_certainty(plateau.curve), seen)
    return learning * weak + (1 - learning) * overlapping


def _beyond_errors(
    beyond: BeyondMixUps,
    plateau: Plateau,
    first: Plateau,
    held_out: HeldOut,
    samples: int,
) -> float:
    """The share of wrong labels if the model is weak, of more than two classes.

    Those that mix-ups do not explain are wrong in any case. What else is left without the model's
    errors is heard as far as it is more than the two may be off.
    """
    surest, certain = float(plateau.curve[1]), at_certainty(plateau.curve)
    # Errors that even the surest keep, if no more labels are wrong than mix-ups do not explain.
    kept = (certain - beyond.rate) / max(float(plateau.curve[-1]) - beyond.rate, 1e-9)
    kept_by_weak = ramp(kept, _KEPT_CERTAIN) * ramp(beyond.anywhere / max(certain, 1e-9), _MOSTLY)
    learning = max(doubts.still_learning(plateau, first), kept_by_weak)
    weak = held_out.without_errors(surest, KEPT)
    left = learning * weak + (1 - learning) * min(certain, surest)
    off = learning * _KEPT_VARIES * held_out.excess(left) / (1 - KEPT)
    off += (1 - learning) * certainty_error(plateau.curve, samples)
    more = max(0.0, left - beyond.rate)
    told = beyond.rate + more * ramp(more / float(np.hypot(off, beyond.error)), _MORE)
    return left + (1 - ramp(beyond.error, _FEW)) * (told - left)


def _tells(beyond: BeyondMixUps, plateau: Plateau) -> float:
    """How far it is known what mix-ups do not explain, or at least that it is not all."""
    less = (float(plateau.curve[1]) - beyond.rate) / beyond.error
    return max(1 - ramp(beyond.error, _FEW), ramp(less, _SURELY_LESS))
