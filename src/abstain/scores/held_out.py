"""Labels set aside for the warm-up, and what they tell of a training: what was learnt by heart."""

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from abstain.scores.ramp import ramp

# A difference that leaves no doubt, by two standard errors: all that can be was learnt by heart.
_ALL_LEARNT = 0.1
_APART = (2.0, 4.0)  # standard errors by which two shares may, and do, differ for a reason
_RARE = 0.05  # mean share of samples whose class is mistaken, before any label is seen
_LEAST_TOLD = 0.05  # where labels hardly tell of classes, neither do they of errors
UNLIKE = 0.02
"""What samples set aside and others differ by in any case, as they are not seen in quite the same
way: part of the standard error of a difference between them."""


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """What a model had learnt where it was best on labels set aside.

    >>> round(HeldOut(epoch=4, accuracy=0.72, rows=np.arange(10_000)).errors(rate=0.2), 2)
    0.1
    """

    epoch: int
    """Epochs it had trained for."""
    accuracy: float
    """Share of the labels set aside that it met."""
    rows: npt.NDArray[np.int64] = field(repr=False)
    """Which samples these were."""

    @property
    def disagreement(self) -> float:
        """Share of the labels set aside that it contradicted."""
        return 1 - self.accuracy

    @property
    def chance(self) -> float:
        """Standard error of both shares."""
        return chance_of(self.accuracy, len(self.rows))

    def errors(self, rate: float, chances: float = 0.0) -> float:
        """Share of right labels that it contradicts, if `rate` of all labels are wrong.

        With `chances`, what is left if it met by so many standard errors too few of them. That it
        meets wrong labels too, where it errs, is left out; `mistaken` counts them.
        """
        return min(self.excess(rate, chances) / max(1 - rate, 1e-9), 1.0)

    def excess(self, rate: float, chances: float = 0.0) -> float:
        """Share of labels that it contradicts beyond wrong ones, if `rate` of all are; likewise."""
        return max(0.0, self.disagreement - chances * self.chance - rate)

    def without_errors(self, contradicted: float, kept: float) -> float:
        """Share of wrong labels, if so many are contradicted, and of right labels too.

        Of these, the part `kept` of those that it contradicted of the labels set aside.
        """
        # contradicted = r + kept · (1 − r) · errors(r), solved for r.
        return max(0.0, (contradicted - kept * self.disagreement) / (1 - kept))


def with_all(held_out: HeldOut, contradicted: float) -> HeldOut:
    """The same, if of all labels so many are contradicted: fewer chances, where these agree.

    Each counts by how sure it is. Where all labels are contradicted far less often than those set
    aside they were learnt by heart, and have no say.
    """
    own = held_out.disagreement
    apart = (own - contradicted) / float(np.hypot(held_out.chance, UNLIKE))
    weight = held_out.chance**2 / (held_out.chance**2 + UNLIKE**2)
    weight *= 1 - ramp(apart, _APART)
    return replace(held_out, accuracy=1 - own - weight * (contradicted - own))


def mistaken(excess: float, rate: float, num_classes: int) -> float:
    """Share of samples whose class a model mistakes, that contradicts so many labels in excess.

    It contradicts wrong labels, but for those of just the class that it mistakes a sample for, and
    right labels where it errs: rate · (1 − errors / (m − 1)) + (1 − rate) · errors.

    Args:
        excess: Share of labels that it contradicts, less that of wrong ones.
        rate: Share of wrong labels.
        num_classes: Number of classes m.

    >>> round(mistaken(0.06, rate=0.2, num_classes=2), 2)
    0.1
    """
    return min(max(0.0, excess) / _told(rate, num_classes), 1.0)


def likely_excess(held_out: HeldOut, rate: float, num_classes: int) -> float:
    """The excess of labels contradicted on average, if errors are rare: by chance there are more.

    If before any label is seen the share of samples mistaken falls off exponentially, then of one
    that is measured with a standard error σ, σ² over the mean of that is to be taken off.
    """
    error = held_out.chance / _told(rate, num_classes)
    return held_out.excess(rate, chances=error / _RARE)


def _told(rate: float, num_classes: int) -> float:
    """By how much more labels tell of a class than the others do."""
    return max(1 - rate - rate / (num_classes - 1), _LEAST_TOLD)


def all_learnt_by_heart(contrary: npt.NDArray[np.bool_], held_out: HeldOut) -> bool:
    """Whether the end of a training can tell nothing: it contradicts hardly a label it was taught.

    Args:
        contrary: (N,) which labels are contradicted.
        held_out: Labels set aside.
    """
    gap, chance = gap_of(contrary, held_out)
    return gap - 2 * chance > _ALL_LEARNT


def gap_of(contrary: npt.NDArray[np.bool_], held_out: HeldOut) -> tuple[float, float]:
    """By how much more labels set aside are contradicted than others, and its standard error."""
    aside = np.zeros(len(contrary), dtype=bool)
    aside[held_out.rows] = True
    if aside.all():
        return 0.0, 1.0
    spared, taught = float(contrary[aside].mean()), float(contrary[~aside].mean())
    return spared - taught, float(np.hypot(chance_of(spared, len(held_out.rows)), UNLIKE))


def chance_of(share: float, samples: int) -> float:
    """Standard error of a share, as if one more had been met and one missed."""
    share = (share * samples + 1) / (samples + 2)
    return float(np.sqrt(share * (1 - share) / samples))
