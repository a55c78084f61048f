"""Which classes are given for which: what mix-ups of the model do not explain.

A model that errs mixes classes up that are alike, and takes each for the other. Wrong labels do
more than that. Some go anywhere: even classes that the model hardly ever mixes up contradict each
other where it is surest. And whoever gives wrong labels may have a habit that goes one way. These
tell wrong labels from errors, however weak the model is. Wrong labels that go both ways between
classes that are alike are not told.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from abstain.scores.plateau import (
    PARTS,
    ROWS,
    UNKNOWN,
    Beliefs,
    Doubles,
    Integers,
    random_part,
    tenths,
    within_classes,
)

# Of all samples, the surest, where wrong labels are looked for; and the less sure, where pairs of
# classes are chosen: apart from one another, so that chance does not choose what it then counts.
_SUREST, _LESS_SURE = 0.2, 0.3
_FAR = 1 / 3  # of all pairs of classes, those that are mixed up least
# How often such pairs are still mixed up among the surest, as part of what all pairs are on
# average: this, over the number of other classes. Found on planted errors of 4 and of 10 classes.
_MIXED_UP = 1.5
_MOST_MIXED_UP = 0.9
_STANDS_OUT = (2.0, 4.0)  # standard errors from which a habit may be, and is, one
_COUNTS = (2.5, 4.0)  # likewise, of one that counts: of many pairs, some stand out by chance
# Of the labels that go one way, as many as may go back, and are too many for a habit to be alone.
_GO_BACK = (0.1, 0.3)
_MEDIAN_OF_NORMAL = float(ndtri(0.75))  # of the absolute value, in standard deviations


@dataclass(frozen=True, kw_only=True)
class BeyondMixUps:
    """Wrong labels that mix-ups do not explain, as shares of all labels."""

    anywhere: float
    """Of any class, however unlike."""
    error: float
    """Standard error of that, by chance alone."""
    by_habit: float
    """By a habit that goes one way."""
    at_most: float
    """That may be of any class, as far as all samples tell, and not the surest alone: there
    mix-ups count too, even of classes that are unlike, but chance less."""
    alone: float
    """By habits that mix-ups have no part in, even of classes that the model is not sure of."""
    surer: Doubles = field(repr=False)
    """(m, m): of the surer half of what is believed to be class i, how often j is given."""
    sure: Doubles = field(repr=False)
    """(m,) how sure it is that class i has such a habit, from 0 to 1."""

    @property
    def rate(self) -> float:
        """All that are told among the samples that the model is surest of."""
        return self.anywhere + self.by_habit

    def among(self, counts: Doubles) -> Doubles:
        """Counts of predicted and given labels, with those of classes that have such habits."""
        sure = self.sure[:, None]
        together: Doubles = sure * self.surer + (1 - sure) * counts
        return together

    @classmethod
    def of(cls, beliefs: Beliefs, given: Integers, num_classes: int) -> "BeyondMixUps":
        """From what a training believed.

        Args:
            beliefs: What was believed, and how surely while labels were unknown.
            given: (N,) given labels.
            num_classes: Number of classes m, at least 3.

        >>> random = np.random.default_rng(0)
        >>> true = random.integers(6, size=20_000)
        >>> sure = random.random(20_000).astype(np.float32)
        >>> errs = random.random(20_000) < 0.3 * (1 - sure)  # a model that
        >>> believed = np.where(errs, true ^ 1, true)  # mixes classes up in pairs
        >>> wrong = random.random(20_000) < 0.2
        >>> given = np.where(wrong, (true + random.integers(1, 6, size=20_000)) % 6, true)
        >>> told = BeyondMixUps.of(Beliefs(predicted=believed, confidence=sure), given, 6)
        >>> round(told.anywhere, 1), round(told.by_habit, 1)
        (0.2, 0.0)
        """
        m = num_classes
        seen = random_part(beliefs.predicted != UNKNOWN, ROWS)
        predicted, labels = beliefs.predicted[seen], given[seen]
        told = Beliefs(predicted=predicted, confidence=beliefs.confidence[seen])
        tenth = tenths(told.confidence)
        every, less_sure, surest, surer_half = (
            confusion(labels[rows], predicted[rows], m)
            for rows in (
                slice(None),
                tenth >= _LESS_SURE * PARTS,
                tenth < _SUREST * PARTS,
                within_classes(told).confidence > 0.5,
            )
        )
        totals = np.maximum(surest.sum(1), 1)
        contrary = 1 - float(np.trace(surest)) / max(float(surest.sum()), 1)
        far = _far_apart(less_sure)
        places = float((far.sum(1) * totals).sum()) / (m - 1)
        found = float(surest[far].sum())
        errors = min(_MIXED_UP / (m - 1), _MOST_MIXED_UP)
        anywhere = max(0.0, (found / places - errors * contrary) / (1 - errors))

        more = np.maximum(surest - anywhere * totals[:, None] / (m - 1), 0)
        odds = more / np.maximum(more + np.diagonal(surest)[:, None], 1)
        _, sure = habits(every, _COUNTS)
        by_habit = float(totals @ (sure * odds).sum(1)) / float(totals.sum())

        one_way, sure = habits(surer_half)
        back = surer_half.T / np.maximum(surer_half, 1)
        sure *= 1 - np.clip((back - _GO_BACK[0]) / (_GO_BACK[1] - _GO_BACK[0]), 0, 1)
        return cls(
            anywhere=min(anywhere, contrary),
            error=float(np.sqrt(found + 1) / places / (1 - errors)),
            by_habit=min(by_habit, contrary - min(anywhere, contrary)),
            at_most=_at_most(predicted, labels, m),
            alone=float(every.sum(1) @ (sure * one_way).sum(1)) / max(len(seen), 1),
            surer=surer_half,
            sure=sure.max(1),
        )


def confusion(given: Integers, believed: Integers, num_classes: int) -> Doubles:
    """[i, j]: how often class i was believed and j given."""
    places = np.bincount(believed * np.int64(num_classes) + given, minlength=num_classes**2)
    return places.reshape(num_classes, num_classes).astype(np.float64)


def habits(seen: Doubles, stands_out: tuple[float, float] = _STANDS_OUT) -> tuple[Doubles, Doubles]:
    """[i, j]: by how much more often i is given as j than j as i; and how sure that is, up to 1.

    Beyond what comes of believing a class more or less often than others, and beyond chance.

    Args:
        seen: (m, m) how often class i was believed and j given.
        stands_out: Standard errors from which a difference may be, and is, a habit.

    >>> seen = np.full((5, 5), 20.0) + 400 * np.eye(5)
    >>> seen[1, 0] += 100  # believed to be 1, and given 0
    >>> one_way, sure = habits(seen)
    >>> print(round(one_way[1, 0], 2), sure[1, 0], sure.sum())
    0.17 1.0 1.0
    """
    m = len(seen)
    totals = np.maximum(seen.sum(1, keepdims=True), 1)
    shares = seen / totals
    more = shares - shares.T
    bias = np.median(more, 1, keepdims=True)  # the mean would pass a habit on to other pairs
    more -= bias - bias.T
    variance = (shares * (1 - shares) + 1 / totals) / totals  # where none is, one might have been
    errors = more / np.sqrt(variance + variance.T)
    off = ~np.eye(m, dtype=bool)
    # Most pairs are no habits: how they scatter is what a difference has to stand out from.
    scatter = max(1.0, float(np.median(np.abs(errors[off]))) / _MEDIAN_OF_NORMAL)
    least, most = stands_out
    sure = np.where(off, np.clip((errors / scatter - least) / (most - least), 0, 1), 0)
    return np.maximum(more, 0), sure


def _at_most(predicted: Integers, given: Integers, num_classes: int) -> float:
    """Share of labels that go anywhere if the model never mixes up classes that are far apart.

    With two standard errors. Half of the samples choose these classes for the other half.
    """
    half = np.random.default_rng(0).random(len(given)) < 0.5
    one, other = (confusion(given[x], predicted[x], num_classes) for x in (half, ~half))
    found, places = 0.0, 1.0
    for chosen_by, counted in ((one, other), (other, one)):
        far = _far_apart(chosen_by)
        found += float(counted[far].sum())
        places += float(far.sum(1) @ counted.sum(1)) / (num_classes - 1)
    return float(found + 2 * np.sqrt(found + 1)) / places


def _far_apart(seen: Doubles) -> npt.NDArray[np.bool_]:
    """(m, m) which classes are mixed up least, either way."""
    shares = seen / np.maximum(seen.sum(1, keepdims=True), 1)
    one, other = np.triu_indices(len(seen), 1)
    fewest = np.argsort((shares + shares.T)[one, other], kind="stable")
    chosen = fewest[: max(1, round(_FAR * len(fewest)))]
    far = np.zeros(seen.shape, dtype=bool)
    far[one[chosen], other[chosen]] = True
    return far | far.T
