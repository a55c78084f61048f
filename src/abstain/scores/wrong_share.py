"""How many labels are wrong: the share that one training run lets one read off.

Two ways, each by a `plateau`:

- `share_by_first_epochs`. In its first epochs a model has hardly learnt any single label by heart:
  its prediction and the given label are nearly independent given the true class.
- `share_by_whole_training`, where labels were set aside for the warm-up (`HeldOut`). What a robust
  training believed on the whole is right far more often than its first epochs were. Samples are
  ordered by how sure it was of them while it hardly knew their labels. Two things mislead
  it, and the labels set aside tell both. Labels *learnt by heart* look right: samples that were
  trained on are contradicted less often than those set aside; the first epochs are then believed
  instead. And a *weak model*, one that errs on many right labels set aside, keeps part of these
  errors to the end: they are counted off, and the interval is left open. So is it where samples do
  not tell their class (a third thing, which the labels set aside do not tell from wrong ones): the
  share then rises steeply even among the surest, where wrong labels leave it level. Where labels of
  some classes alone are wrong, these have plateaus of their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from abstain.scores.plateau import (
    ROWS,
    UNKNOWN,
    Beliefs,
    Doubles,
    Integers,
    Plateau,
    find_plateau,
    has_plateau,
    random_part,
    shrunk_rates,
)

_Z = 1.959963984540054  # 95%
# What a plateau leaves out, as standard deviations: relative to the rate, and absolute; fitted on
# planted errors, and checked on others by bench/noise_rate.py. So are the other numbers here.
_RELATIVE_ERROR, _ABSOLUTE_ERROR = 0.08, 0.003
# However far the plateau reaches, its end is uncertain: some samples are always extrapolated to.
_LEAST_BEYOND = 0.25
_DOUBT_OF_SECOND = 0.8  # of what the model leaves out, for the end of the training
_POOR_COUNTS = 0.35  # how far counts are trusted that no plateau was found for
# What the whole training contradicts rises late and little: its plateau ends only where chance
# cannot explain it.
_LENIENT = (2.0, 2.5, 3.0)
# The very surest are so partly because of their labels: so many, and this part of all, are needed.
_FEWEST, _LEAST_PART = 300, 0.2
# Standard errors between samples set aside and others from which labels may have been, and have
# been, learnt by heart; part of them, as the two are not seen in quite the same way.
_LEARNT, _UNLIKE = (1.0, 2.0), 0.02
# A difference that leaves no doubt, by two standard errors: all that can be was learnt by heart.
_ALL_LEARNT = 0.1
# Share of right labels set aside that a model contradicts, and of labels that it no longer does,
# from which it may be, and is, called weak; unless its first epochs had a plateau, with fewer
# contradicted than of those set aside, by so many standard errors. By as many more, it is weak in
# any case: even its surest guesses told nothing. And the part of its errors that the whole training
# of a weak model keeps.
_WEAK, _LEVEL, _KEPT = (0.15, 0.25), (1.0, 2.0), 0.5
# By how much more labels are contradicted between the surest fifth and the surest half than in the
# surest fifth, where the classes may overlap, and do; unless chance explains it, and the plateau is
# this long: then only the interval is opened.
_STEEP, _LONG = (0.06, 0.09), (0.3, 0.6)
_FIFTH, _HALF = 1, 4  # places in the curve of a plateau
# A class has a plateau of its own if it is contradicted more often than the surest are, by so many
# standard errors, and is not steep. Of fewer samples, in its surest fifth, nothing is said.
# Share of right labels set aside that the model may contradict, and contradicts too often, for it.
_TOLD_APART, _FEWEST_OF_CLASS, _HARDLY = 3.0, 20, (0.03, 0.08)
# Labels contradicted, as a part of those that a guess would contradict: from here on the model may
# know, and knows, nothing.
_GUESS = (0.85, 0.95)
# Standard errors in its favour before it is: of a hundred labels set aside, chance alone misses
# many.
_BEYOND_CHANCE = 1.0
# Standard errors by which a model has to meet more labels set aside than the commonest class alone
# would: else all labels may be right, and the samples tell nothing of them.
_ABOVE_A_GUESS = (1.0, 3.0)
# Labels contradicted, as a part of those set aside that were: so few are mostly errors that the
# model has not mended yet, and from here on they are not. Nor are they if they are that many of
# all labels; if they are fewer, all may be such errors, and the interval begins at none.
_MENDED, _TOO_MANY = (0.4, 0.9), (0.03, 0.06)
# Right labels that a training may contradict to its end, as a standard deviation: up to 1.6% on
# clean sets.
_NEVER_MENDED = 0.006
# Standard errors in favour of the model, when the interval is opened from below by its errors, and
# when classes are said to overlap.
_SURELY = 0.5


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
        return _chance(self.accuracy, len(self.rows))

    def errors(self, rate: float, chances: float = 0.0) -> float:
        """Share of right labels that it contradicts, if `rate` of all labels are wrong.

        With `chances`, what is left if it met by so many standard errors too few of them.
        """
        met = self.accuracy + chances * self.chance
        return min(max(0.0, 1 - met / max(1 - rate, 1e-9)), 1.0)


@dataclass(frozen=True, kw_only=True)
class WrongShare:
    """The share of wrong labels, and what it was seen on."""

    value: float
    low: float
    high: float
    """Ends of the 95% interval."""
    plateau: Plateau
    counts: Doubles
    """(m, m): on the plateau, how often class i was predicted and j given."""
    trust: float
    """How far the counts are of wrong labels rather than of errors of the model, from 0 to 1."""
    overlap: float = 0.0
    """How far samples do not tell their class, from 0 to 1."""


def share_by_first_epochs(
    given: Integers,
    early: Beliefs,
    epochs: Sequence[Plateau],
    contradicted: float,
    num_classes: int,
) -> WrongShare:
    """Disagreement on the plateau of the first epochs.

    Where the early model is nowhere sure (there is no plateau), wrong labels cannot be told from
    its own errors; the interval then reaches from what is left when later epochs are extrapolated
    to certainty, to the share that contradicts the first ones.

    Args:
        given: (N,) given labels.
        early: Beliefs of the first epochs together.
        epochs: Plateaus of single ones, in order, to compare with.
        contradicted: Share of labels that the model contradicts in the end.
        num_classes: Number of classes m.
    """
    plateau, counts = find_plateau(early, given, num_classes)
    if has_plateau(epochs):
        value = _second_opinion(plateau, contradicted)
        half = half_width(value, plateau.samples, 1 - plateau.share)
        low, high, trust = value - half, value + half, 1.0
    else:
        # The first epochs know too little; the next ones more, and not yet too much.
        value = float(np.mean([epoch.disagreement for epoch in epochs[2:4] or epochs[-1:]]))
        half = half_width(value, epochs[0].samples, 1.0)
        # Errors of a poor model fade as it learns; a single look at it bounds nothing from below.
        ends = [max(0.0, 2 * float(x.curve[0]) - float(x.curve[1])) for x in epochs[2:]]
        low = min(value, min(ends, default=0.0) - half)
        high = max(value, plateau.disagreement + half)
        trust = _POOR_COUNTS
    low, high = max(0.0, low), min(1.0, high)
    return WrongShare(value=value, low=low, high=high, plateau=plateau, counts=counts, trust=trust)


def share_by_whole_training(
    given: Integers, whole: Beliefs, first: Plateau, held_out: HeldOut, early: WrongShare
) -> WrongShare:
    """Disagreement on the plateau of all epochs together, checked by labels set aside.

    Args:
        given: (N,) given labels.
        whole: What was believed over the whole training, and how surely while labels were unknown.
        first: Plateau of the first epoch that knows anything.
        held_out: Labels set aside.
        early: The share as the first epochs have it.
    """
    least = max(_FEWEST / len(given), _LEAST_PART)
    plateau, counts = find_plateau(whole, given, len(early.counts), _LENIENT, least)
    gap, chance = _gap(whole.predicted != given, held_out)
    by_heart = _ramp(gap / chance, _LEARNT)
    # The first epochs are a way out only if they contradict fewer labels than are contradicted of
    # those set aside: else they knew even less.
    level = (held_out.disagreement - first.disagreement) / held_out.chance
    by_heart *= _ramp(level, (0.0, 1.0))
    # Of classes whose labels alone are wrong, the model is less sure than of others.
    part = random_part(whole.predicted != UNKNOWN, ROWS)
    seen = Beliefs(predicted=whole.predicted[part], confidence=whole.confidence[part])
    by_class, _ = find_plateau(_within_classes(seen), given[part], len(counts), _LENIENT, least)
    added, with_classes = _of_classes_by_themselves(seen, given[part], counts)
    added = max(added, by_class.disagreement - plateau.disagreement)
    # Only a model that hardly errs can be taken at its word on each of them.
    errs = held_out.errors(plateau.disagreement + added, _SURELY)
    if errs <= _HARDLY[0]:
        counts = with_classes
    value = plateau.disagreement + added * (1 - _ramp(errs, _HARDLY))
    value += by_heart * max(0.0, first.disagreement - value)
    half = float(
        np.hypot(half_width(value, plateau.samples, 1 - plateau.share), _Z * _NEVER_MENDED)
    )
    low = value - held_out.errors(value, _SURELY) - half
    high = max(value, plateau.disagreement + added) + half
    if first.disagreement > value:  # what was learnt by heart unseen
        most = held_out.disagreement + held_out.chance
        high = max(high, min(first.disagreement + half, most))
    changed = max(0.0, first.disagreement - value)
    errs = held_out.errors(value, _BEYOND_CHANCE) + changed
    known = _ramp(level, _LEVEL) if early.trust == 1 else 0.0
    lag = (first.disagreement - held_out.disagreement) / float(np.hypot(held_out.chance, _UNLIKE))
    weak = max(_ramp(errs, _WEAK) * (1 - known), _ramp(lag, _LEVEL))
    weak = max(weak, _ramp(_like_a_guess(whole.predicted, given), _GUESS))
    rise, doubt = _rise(by_class, len(given))
    overlap = _ramp(rise - _SURELY * doubt, _STEEP) * (1 - _ramp(plateau.share, _LONG))
    many = _ramp(value, _TOO_MANY)
    unmended = max(_ramp(value / max(held_out.disagreement, 1e-9), _MENDED), many)
    # value = r + kept · (1 − r) · errors(r), solved for r.
    kept = _KEPT * max(weak, overlap)
    value = unmended * max(0.0, (value - kept * held_out.disagreement) / (1 - kept))
    sure = many * (1 - weak) * (1 - _ramp(rise, _STEEP))
    commonest = float(np.bincount(given).max()) / len(given)
    sure *= _ramp((held_out.accuracy - commonest) / held_out.chance, _ABOVE_A_GUESS)
    low, high = max(0.0, min(low * sure, value)), min(1.0, high)
    return WrongShare(
        value=value,
        low=low,
        high=high,
        plateau=plateau,
        counts=counts,
        trust=1 - weak,
        overlap=overlap,
    )


def _of_classes_by_themselves(
    seen: Beliefs, given: Integers, counts: Doubles
) -> tuple[float, Doubles]:
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
    # Equal ones in random order, as for the plateau.
    keys = seen.confidence + np.random.default_rng(0).random(len(given)) * 1e-6
    order = np.lexsort((-keys, seen.predicted))
    ends = np.cumsum(np.bincount(seen.predicted, minlength=m))
    added = 0.0
    for j, of_class in enumerate(np.split(order, ends[:-1])):
        fifth, half = len(of_class) // 5, len(of_class) // 2
        if fifth < _FEWEST_OF_CLASS:
            continue
        told = given[of_class[:half]]
        contrary = told != j
        level = float(contrary.mean())
        if level - rates[j] <= _TOLD_APART * _chance(level, half):
            continue
        rise = float(contrary[fifth:].mean() - contrary[:fifth].mean())
        error = np.sqrt(level * (1 - level) * (1 / fifth + 1 / (half - fifth)))
        if rise - _SURELY * error < _STEEP[0]:
            added += len(of_class) / len(given) * (level - float(rates[j]))
            counts[j] = np.bincount(told, minlength=m)
    return added, counts


def _within_classes(beliefs: Beliefs) -> Beliefs:
    """The same beliefs, each as sure as its rank among those of its class."""
    order = np.lexsort((beliefs.confidence, beliefs.predicted))
    classes = beliefs.predicted[order]
    _, first, sizes = np.unique(classes, return_index=True, return_counts=True)
    ranks = np.arange(len(order)) - np.repeat(first, sizes) + 1
    confidence = np.empty(len(order), np.float32)
    confidence[order] = ranks / np.repeat(sizes, sizes)
    return Beliefs(predicted=beliefs.predicted, confidence=confidence)


def _rise(plateau: Plateau, samples: int) -> tuple[float, float]:
    """How much more labels are contradicted in the rest of the surest half than in its surest.

    The surest fifth of all; and the standard error of the difference.
    """
    fifth, half = float(plateau.curve[_FIFTH]), float(plateau.curve[_HALF])
    rest = (0.5 * half - 0.2 * fifth) / 0.3
    error = np.sqrt(half * (1 - half) * (1 / 0.2 + 1 / 0.3) / max(samples, 1))
    return rest - fifth, float(error)


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


def all_learnt_by_heart(contrary: npt.NDArray[np.bool_], held_out: HeldOut) -> bool:
    """Whether the end of a training can tell nothing: it contradicts hardly a label it was taught.

    Args:
        contrary: (N,) which labels are contradicted.
        held_out: Labels set aside.
    """
    gap, chance = _gap(contrary, held_out)
    return gap - 2 * chance > _ALL_LEARNT


def _gap(contrary: npt.NDArray[np.bool_], held_out: HeldOut) -> tuple[float, float]:
    """By how much more labels set aside are contradicted than others, and its standard error."""
    aside = np.zeros(len(contrary), dtype=bool)
    aside[held_out.rows] = True
    if aside.all():
        return 0.0, 1.0
    spared, taught = float(contrary[aside].mean()), float(contrary[~aside].mean())
    return spared - taught, float(np.hypot(_chance(spared, len(held_out.rows)), _UNLIKE))


def _second_opinion(plateau: Plateau, contradicted: float) -> float:
    """The disagreement on the plateau, drawn to the share of labels contradicted in the end.

    That share counts every sample, but errors of the model too, and labels learnt by heart not: it
    may be far off. So it is heard only where it agrees, and by how sure each of the two is.
    """
    chance = standard_error(plateau.disagreement, plateau.samples, 1 - plateau.share)
    doubt = standard_error(contradicted, 10**9, 0.0) * _DOUBT_OF_SECOND
    if abs(contradicted - plateau.disagreement) > 2 * float(np.hypot(chance, doubt)):
        return plateau.disagreement
    weight = chance**2 / (chance**2 + doubt**2)
    return (1 - weight) * plateau.disagreement + weight * contradicted


def half_width(value: float, samples: int, beyond: float) -> float:
    """Half of the 95% interval of a share; see `standard_error`."""
    return _Z * standard_error(value, samples, beyond)


def standard_error(share: float, samples: int, beyond: float) -> float:
    """Of a share seen on some samples of a plateau, and extrapolated to the share `beyond` of all.

    To chance it adds what the model leaves out: labels learnt by heart even in the first epochs,
    errors of the early model that look like wrong labels.
    """
    samples = max(samples, 1)
    chance = max(share * (1 - share), 1 / samples) / samples * max(beyond, _LEAST_BEYOND)
    return float(np.sqrt(chance + (_RELATIVE_ERROR * share) ** 2 + _ABSOLUTE_ERROR**2))


def _chance(share: float, samples: int) -> float:
    """Standard error of a share, as if one more had been met and one missed."""
    share = (share * samples + 1) / (samples + 2)
    return float(np.sqrt(share * (1 - share) / samples))


def _ramp(x: float, ends: tuple[float, float]) -> float:
    """0 up to the first end, 1 from the second on, a straight line between."""
    return min(max((x - ends[0]) / (ends[1] - ends[0]), 0.0), 1.0)
