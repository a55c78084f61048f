"""How many labels are wrong: the share that one training run lets one read off.

Three ways, each by a `plateau`:

- `share_by_first_epochs`, here. In its first epochs a model has hardly learnt any single label by
  heart: its prediction and the given label are nearly independent given the true class.
- `whole_training`, where labels were set aside for the warm-up: what a robust training believed on
  the whole is right far more often than its first epochs were.
- `out_of_sample`, of beliefs that are no training's of ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from abstain.scores import doubts
from abstain.scores.beyond_mix_ups import BeyondMixUps
from abstain.scores.held_out import HeldOut
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
    find_plateau,
    has_plateau,
    random_part,
    within_classes,
)
from abstain.scores.two_classes import TwoClasses

Z = 1.959963984540054
"""Standard errors to either end of a 95% interval."""
KEPT = 0.54
"""Part of a weak model's errors that its whole training keeps where it is surest."""
# What a plateau leaves out, as standard deviations: relative to the rate, and absolute; fitted on
# planted errors, and checked on others by bench/noise_rate.py. So are the other numbers here.
_RELATIVE_ERROR, _ABSOLUTE_ERROR = 0.08, 0.003
# However far the plateau reaches, its end is uncertain: some samples are always extrapolated to.
_LEAST_BEYOND = 0.25
_DOUBT_OF_SECOND = 0.8  # of what the model leaves out, for the end of the training
_POOR_COUNTS = 0.35  # how far counts are trusted that no plateau was found for
_FEWEST = 300  # of the very surest, who are so partly because of their labels, so many are needed


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


def read(
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


def half_width(value: float, samples: int, beyond: float) -> float:
    """Half of the 95% interval of a share; see `standard_error`."""
    return Z * standard_error(value, samples, beyond)


def standard_error(share: float, samples: int, beyond: float) -> float:
    """Of a share seen on some samples of a plateau, and extrapolated to the share `beyond` of all.

    To chance it adds what the model leaves out: labels learnt by heart even in the first epochs,
    errors of the early model that look like wrong labels.
    """
    samples = max(samples, 1)
    chance = max(share * (1 - share), 1 / samples) / samples * max(beyond, _LEAST_BEYOND)
    return float(np.sqrt(chance + (_RELATIVE_ERROR * share) ** 2 + _ABSOLUTE_ERROR**2))
