"""How many labels are wrong: the share that one training run lets one read off.

Three ways, each by a `plateau`:

- `share_by_first_epochs`. In its first epochs a model has hardly learnt any single label by heart:
  its prediction and the given label are nearly independent given the true class.
- `share_by_whole_training`, where labels were set aside for the warm-up (`held_out`). What a robust
  training believed on the whole is right far more often than its first epochs were. Samples are
  ordered by how sure it was of them while it hardly knew their labels. What may mislead it are
  `doubts`: where labels were learnt by heart the first epochs are believed instead (of a fast
  learner the very first, `first_epoch`); errors of a weak model are counted off; where classes
  overlap, the share is what it comes to where the model is quite sure; and the interval is left
  open. Errors that even a good model keeps are counted off (`kept_errors`). Of more than two
  classes, wrong labels are told from errors by which classes are given for which
  (`beyond_mix_ups`); of two, by how errors fade (`two_classes`).
- `share_out_of_sample`, of beliefs that are no training's of ours. As no label had a part in them,
  errors are told from wrong labels by how they fade, however many classes there are
  (`fading_errors`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from abstain.scores import doubts
from abstain.scores.beyond_mix_ups import BeyondMixUps
from abstain.scores.fading_errors import FadingErrors
from abstain.scores.first_epoch import FirstEpoch
from abstain.scores.held_out import HeldOut, likely_excess, with_all
from abstain.scores.kept_errors import without_kept_errors
from abstain.scores.plateau import (
    LEAST_PART,
    LENIENT,
    ROWS,
    UNKNOWN,
    Beliefs,
    Doubles,
    Integers,
    Plateau,
    at_certainty,
    certainty_error,
    find_plateau,
    has_plateau,
    random_part,
    within_classes,
)
from abstain.scores.ramp import ramp
from abstain.scores.two_classes import OneOfTwo, TwoClasses

_Z = 1.959963984540054  # 95%
# What a plateau leaves out, as standard deviations: relative to the rate, and absolute; fitted on
# planted errors, and checked on others by bench/noise_rate.py. So are the other numbers here.
_RELATIVE_ERROR, _ABSOLUTE_ERROR = 0.08, 0.003
# However far the plateau reaches, its end is uncertain: some samples are always extrapolated to.
_LEAST_BEYOND = 0.25
_DOUBT_OF_SECOND = 0.8  # of what the model leaves out, for the end of the training
_POOR_COUNTS = 0.35  # how far counts are trusted that no plateau was found for
_FEWEST = 300  # of the very surest, who are so partly because of their labels, so many are needed
# Standard deviation of what a plateau of beliefs out of sample leaves out, as part of their errors.
_UNSEEN_ERRORS = 0.25
# The same of mix-ups of classes that are taken to be far apart, as a share of all labels; and
# standard errors by which more labels may be, and are, wrong for sure than was told otherwise.
_UNSEEN_MIX_UPS, _RAISED = 0.02, (0.0, 2.0)
_KEPT = 0.54  # part of a weak model's errors that its whole training keeps where it is surest
# Standard errors of a share told by how errors fade, of many classes, from which it is not quite,
# and not, heard: where classes overlap a plateau is further off than even a vague one.
_VAGUE = (0.1, 0.2)
# Of two classes, the part of a vague share that is heard: a model that hardly knows anything errs
# too, and that all labels which it contradicts are wrong is less likely still.
_DIMLY = 0.3
_KEPT_VARIES = 0.08  # its standard deviation
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


@dataclass(frozen=True, kw_only=True)
class WrongShare:
    """The share of wrong labels, and what it was seen on."""

    value: float
    low: float
    high: float
    """Ends of the 95% interval."""
    plateau: Plateau
    counts: Doubles
    """(m, m): on the plateau, how often class i was predicted and j given."""
    trust: float
    """How far the counts are of wrong labels rather than of errors of the model, from 0 to 1."""
    excess: float
    """Share of labels set aside that the model contradicts beyond wrong ones, as is likely."""
    shape: float
    """How far wrong labels were told from errors by the shape of the evidence, from 0 to 1."""
    anywhere: float = 1.0
    """Of wrong labels, the part that is of any class, however unlike; where it is not known, 1."""


def share_by_first_epochs(
    given: Integers,
    early: Beliefs,
    epochs: Sequence[Plateau],
    contradicted: float,
    num_classes: int,
) -> WrongShare:
    """Disagreement on the plateau of the first epochs.

    Where the early model is nowhere sure (there is no plateau), wrong labels cannot be told from
    its own errors; the interval then reaches from what is left when later epochs are extrapolated
    to certainty, to the share that contradicts the first ones.

    Args:
        given: (N,) given labels.
        early: Beliefs of the first epochs together.
        epochs: Plateaus of single ones, in order, to compare with.
        contradicted: Share of labels that the model contradicts in the end.
        num_classes: Number of classes m.
    """
    plateau, counts = find_plateau(early, given, num_classes)
    if has_plateau(epochs):
        value = _second_opinion(plateau, contradicted)
        half = half_width(value, plateau.samples, 1 - plateau.share)
        low, high, trust = value - half, value + half, 1.0
    else:
        # The first epochs know too little; the next ones more, and not yet too much.
        value = float(np.mean([epoch.disagreement for epoch in epochs[2:4] or epochs[-1:]]))
        half = half_width(value, epochs[0].samples, 1.0)
        # Errors of a poor model fade as it learns; a single look at it bounds nothing from below.
        ends = [max(0.0, 2 * float(x.curve[0]) - float(x.curve[1])) for x in epochs[2:]]
        low = min(value, min(ends, default=0.0) - half)
        high = max(value, plateau.disagreement + half)
        trust = _POOR_COUNTS
    return WrongShare(
        value=value,
        low=max(0.0, low),
        high=min(1.0, high),
        plateau=plateau,
        counts=counts,
        trust=trust,
        excess=0.0,
        shape=0.0,
    )


def share_by_one_epoch(
    share: WrongShare, beliefs: Beliefs, given: Integers, held_out: HeldOut
) -> WrongShare:
    """The share that a single epoch tells, as far as it may be told from the model's errors.

    Whoever trains so shortly may have a model that knows next to nothing, and whose surest guesses
    are contradicted by right labels too.

    Args:
        share: As read off it.
        beliefs: What was believed in it; no label had a part in that.
        given: (N,) given labels.
        held_out: Labels set aside.
    """
    m = len(share.counts)
    if m > 2:
        least = BeyondMixUps.of(beliefs, given, m).rate
    else:
        contrary = beliefs.predicted != given
        two = TwoClasses.of(np.where(contrary, -beliefs.confidence, beliefs.confidence), given)
        least = two.told * two.rate
    guess = max(doubts.guessing(beliefs, given), doubts.no_more_than_a_guess(given, held_out))
    least = (1 - guess) * min(least, share.value)
    weak = max(guess, doubts.weak_if(least, share.plateau, held_out, knew=False))
    return replace(
        share,
        value=share.value + weak * (least - share.value),
        low=(1 - weak) * share.low,
        trust=min(share.trust, 1 - weak),
    )


def share_by_whole_training(
    given: Integers,
    whole: Beliefs,
    unseen: FirstEpoch,
    first: Plateau,
    held_out: HeldOut,
    early: WrongShare,
    two: TwoClasses | None = None,
) -> WrongShare:
    """Disagreement on the plateau of all epochs together, checked by labels set aside.

    Args:
        given: (N,) given labels.
        whole: What was believed over the whole training, and how surely while labels were unknown.
        unseen: What the first epoch tells, which had not seen the labels.
        first: Plateau of the first epoch that knows anything.
        held_out: Labels set aside.
        early: The share as the first epochs have it.
        two: What the evidence tells; None of more than two classes, or where all labels were
            learnt by heart.
    """
    m = len(early.counts)
    plateau, counts, by_class = _read(given, whole, m, keeps_errors=True)
    known = whole.predicted != UNKNOWN
    contradicted = float((whole.predicted != given)[known].mean())
    seen, at_best = plateau.disagreement, with_all(held_out, contradicted)
    by_heart = doubts.learnt_by_heart(whole.predicted != given, first, held_out)
    raised = by_heart * max(0.0, first.disagreement - seen)
    knew = early.trust == 1
    weak = doubts.weakness(seen + raised, whole, given, first, held_out, knew=knew)
    beyond = BeyondMixUps.of(whole, given, m) if m > 2 else None
    if beyond is not None:
        if_weak = _beyond_errors(beyond, plateau, first, at_best, len(given))
        at_most = if_weak + beyond.error
        is_so = doubts.weak_if(at_most, first, at_best, knew=knew)
        weak = max(weak, _tells(beyond, plateau) * is_so)
    seen += (1 - weak) * raised

    half = float(np.hypot(half_width(seen, plateau.samples, 1 - plateau.share), _Z * _NEVER_MENDED))
    low = seen - held_out.errors(seen, doubts.SURELY) - half
    high = max(seen, by_class.disagreement) + half
    aside = held_out.disagreement + held_out.chance
    for before, told in ((first, 1.0), (unseen.plateau, unseen.heard)):
        if before.disagreement > seen:  # what was learnt by heart unseen
            high += told * max(0.0, min(before.disagreement + half, aside) - high)

    overlap, steep = doubts.overlap(by_class, plateau, len(given))
    sure = doubts.too_many(seen) * (1 - weak) * (1 - steep)
    guess = doubts.no_more_than_a_guess(given, held_out)
    sure *= 1 - guess
    doubt = max(weak, overlap)
    shape, anywhere = 0.0, 1.0
    if beyond is not None:
        value = (1 - doubt) * seen + doubt * min(if_weak, seen)
        anywhere = min(1.0, beyond.anywhere / max(value, 1e-9))
        counts = beyond.among(counts)
    else:
        value = _without_own_errors(seen, doubt, plateau, first, at_best)
    if two is not None:
        unspoilt = two.unspoilt(held_out)
        errs = max(doubt, unspoilt * two.surely_less_than(seen))
        value += max(two.told, _DIMLY) * (two.beside(seen, errs) - value)
        counts = two.among(counts)
        shape = doubt * two.told
        high = max(high, max(value, two.rate if two.told else 0.0) + _Z * two.error)
        high += two.told * two.uneven * (1 - unspoilt) * max(0.0, aside - high)
    value *= 1 - doubts.not_mended(max(seen, value), held_out)
    # But errors that are not mended yet are not of one class alone.
    if beyond is not None:
        value = max(value, beyond.alone)
    else:
        one = OneOfTwo.of(whole, given)
        uneven = 0.0 if two is None else two.told * two.uneven * two.rate
        value, high = max(value, one.rate, uneven), max(high, one.rate + _Z * one.error)
        counts = one.among(counts)
    value += (1 - guess) * (unseen.raised(value, contradicted) - value)
    return WrongShare(
        value=value,
        low=max(0.0, min(low * sure, value)),
        high=min(1.0, max(high, value + half)),
        plateau=plateau,
        counts=counts,
        trust=1 - doubt,
        # All labels tell more of that than the few set aside.
        excess=(1 - shape) * likely_excess(held_out, value, m),
        shape=shape,
        anywhere=anywhere,
    )


def _without_own_errors(
    seen: float, doubt: float, plateau: Plateau, first: Plateau, held_out: HeldOut
) -> float:
    """The share that is `seen`, without errors of the model, as far as that is in `doubt`.

    One that is still learning keeps a part of the errors that it makes on labels set aside. One
    that learnt at once what there is to learn hardly errs where it is quite sure.
    """
    learning = doubts.still_learning(plateau, first)
    weak = held_out.without_errors(seen, _KEPT * doubt)
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
    weak = held_out.without_errors(surest, _KEPT)
    left = learning * weak + (1 - learning) * min(certain, surest)
    off = learning * _KEPT_VARIES * held_out.excess(left) / (1 - _KEPT)
    off += (1 - learning) * certainty_error(plateau.curve, samples)
    more = max(0.0, left - beyond.rate)
    told = beyond.rate + more * ramp(more / float(np.hypot(off, beyond.error)), _MORE)
    return left + (1 - ramp(beyond.error, _FEW)) * (told - left)


def _tells(beyond: BeyondMixUps, plateau: Plateau) -> float:
    """How far it is known what mix-ups do not explain, or at least that it is not all."""
    less = (float(plateau.curve[1]) - beyond.rate) / beyond.error
    return max(1 - ramp(beyond.error, _FEW), ramp(less, _SURELY_LESS))


def share_out_of_sample(given: Integers, told: Beliefs, num_classes: int) -> WrongShare:
    """Disagreement on the plateau of beliefs that no label had a part in, of a cross-validation.

    None of them is learnt by heart, and all labels are set aside: their errors are bounded by how
    many are contradicted.

    Args:
        given: (N,) given labels.
        told: What was believed of each sample, and how surely, by models not trained on it.
        num_classes: Number of classes m.
    """
    plateau, counts, by_class = _read(given, told, num_classes, keeps_errors=False)
    accuracy = float((told.predicted == given).mean())
    held_out = HeldOut(epoch=0, accuracy=accuracy, rows=np.arange(len(given)))
    seen = plateau.disagreement
    errors = held_out.errors(seen)
    error = standard_error(seen, plateau.samples, 1 - plateau.share)
    half = _Z * float(np.hypot(error, _UNSEEN_ERRORS * errors))
    low, high = seen - errors - half, max(seen, by_class.disagreement) + half
    overlap, steep = doubts.overlap(by_class, plateau, len(given))
    guessing = doubts.guessing(told, given)
    sure = (1 - guessing) * (1 - steep) * (1 - doubts.no_more_than_a_guess(given, held_out))
    doubt = max(guessing, overlap)
    value = held_out.without_errors(seen, _KEPT * doubt)
    contrary = told.predicted != given
    anywhere = 1.0
    if num_classes == 2:
        two = TwoClasses.of(np.where(contrary, -told.confidence, told.confidence), given)
        shape, by_shape, error = two.told, two.beside(seen), two.error
        value += shape * (by_shape - value)
        one = OneOfTwo.of(told, given)
        value, high = max(value, one.rate), max(high, one.rate + _Z * one.error)
        counts = one.among(two.among(counts))
    else:
        fading = FadingErrors.of(told.confidence, contrary, num_classes)
        shape, error = fading.told(_VAGUE), fading.error
        value += shape * (min(fading.rate, seen) - value)
        beyond = BeyondMixUps.of(told, given, num_classes)
        off = float(np.linalg.norm([beyond.error, error, _UNSEEN_MIX_UPS]))
        more = max(0.0, beyond.rate - value)
        value = max(value + more * ramp(more / off, _RAISED), beyond.alone)
        anywhere = min(1.0, beyond.anywhere / max(value, 1e-9))
        counts = beyond.among(counts)
    return WrongShare(
        value=value,
        low=max(0.0, min(low * sure, value - shape * _Z * error)),
        high=min(1.0, max(high, value + half, value + shape * _Z * error)),
        plateau=plateau,
        counts=counts,
        trust=1 - doubt,
        excess=likely_excess(held_out, value, num_classes),
        shape=shape,
        anywhere=anywhere,
    )


def _read(
    given: Integers, whole: Beliefs, num_classes: int, *, keeps_errors: bool
) -> tuple[Plateau, Doubles, Plateau]:
    """Of the surest of all the plateau and the counts; and the plateau of each class's surest.

    Where a training `keeps_errors`, they are counted off, and the very surest are not alone asked:
    they may be so because of their labels.
    """
    least = max(_FEWEST / len(given), LEAST_PART) if keeps_errors else LEAST_PART
    plateau, counts = find_plateau(whole, given, num_classes, LENIENT, least)
    if keeps_errors:
        plateau, counts = without_kept_errors(plateau, counts, whole, given)
    part = random_part(whole.predicted != UNKNOWN, ROWS)
    seen = Beliefs(predicted=whole.predicted[part], confidence=whole.confidence[part])
    ranked = within_classes(seen)
    by_class, of_class = find_plateau(ranked, given[part], num_classes, LENIENT, least)
    if keeps_errors:
        by_class, _ = without_kept_errors(by_class, of_class, ranked, given[part])
    return plateau, counts, by_class


def _second_opinion(plateau: Plateau, contradicted: float) -> float:
    """The disagreement on the plateau, drawn to the share of labels contradicted in the end.

    That share counts every sample, but errors of the model too, and labels learnt by heart not: it
    may be far off. So it is heard only where it agrees, and by how sure each of the two is.
    """
    chance = standard_error(plateau.disagreement, plateau.samples, 1 - plateau.share)
    doubt = standard_error(contradicted, 10**9, 0.0) * _DOUBT_OF_SECOND
    if abs(contradicted - plateau.disagreement) > 2 * float(np.hypot(chance, doubt)):
        return plateau.disagreement
    weight = chance**2 / (chance**2 + doubt**2)
    return (1 - weight) * plateau.disagreement + weight * contradicted


def half_width(value: float, samples: int, beyond: float) -> float:
    """Half of the 95% interval of a share; see `standard_error`."""
    return _Z * standard_error(value, samples, beyond)


def standard_error(share: float, samples: int, beyond: float) -> float:
    """Of a share seen on some samples of a plateau, and extrapolated to the share `beyond` of all.

    To chance it adds what the model leaves out: labels learnt by heart even in the first epochs,
    errors of the early model that look like wrong labels.
    """
    samples = max(samples, 1)
    chance = max(share * (1 - share), 1 / samples) / samples * max(beyond, _LEAST_BEYOND)
    return float(np.sqrt(chance + (_RELATIVE_ERROR * share) ** 2 + _ABSOLUTE_ERROR**2))
