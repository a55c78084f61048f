"""Wrong labels told from errors by how errors fade the surer a model is.

Wrong labels are contradicted as often where a model is sure as where it is not; its own errors
fade. If its evidence is normal, the log odds of a prediction are proportional to it: how errors
fade is a curve with one number to find. The share of wrong labels is what is left of the labels
that are contradicted where that curve has come down, even if no sample is that sure. Only the order
of the evidence counts, not its scale.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import expit, ndtr

from abstain.scores.plateau import ROWS, Doubles, Floats, random_part
from abstain.scores.ramp import ramp

_PARTS = 50  # into which samples are divided, from the least sure
# What is tried: shares of wrong labels, as parts of what leaves labels nothing to tell; means of
# log odds, from a guess to hardly an error; shares of errors where a model cannot tell at all.
_RATES = np.linspace(0, 0.98, 246)
_LOG_ODDS = np.geomspace(0.01, 60, 60)
_AT_A_LOSS = np.arange(0.5, 1, 0.05)
_FINE = 2_000  # points of a distribution
# Part of errors that is made however sure the model is: found on planted errors. Some labels are
# wrong before any are planted.
_NEVER_FADE = 0.06


@dataclass(frozen=True, kw_only=True)
class FadingErrors:
    """What explains best which labels are contradicted."""

    rate: float
    """Share of wrong labels."""
    error: float
    """Standard error of that, by chance alone; where sureness tells nothing, it is large."""
    errors: float
    """Share of samples whose class is mistaken."""

    @classmethod
    def of(
        cls, sureness: Floats, contrary: npt.NDArray[np.bool_], num_classes: int
    ) -> "FadingErrors":
        """Of how sure a model is of samples, and which of them have labels that contradict it.

        All shares, and all orders of magnitude of log odds, are alike before any label is seen;
        what is told are means after all were. Where it cannot tell at all, a model errs on half of
        the samples of two classes; of more, on so many as explains the rest best.

        Args:
            sureness: (N,) on any scale: whether labels agree must have no part in it.
            contrary: (N,) which labels contradict it.
            num_classes: Number of classes m.

        >>> random = np.random.default_rng(0)
        >>> evidence = random.normal(1, 1, 20_000).astype(np.float32)  # a model that errs on 16%
        >>> evidence[random.random(20_000) < 0.2] *= -1  # and labels, of which 20% are wrong
        >>> told = FadingErrors.of(np.abs(evidence), evidence < 0, num_classes=2)
        >>> round(told.rate, 2), round(told.error, 2), round(told.errors, 2)
        (0.2, 0.01, 0.16)
        """
        part = random_part(np.ones(len(sureness), dtype=bool), ROWS)
        # Equal ones in random order: as they stand, data are often sorted by label.
        order = np.lexsort((np.random.default_rng(0).random(len(part)), sureness[part]))
        place = np.arange(len(part)) * _PARTS // max(len(part), 1)
        against = np.bincount(place, contrary[part][order], _PARTS)
        agreed = np.bincount(place, minlength=_PARTS) - against
        most = 1 - 1 / num_classes
        rates, at_a_loss = _RATES * most, _AT_A_LOSS[most + 1e-9 > _AT_A_LOSS]
        likelihood = np.empty((len(at_a_loss), len(rates), len(_LOG_ODDS)))
        for one, lost in zip(likelihood, at_a_loss, strict=True):
            # A wrong label is contradicted unless it is just the class that is mistaken for it.
            expected = rates[:, None, None] + (1 - _RATES[:, None, None]) * 2 * lost * _fading()
            one[:] = np.log(expected) @ against + np.log1p(-expected) @ agreed
        chances = np.exp(likelihood - likelihood.max())
        chances /= chances.sum()
        rate = float(chances.sum((0, 2)) @ rates)
        spread = chances.sum((0, 2)) @ np.square(rates - rate) + np.square(rates[1])
        errors = 2 * at_a_loss @ chances.sum(1) @ _fading().mean(1)
        return cls(rate=rate, error=float(np.sqrt(spread)), errors=float(errors))

    def told(self, vague: tuple[float, float]) -> float:
        """How far the share of wrong labels is told, from 0 to 1.

        Args:
            vague: Its standard errors from which it is not quite, and not.
        """
        return 1 - ramp(self.error, vague)


@lru_cache(maxsize=1)
def _fading() -> Doubles:
    """[i, j]: share of errors in part j, of two classes, if the mean of log odds is the ith.

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
