"""Wrong labels told from errors by the shape of the evidence: of two classes it is nearly normal.

Wrong labels are contradicted as often where a model is sure as where it is not; its own errors fade
the surer it is. With two classes it is as sure of a sample whichever of them is given, and if the
evidence for either is normal, the log odds of a prediction are proportional to it: how errors fade
is a curve with one number to find. The share of wrong labels is what is left of the labels that are
contradicted where that curve has come down, even if no sample is that sure.

Only the order of the evidence counts, not its scale.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import expit, ndtr

from abstain.scores.held_out import HeldOut, mistaken
from abstain.scores.plateau import ROWS, Doubles, Floats, Integers, random_part
from abstain.scores.ramp import ramp

_PARTS = 50  # into which samples are divided, by how much evidence there is of their class
_STEP = 0.002
_RATES = np.arange(0, 0.491, _STEP)  # that are tried; from 0.5 on, labels tell nothing
_LOG_ODDS = np.geomspace(0.01, 60, 120)  # means that are tried, from a guess to hardly an error
_FINE = 2_000  # points of a distribution
# Part of errors that is made however sure the model is. It was found on planted errors; some labels
# are wrong before any are planted.
_NEVER_FADE = 0.06
# Standard errors of the share from which it is not quite, and not, believed.
_VAGUE = (0.03, 0.06)
_SURELY = (1.0, 2.0)  # standard errors by which it may be, and is, less than was seen otherwise
# Standard errors by which the shares of wrong labels of two classes may, and do, differ.
_UNEVEN = (3.0, 5.0)
# Errors on labels set aside that are no longer made on labels taught, as a part: from here on these
# may have been, and were, learnt by heart.
_LEARNT = (0.5, 0.8)
_LEAST_TOLD = 0.1  # by how much labels of the two classes differ, at least
_IN_FAVOUR = 1.0  # standard errors: of few labels set aside, chance alone contradicts many


@dataclass(frozen=True, kw_only=True)
class NormalEvidence:
    """What explains best which labels of two classes are contradicted."""

    rate: float
    """Share of wrong labels."""
    error: float
    """Standard error of that, by chance alone; where evidence tells nothing, it is large."""
    errors: float
    """Share of samples whose class is mistaken."""
    by_class: tuple[float, float]
    """Share of wrong labels among samples of each class."""
    uneven: float
    """How far these differ, from 0 to 1."""

    @classmethod
    def of(cls, evidence: Floats, given: Integers) -> "NormalEvidence":
        """Of the evidence for given labels, of each class that it speaks for by itself.

        All shares, and all orders of magnitude of log odds, are alike before any label is seen;
        what is told are means after all were.

        Args:
            evidence: (N,) for the given label against the other class: negative where the label is
                contradicted, NaN where the sample was not seen.
            given: (N,) given labels, 0 or 1.

        >>> random = np.random.default_rng(0)
        >>> true = np.arange(20_000, dtype=np.int32) % 2
        >>> evidence = random.normal(1, 1, 20_000)  # of a model that errs on 16%
        >>> wrong = random.random(20_000) < 0.2
        >>> given, evidence = np.where(wrong, 1 - true, true), np.where(wrong, -evidence, evidence)
        >>> told = NormalEvidence.of(evidence.astype(np.float32), given)
        >>> round(told.rate, 2), round(told.error, 2), round(told.errors, 2)
        (0.2, 0.01, 0.16)
        """
        part = random_part(~np.isnan(evidence), ROWS)
        seen, labels = evidence[part], given[part]
        believed = np.where(seen < 0, 1 - labels, labels)
        sides = [_of_one_class(seen[believed == label]) for label in (0, 1)]
        (of_0, error_0, errors_0), (of_1, error_1, errors_1) = sides
        # Not the share that is believed: where labels of a class alone are wrong, so are beliefs.
        given_1 = float(labels.mean()) if len(labels) else 0.5
        true_1 = min(max((given_1 - of_0) / max(1 - of_0 - of_1, _LEAST_TOLD), 0.0), 1.0)
        believed_1 = float(believed.mean()) if len(labels) else 0.5
        return cls(
            rate=(1 - true_1) * of_0 + true_1 * of_1,
            error=float(np.hypot((1 - true_1) * error_0, true_1 * error_1)),
            errors=(1 - believed_1) * errors_0 + believed_1 * errors_1,
            by_class=(of_0, of_1),
            uneven=ramp(abs(of_1 - of_0) / float(np.hypot(error_0, error_1)), _UNEVEN),
        )

    @property
    def told(self) -> float:
        """How far the evidence tells the share of wrong labels, from 0 to 1."""
        return 1 - ramp(self.error, _VAGUE)

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
        of_0, of_1 = self.by_class
        shares = np.array([[1 - of_0, of_0], [of_1, 1 - of_1]])
        among: Doubles = (1 - told) * counts + told * counts.sum(1, keepdims=True) * shares
        return among

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


def _of_one_class(evidence: Floats) -> tuple[float, float, float]:
    """Share of wrong labels, its standard error, and share of errors where one class is believed.

    Where the model cannot tell at all, half of the labels contradict it: whatever part of them is
    wrong, that is where it draws the line.
    """
    # Equal ones in random order: as they stand, data are often sorted by label.
    order = np.lexsort((np.random.default_rng(0).random(len(evidence)), np.abs(evidence)))
    part = np.arange(len(evidence)) * _PARTS // max(len(evidence), 1)
    contrary = np.bincount(part, evidence[order] < 0, _PARTS)
    agreed = np.bincount(part, minlength=_PARTS) - contrary
    rates, curves = _RATES[:, None, None], _fading_errors()
    expected = rates + (1 - 2 * rates) * curves
    likelihood = np.log(expected) @ contrary + np.log1p(-expected) @ agreed
    chances = np.exp(likelihood - likelihood.max())
    chances /= chances.sum()
    rate = float(chances.sum(1) @ _RATES)
    error = float(np.sqrt(chances.sum(1) @ np.square(_RATES - rate) + _STEP**2))
    return rate, error, float(chances.sum(0) @ curves.mean(1))


@lru_cache(maxsize=1)
def _fading_errors() -> Doubles:
    """[i, j]: share of errors in part j, from the least sure, if the mean of log odds is the ith.

    Log odds that are normal, and true, have a variance of twice their mean.
    """
    middles = (np.arange(_PARTS) + 0.5) / _PARTS
    curves = np.empty((len(_LOG_ODDS), _PARTS))
    for curve, mean in zip(curves, _LOG_ODDS, strict=True):
        spread = np.sqrt(2 * mean)
        odds = np.linspace(0, mean + 6 * spread, _FINE)
        below = ndtr((odds - mean) / spread) - ndtr((-odds - mean) / spread)
        curve[:] = expit(-np.interp(middles, below, odds))
    never: Doubles = _NEVER_FADE * curves.mean(1, keepdims=True)
    return (1 - _NEVER_FADE) * curves + never
