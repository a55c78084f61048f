"""Two classes: the shape of the evidence tells wrong labels from errors, of each class by itself.

Of two classes a model is as sure of a sample whichever of them is given: what it learnt of labels
may be asked how its errors fade (`fading_errors`), if it did not learn them by heart. Where labels
of one class alone are wrong, say positives that were overlooked, it is less sure of that class, and
wrong labels would pass for errors: so each class is asked by itself.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from abstain.scores.doubts import STEEP, SURELY
from abstain.scores.fading_errors import FadingErrors
from abstain.scores.held_out import HeldOut, chance_of, mistaken
from abstain.scores.plateau import (
    ROWS,
    UNKNOWN,
    Beliefs,
    Doubles,
    Floats,
    Integers,
    random_part,
    within_classes,
)
from abstain.scores.ramp import ramp

# All numbers were found on planted errors.
_VAGUE = (0.03, 0.06)  # standard errors of the share from which it is not quite, and not, heard
_SURELY = (1.0, 2.0)  # standard errors by which two shares may, and do, differ
_UNEVEN = (3.0, 5.0)  # and those of the two classes
# Errors on labels set aside that are no longer made on labels taught, as a part: from here on these
# may have been, and were, learnt by heart.
_LEARNT = (0.5, 0.8)
_IN_FAVOUR = 1.0  # standard errors: of few labels set aside, chance alone contradicts many
# Of one class alone: standard errors by which its labels may be, and are, wrong more often than
# those of the other; the fewest samples, of its surer half, that tell; the largest share of it.
_OF_ONE, _FEWEST, _MOST = (2.0, 4.0), 20, 0.8
_OF_OTHER = (0.1, 0.3)  # labels of the other that may be, and are, wrong too, as a part of that
_LEAST_TOLD = 0.1  # by how much labels of the two classes differ, at least


@dataclass(frozen=True, kw_only=True)
class TwoClasses:
    """What the evidence on labels of two classes tells."""

    rate: float
    """Share of wrong labels."""
    error: float
    """Standard error of that, by chance alone."""
    errors: float
    """Share of samples whose class is mistaken."""
    by_class: tuple[float, float]
    """Share of wrong labels among samples of each class."""
    uneven: float
    """How far these differ, from 0 to 1."""

    @classmethod
    def of(cls, evidence: Floats, given: Integers) -> "TwoClasses":
        """Of the evidence for given labels.

        Args:
            evidence: (N,) for the given label against the other class: negative where the label is
                contradicted, NaN where the sample was not seen.
            given: (N,) given labels, 0 or 1.

        >>> random = np.random.default_rng(0)
        >>> true = np.arange(20_000) % 2
        >>> evidence = random.normal(1.5, 1, 20_000)  # of a model that errs on 7%
        >>> missed = (true == 1) & (random.random(20_000) < 0.3)
        >>> given, evidence = np.where(missed, 0, true), np.where(missed, -evidence, evidence)
        >>> told = TwoClasses.of(evidence.astype(np.float32), given.astype(np.int32))
        >>> [round(share, 1) for share in told.by_class], round(told.rate, 2)
        ([0.0, 0.3], 0.15)
        """
        part = random_part(~np.isnan(evidence), ROWS)
        seen, labels = evidence[part], given[part]
        believed = np.where(seen < 0, 1 - labels, labels)
        sides = [seen[believed == label] for label in (0, 1)]
        first, second = (FadingErrors.of(np.abs(x), x < 0, num_classes=2) for x in sides)
        # Not the share that is believed: where labels of a class alone are wrong, so are beliefs.
        told = max(1 - first.rate - second.rate, _LEAST_TOLD)
        share = min(max((_mean(labels) - first.rate) / told, 0.0), 1.0)
        apart = abs(second.rate - first.rate) / float(np.hypot(first.error, second.error))
        return cls(
            rate=(1 - share) * first.rate + share * second.rate,
            error=float(np.hypot((1 - share) * first.error, share * second.error)),
            errors=(1 - _mean(believed)) * first.errors + _mean(believed) * second.errors,
            by_class=(first.rate, second.rate),
            uneven=ramp(apart, _UNEVEN),
        )

    @property
    def told(self) -> float:
        """How far the evidence tells the share of wrong labels, from 0 to 1."""
        return 1 - ramp(self.error, _VAGUE)

    def surely_less_than(self, seen: float) -> float:
        """How far the share of wrong labels is less than was seen otherwise, from 0 to 1."""
        return ramp((seen - self.rate) / self.error, _SURELY)

    def unspoilt(self, held_out: HeldOut) -> float:
        """How far the model errs on labels that it was taught as often as on those set aside.

        If it does not, it learnt labels by heart, and wrong ones too.
        """
        excess = held_out.excess(self.rate, _IN_FAVOUR)
        aside = mistaken(excess, self.rate, num_classes=2)
        return 1 - ramp(1 - self.errors / max(aside, 1e-9), _LEARNT)

    def beside(self, seen: float, believed: float = 1.0) -> float:
        """A share that was `seen` otherwise, drawn to the lesser of the two if that is `believed`.

        And to this one if it is surely more, where labels of one class are wrong: of that class a
        model is less sure, and who looks at the surest samples sees others.
        """
        more = self.uneven * ramp((self.rate - seen) / self.error, _SURELY)
        return seen + believed * min(self.rate - seen, 0.0) + more * max(self.rate - seen, 0.0)

    def among(self, counts: Doubles) -> Doubles:
        """(2, 2) counts of predicted and given labels, with as many wrong ones as there are.

        If labels of both classes are wrong as often, the counts stay as they are.
        """
        told = self.told * self.uneven
        first, second = self.by_class
        shares = np.array([[1 - first, first], [second, 1 - second]])
        # As many of each: who is surest of one class has hardly any of the other.
        among: Doubles = (1 - told) * counts + told * counts.sum() / 2 * shares
        return among


@dataclass(frozen=True, kw_only=True)
class OneOfTwo:
    """Labels of one of two classes alone that are wrong, say positives that were overlooked."""

    rate: float
    """Share of wrong labels."""
    error: float
    """Standard error of that, by chance alone."""
    of_class: int
    """The class that they should have been."""
    share: float
    """Share of its samples that they are."""

    def among(self, counts: Doubles) -> Doubles:
        """(2, 2) counts of predicted and given labels, with these among them."""
        one = counts[self.of_class]
        if one[1 - self.of_class] >= self.share * one.sum():  # they are there
            return counts
        together = counts.copy()
        row = np.where(np.arange(2) == self.of_class, 1 - self.share, self.share)
        together[self.of_class] = counts.sum() / 2 * row
        return together

    @classmethod
    def of(cls, beliefs: Beliefs, given: Integers) -> "OneOfTwo":
        """Of what was believed, and how surely by a model that did not know the labels.

        Of such a class a model is less sure than of the other, and how its errors fade says little
        if the class is rare. But errors are the rarer the surer it is; wrong labels are as frequent
        among its surest as among the next, and the other class has none.

        Args:
            beliefs: What was believed.
            given: (N,) given labels, 0 or 1.

        >>> random = np.random.default_rng(0)
        >>> true = (random.random(8000) < 0.05).astype(np.int32)
        >>> given = np.where(random.random(8000) < 0.4, 0, true)  # of the rare ones, 40% are missed
        >>> sure = random.random(8000).astype(np.float32)
        >>> told = OneOfTwo.of(Beliefs(predicted=true, confidence=sure), given)
        >>> round(told.rate, 2), told.of_class, round(told.share, 1)
        (0.02, 1, 0.3)
        """
        part = random_part(beliefs.predicted != UNKNOWN, ROWS)
        seen = Beliefs(predicted=beliefs.predicted[part], confidence=beliefs.confidence[part])
        surer, labels = within_classes(seen).confidence, given[part]
        sides = []
        for label in (0, 1):
            half = (seen.predicted == label) & (surer > 0.5)
            sides.append((labels[half] != label)[np.argsort(-surer[half])])
        levels = [_mean(side) if len(side) >= _FEWEST else 0.0 for side in sides]
        label = int(levels[1] > levels[0])
        chances = [chance_of(x, max(len(side), 1)) for x, side in zip(levels, sides, strict=True)]
        apart = (levels[label] - levels[1 - label]) / float(np.hypot(chances[0], chances[1]))
        other = levels[1 - label] / max(levels[label], 1e-9)
        sure = ramp(apart, _OF_ONE) * (1 - ramp(other, _OF_OTHER)) * (1 - _steep(sides[label]))
        share = sure * min(levels[label] - levels[1 - label], _MOST)
        told = _mean(labels == label)
        return cls(
            rate=told * share / (1 - share),
            error=told * chances[label] / (1 - share) ** 2,
            of_class=label,
            share=share,
        )


def _steep(contrary: npt.NDArray[np.bool_]) -> float:
    """How far the less sure of a class are contradicted more often than its surest."""
    fifth = 2 * len(contrary) // 5
    if not fifth:
        return 1.0
    first, rest = contrary[:fifth], contrary[fifth:]
    level = _mean(contrary)
    error = np.sqrt(level * (1 - level) * (1 / len(first) + 1 / len(rest)))
    return ramp(_mean(rest) - _mean(first) - SURELY * float(error), STEEP)


def _mean(labels: Integers | npt.NDArray[np.bool_]) -> float:
    return float(labels.mean()) if len(labels) else 0.5
