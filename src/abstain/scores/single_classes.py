"""Plateaus of single classes: where the labels of some classes alone are wrong."""

from dataclasses import dataclass

import numpy as np

from abstain.scores.doubts import STEEP, SURELY
from abstain.scores.held_out import HeldOut, chance_of
from abstain.scores.plateau import Beliefs, Doubles, Integers, shrunk_rates
from abstain.scores.ramp import ramp

# A class has a plateau of its own if it is contradicted more often than the surest of the others
# are, by so many standard errors, and is not steep. Of fewer samples, in its surest fifth, nothing
# is said.
_TOLD_APART, _FEWEST = 3.0, 20
# Share of right labels set aside that the model may contradict, and contradicts too often, to be
# taken at its word on each class.
_HARDLY = (0.03, 0.08)


@dataclass(frozen=True, kw_only=True)
class SingleClasses:
    """What classes tell by themselves that the surest of all do not."""

    own: float
    """Share of all labels that is wrong in classes with a plateau of their own."""
    added: float
    """What of it the surest of all do not tell."""
    counts: Doubles
    """(m, m) of predicted and given labels among the surest of all, or of such a class."""

    def believed(self, rate: float, held_out: HeldOut) -> float:
        """How far they are, from 0 to 1, if `rate` of all labels are wrong.

        Only a model that hardly errs can be taken at its word on each of them.
        """
        return 1 - ramp(held_out.errors(rate, SURELY), _HARDLY)


def classes_by_themselves(seen: Beliefs, given: Integers, counts: Doubles) -> SingleClasses:
    """What classes add to the share that have a plateau of their own; and the counts with theirs.

    Where the labels of some classes alone are wrong, the model is never so sure of these classes as
    of the others: of all samples, the surest are those of which no label is wrong. But among its
    own surest, such a class is contradicted as often as among the next: there its share is read off
    instead. A class that the model takes for another one is contradicted the less the surer it is.

    Args:
        seen: What was believed of samples that were seen.
        given: Their labels.
        counts: (m, m) of predicted and given labels among the surest of all.
    """
    m, counts = len(counts), counts.copy()
    totals = counts.sum(1)
    rates = shrunk_rates(totals - np.diagonal(counts), totals)
    wrong = float(totals @ rates)
    # Equal ones in random order, as for the plateau.
    keys = seen.confidence + np.random.default_rng(0).random(len(given)) * 1e-6
    order = np.lexsort((-keys, seen.predicted))
    ends = np.cumsum(np.bincount(seen.predicted, minlength=m))
    own = added = 0.0
    for j, of_class in enumerate(np.split(order, ends[:-1])):
        fifth, half = len(of_class) // 5, len(of_class) // 2
        if fifth < _FEWEST:
            continue
        told = given[of_class[:half]]
        contrary = told != j
        level = float(contrary.mean())
        told_of_others = (wrong - totals[j] * rates[j]) / max(totals.sum() - totals[j], 1)
        chance = _TOLD_APART * chance_of(level, half)
        if level - told_of_others <= chance:
            continue
        rise = float(contrary[fifth:].mean() - contrary[:fifth].mean())
        error = np.sqrt(level * (1 - level) * (1 / fifth + 1 / (half - fifth)))
        if rise - SURELY * error < STEEP[0]:
            part = len(of_class) / len(given)
            own += part * level
            if level - rates[j] > chance:
                added += part * (level - float(rates[j]))
                counts[j] = np.bincount(told, minlength=m)
    return SingleClasses(own=own, added=added, counts=counts)
