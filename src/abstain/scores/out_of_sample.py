"""The share of wrong labels that beliefs tell which no label had a part in, of a cross-validation.

Errors are told from wrong labels by how they fade, of any number of classes (`fading_errors`).
"""

import numpy as np

from abstain.scores import doubts
from abstain.scores.beyond_mix_ups import BeyondMixUps
from abstain.scores.fading_errors import FadingErrors
from abstain.scores.held_out import HeldOut, likely_excess
from abstain.scores.plateau import Beliefs, Integers
from abstain.scores.ramp import ramp
from abstain.scores.two_classes import OneOfTwo, TwoClasses
from abstain.scores.wrong_share import KEPT, WrongShare, Z, read, standard_error

# All numbers were found on planted errors.
# Standard deviation of what a plateau of such beliefs leaves out, as part of their errors.
_UNSEEN_ERRORS = 0.25
# The same of mix-ups of classes that are taken to be far apart, as a share of all labels; and
# standard errors by which more labels may be, and are, wrong for sure than was told otherwise.
_UNSEEN_MIX_UPS, _RAISED = 0.02, (0.0, 2.0)
# Standard errors of a share told by how errors fade, of many classes, from which it is not quite,
# and not, heard: where classes overlap a plateau is further off than even a vague one.
_VAGUE = (0.1, 0.2)


def share_out_of_sample(given: Integers, told: Beliefs, num_classes: int) -> WrongShare:
    """Disagreement on the plateau of beliefs that no label had a part in, of a cross-validation.

    None of them is learnt by heart, and all labels are set aside: their errors are bounded by how
    many are contradicted.

    Args:
        given: (N,) given labels.
        told: What was believed of each sample, and how surely, by models not trained on it.
        num_classes: Number of classes m.
    """
    plateau, counts, by_class = read(given, told, num_classes, keeps_errors=False)
    accuracy = float((told.predicted == given).mean())
    held_out = HeldOut(epoch=0, accuracy=accuracy, rows=np.arange(len(given)))
    seen = plateau.disagreement
    errors = held_out.errors(seen)
    error = standard_error(seen, plateau.samples, 1 - plateau.share)
    half = Z * float(np.hypot(error, _UNSEEN_ERRORS * errors))
    low, high = seen - errors - half, max(seen, by_class.disagreement) + half
    overlap, steep = doubts.overlap(by_class, plateau, len(given))
    guessing = doubts.guessing(told, given)
    sure = (1 - guessing) * (1 - steep) * (1 - doubts.no_more_than_a_guess(given, held_out))
    doubt = max(guessing, overlap)
    value = held_out.without_errors(seen, KEPT * doubt)
    contrary = told.predicted != given
    anywhere = 1.0
    if num_classes == 2:
        two = TwoClasses.of(np.where(contrary, -told.confidence, told.confidence), given)
        shape, by_shape, error = two.told, two.beside(seen), two.error
        value += shape * (by_shape - value)
        one = OneOfTwo.of(told, given)
        value, high = max(value, one.rate), max(high, one.rate + Z * one.error)
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
        low=max(0.0, min(low * sure, value - shape * Z * error)),
        high=min(1.0, max(high, value + half, value + shape * Z * error)),
        plateau=plateau,
        counts=counts,
        trust=1 - doubt,
        excess=likely_excess(held_out, value, num_classes),
        shape=shape,
        anywhere=anywhere,
    )
