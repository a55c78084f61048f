"""Two classes: the shape of the evidence tells wrong labels from errors, of each class by itself.

Of two classes a model is as sure of a sample whichever of them is given: what it learnt of labels
may be asked how its errors fade (`fading_errors`), if it did not learn them by heart. Where labels
of one class alone are wrong, say positives that were overlooked, it is less sure of that class, and
wrong labels would pass for errors: so each class is asked by itself.
"""

from dataclasses import dataclass

import numpy as np

from abstain.scores.fading_errors import FadingErrors
from abstain.scores.held_out import HeldOut, mistaken
from abstain.scores.plateau import ROWS, Doubles, Floats, Integers, random_part
from abstain.scores.ramp import ramp

# All numbers were found on planted errors.
_VAGUE = (0.03, 0.06)  # standard errors of the share from which it is not quite, and not, heard
_SURELY = (1.0, 2.0)  # standard errors by which two shares may, and do, differ
_UNEVEN = (2.0, 4.0)  # and those of the two classes
# Errors on labels set aside that are no longer made on labels taught, as a part: from here on these
# may have been, and were, learnt by heart.
_LEARNT = (0.5, 0.8)
_IN_FAVOUR = 1.0  # standard errors: of few labels set aside, chance alone contradicts many
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


def _mean(labels: Integers) -> float:
    return float(labels.mean()) if len(labels) else 0.5
