"""What may mislead a whole training about wrong labels: each doubt as a number from 0 to 1.

Labels *learnt by heart* look right: samples that were trained on are contradicted less often than
those set aside. A *weak* model, one that errs on many right labels set aside, keeps part of these
errors to the end. Where samples do not tell their class, classes *overlap*: labels set aside do not
tell this from wrong labels, but the share that is contradicted then rises steeply even among the
surest, where wrong labels leave it level. And the few labels that a good model contradicts may all
be right, and *not mended yet*.

All numbers were fitted on planted errors, and checked on others by bench/noise_rate.py.
"""

import numpy as np
import numpy.typing as npt

from abstain.scores.fading_errors import FadingErrors
from abstain.scores.held_out import UNLIKE, HeldOut, gap_of
from abstain.scores.plateau import UNKNOWN, Beliefs, Integers, Plateau
from abstain.scores.ramp import ramp

SURELY = 0.5
"""Standard errors in favour of the model, when the interval is opened from below by its errors, and
when classes are said to overlap."""
# Standard errors between samples set aside and others from which labels may have been, and have
# been, learnt by heart.
_LEARNT = (1.0, 2.0)
# A rise as of `STEEP`, from which first epochs may have known, and knew, too little.
_ROSE = (0.09, 0.12)
# Share of right labels set aside that a model contradicts, and of labels that it no longer does,
# from which it may be, and is, called weak; unless its first epochs had a plateau, with fewer
# contradicted than of those set aside, by so many standard errors. By as many more, it is weak in
# any case: even its surest guesses told nothing.
_WEAK, _LEVEL = (0.15, 0.25), (1.0, 2.0)
# Standard errors in its favour before it is: of a hundred labels set aside, chance alone misses
# many.
_BEYOND_CHANCE = 1.0
# Labels contradicted, as a part of those that a guess would contradict: from here on the model may
# know, and knows, nothing.
_GUESS = (0.85, 0.95)
# Standard errors by which a model has to meet more labels set aside than the commonest class alone
# would: else all labels may be right, and the samples tell nothing of them.
_ABOVE_A_GUESS = (1.0, 3.0)
STEEP = (0.06, 0.09)
"""By how much more labels are contradicted between the surest fifth and the surest half than in the
surest fifth, where the classes may overlap, and do."""
# Unless chance explains it, and the plateau is this long: then only the interval is opened.
_LONG = (0.3, 0.6)
# Nor if it does not go on: by how much more labels are contradicted in the less sure half than in
# that rest of the surer one, as part of the rise, where it may, and does.
_GOES_ON = (0.3, 0.5)
# By how much more labels are contradicted by the surest of the first epochs than of all together,
# where the model may not, and had not, learnt at once what there is to learn.
_LEARNING = (0.055, 0.07)
_FIFTH, _HALF = 1, 4  # places in the curve of a plateau
# Of fewer samples a plateau may not, and does not, tell by its length where it ends.
_FEW = (1500, 3000)
# Standard errors by which labels are contradicted more often outside of the surest fifth, where
# that may be more than chance, and is; and by how much more than is explained they are where
# classes are mixed up, and where they may be.
_RISES, _MAY_RISE = (2.5, 4.0), (1.0, 2.5)
_MIXED_UP, _MAY_BE = (0.08, 0.14), (0.0, 0.05)
# Errors that fade, as a share of samples, and standard errors by which fewer labels are wrong than
# was seen otherwise, from which that may be, and is, because of these.
_ERRS, _LESS = (0.02, 0.05), (1.0, 2.0)
# Labels contradicted, as a part of those set aside that were: so few are mostly errors that the
# model has not mended yet, and from here on they are not. Nor are they if they are that many of
# all labels; if they are fewer, all may be such errors, and the interval begins at none.
_MENDED, _TOO_MANY = (0.4, 0.9), (0.03, 0.06)


def learnt_by_heart(contrary: npt.NDArray[np.bool_], first: Plateau, held_out: HeldOut) -> float:
    """How far labels were learnt by heart that the first epochs still contradicted.

    These are a way out only if they contradict fewer labels than are contradicted of those set
    aside: else they knew even less. Nor are they if even what they were surest of was contradicted
    the more the less sure they were: right labels of hard samples are learnt by heart too.
    """
    gap, chance = gap_of(contrary, held_out)
    knew = ramp(_below(first, held_out), (0.0, 1.0)) * (1 - ramp(_rise(first), _ROSE))
    return ramp(gap / chance, _LEARNT) * knew


def weakness(
    value: float, whole: Beliefs, given: Integers, first: Plateau, held_out: HeldOut, knew: bool
) -> float:
    """How far labels are contradicted by errors of the model, if `value` of them are wrong.

    Args:
        value: Share of wrong labels, as far as it is known.
        whole: What was believed.
        given: (N,) given labels.
        first: Plateau of the first epoch that knows anything.
        held_out: Labels set aside.
        knew: Whether the first epochs had a plateau.
    """
    errs = held_out.errors(value, _BEYOND_CHANCE) + max(0.0, first.disagreement - value)
    known = ramp(_below(first, held_out), _LEVEL) if knew else 0.0
    lag = (first.disagreement - held_out.disagreement) / float(np.hypot(held_out.chance, UNLIKE))
    return max(
        ramp(errs, _WEAK) * (1 - known),
        ramp(lag, _LEVEL),
        guessing(whole, given),
    )


def weak_if(value: float, first: Plateau, held_out: HeldOut, *, knew: bool) -> float:
    """How far a model is weak, if so few labels are wrong as there are if it is; likewise."""
    known = ramp(_below(first, held_out), _LEVEL) if knew else 0.0
    return ramp(held_out.errors(value, _BEYOND_CHANCE), _WEAK) * (1 - known)


def guessing(beliefs: Beliefs, given: Integers) -> float:
    """How far beliefs have nothing to do with the labels."""
    return ramp(_like_a_guess(beliefs.predicted, given), _GUESS)


def overlap(by_class: Plateau, plateau: Plateau, samples: int) -> tuple[float, float]:
    """How far samples do not tell their class; and how far they may not."""
    rise, error = rise_of(by_class, samples)
    rest = float(by_class.curve[_FIFTH]) + rise
    less_sure = 2 * float(by_class.curve[-1]) - float(by_class.curve[_HALF])
    goes_on = ramp((less_sure - rest) / max(rise, 1e-9), _GOES_ON)
    surely = ramp(rise - SURELY * error, STEEP) * (1 - ramp(plateau.share, _LONG))
    return goes_on * surely, goes_on * ramp(rise, STEEP)


def mixed_up(plateau: Plateau, samples: int, explained: float) -> tuple[float, float]:
    """How far labels of few samples are contradicted by mix-ups of more than two classes.

    And how far they may be. Of few samples a plateau cannot be short. But classes that overlap, as
    those of a scale do, are contradicted the more the less sure a model is; and classes that are
    far apart are not given for each other.

    Args:
        plateau: Of the surest of all samples.
        samples: How many there are.
        explained: Share of labels that are wrong at most, if they go anywhere or by habits.
    """
    share, fifth = float(plateau.curve[-1]), float(plateau.curve[_FIFTH])
    error = np.sqrt(max(share * (1 - share), 1 / samples) * (1 / 0.2 + 1 / 0.8) / samples)
    rise = ((share - 0.2 * fifth) / 0.8 - fifth) / float(error)
    more = plateau.disagreement - explained
    few = are_few(samples)
    surely = few * ramp(rise, _RISES) * ramp(more, _MIXED_UP)
    return surely, max(surely, few * ramp(rise, _MAY_RISE) * ramp(more, _MAY_BE))


def are_few(samples: int) -> float:
    """How far there are too few samples for a plateau to tell much.

    It cannot be short then; and in an epoch or two of few steps a model hardly learns what it may
    be sure of, so that its errors lie anywhere.
    """
    return 1 - ramp(samples, _FEW)


def errs_on_few(seen: float, fading: FadingErrors, samples: int) -> float:
    """How far labels of few samples are contradicted by errors, which fade the surer a model is.

    Args:
        seen: Share contradicted on the plateau.
        fading: What the evidence of the whole training tells.
        samples: How many there are.
    """
    less = (seen - fading.rate) / fading.error
    return are_few(samples) * ramp(fading.errors, _ERRS) * ramp(less, _LESS)


def still_learning(plateau: Plateau, first: Plateau) -> float:
    """How far what the first epochs were surest of was contradicted more often than in the end.

    Else the model learnt at once what there is to learn, and its errors are the samples'.
    """
    return ramp(first.disagreement - plateau.disagreement, _LEARNING)


def no_more_than_a_guess(given: Integers, held_out: HeldOut) -> float:
    """How far the model meets no more labels set aside than the commonest class alone would."""
    commonest = float(np.bincount(given).max()) / len(given)
    return 1 - ramp((held_out.accuracy - commonest) / held_out.chance, _ABOVE_A_GUESS)


def too_many(value: float) -> float:
    """How far so many labels are contradicted that not all can be right ones."""
    return ramp(value, _TOO_MANY)


def not_mended(value: float, held_out: HeldOut) -> float:
    """How far the labels that are contradicted are right ones."""
    part = value / max(held_out.disagreement, 1e-9)
    return 1 - max(ramp(part, _MENDED), too_many(value))


def rise_of(plateau: Plateau, samples: int) -> tuple[float, float]:
    """How much more labels are contradicted in the rest of the surest half than in its surest.

    The surest fifth of all; and the standard error of the difference.
    """
    half = float(plateau.curve[_HALF])
    error = np.sqrt(half * (1 - half) * (1 / 0.2 + 1 / 0.3) / max(samples, 1))
    return _rise(plateau), float(error)


def _rise(plateau: Plateau) -> float:
    fifth, half = float(plateau.curve[_FIFTH]), float(plateau.curve[_HALF])
    return (0.5 * half - 0.2 * fifth) / 0.3 - fifth


def _below(first: Plateau, held_out: HeldOut) -> float:
    """Standard errors by which the first epochs contradict fewer labels than are of those aside."""
    return (held_out.disagreement - first.disagreement) / held_out.chance


def _like_a_guess(predicted: Integers, given: Integers) -> float:
    """Labels contradicted, as a part of those that would be if beliefs had nothing to do with them.

    >>> _like_a_guess(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]))
    0.5
    """
    seen = predicted != UNKNOWN
    size = int(max(predicted.max(initial=0), given.max(initial=0))) + 1
    believed, told = (np.bincount(x[seen], minlength=size) for x in (predicted, given))
    count = max(int(seen.sum()), 1)
    guess = 1 - float(believed / count @ (told / count))
    return float((predicted != given)[seen].sum()) / count / max(guess, 1e-9)
