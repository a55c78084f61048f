"""What the first epoch believed of each sample before it saw the label: nothing is learnt by heart.

A network on embeddings may know all of its labels after two epochs, and what it believes then says
nothing of them. Its first visit of a sample comes before the label of that sample has any part in
it. Mostly the first epoch knows too little; of a fast learner it is nearly as good as the best.
"""

from dataclasses import dataclass

import numpy as np

from abstain.scores.held_out import UNLIKE, HeldOut, mistaken
from abstain.scores.plateau import (
    LEAST_PART,
    LENIENT,
    Beliefs,
    Integers,
    Plateau,
    at_certainty,
    certainty_error,
    find_plateau,
)
from abstain.scores.ramp import ramp

# Share of samples of which it may mistake the class, and mistakes it too often to be believed,
# beyond those of which the model did where it was best; of one that is far behind, not even the
# interval hears. Found on planted errors, as all numbers here.
_BEHIND, _FAR_BEHIND = (0.1, 0.15), (0.15, 0.25)
# Share of samples whose class the model itself may mistake, and mistakes too often.
_ERRS_OFTEN = (0.3, 0.4)
# Standard errors from which what it comes to at certainty may be, and is, more than was read
# otherwise.
_SURELY_MORE = (2.0, 3.0)
# Standard errors by which all labels are contradicted less often than those set aside, from which
# some may have been, and were, learnt by heart; else the first epoch errs where the model does.
_GONE = (1.0, 2.0)


@dataclass(frozen=True, kw_only=True)
class FirstEpoch:
    """How often it contradicted labels, the surest first, and what it may be asked."""

    plateau: Plateau
    held_out: HeldOut
    samples: int
    num_classes: int

    @classmethod
    def of(
        cls, blind: Beliefs, given: Integers, held_out: HeldOut, num_classes: int
    ) -> "FirstEpoch":
        """The first epoch of a training.

        Args:
            blind: What was believed in it of each sample.
            given: (N,) given labels.
            held_out: Labels set aside.
            num_classes: Number of classes m.
        """
        plateau, _ = find_plateau(blind, given, num_classes, LENIENT, LEAST_PART)
        return cls(plateau=plateau, held_out=held_out, samples=len(given), num_classes=num_classes)

    @property
    def heard(self) -> float:
        """How far the interval hears of it, from 0 to 1."""
        return 1 - ramp(self._behind, _FAR_BEHIND)

    def raised(self, value: float, contradicted: float) -> float:
        """A share of wrong labels, raised to what this epoch comes to if that is surely more.

        Args:
            value: The share, as it was read off the whole training.
            contradicted: Share of all labels that the whole training contradicts.
        """
        certain = at_certainty(self.plateau.curve)
        excess = self.held_out.excess(certain)
        knew = 1 - ramp(self._behind, _BEHIND)
        knew *= 1 - ramp(mistaken(excess, certain, self.num_classes), _ERRS_OFTEN)
        fewer = self.held_out.disagreement - contradicted
        gone = ramp(fewer / float(np.hypot(self.held_out.chance, UNLIKE)), _GONE)
        chances = (certain - value) / certainty_error(self.plateau.curve, self.samples)
        surely = ramp(chances, _SURELY_MORE)
        return value + knew * gone * surely * max(0.0, certain - value)

    @property
    def _behind(self) -> float:
        """Share of samples whose class it mistook, less that of the model at its best."""
        more = float(self.plateau.curve[-1]) - self.held_out.disagreement
        return mistaken(more, at_certainty(self.plateau.curve), self.num_classes)
