"""From evidence to P(label is wrong), and from that to rate, flags, classes and review budgets.

    P(wrong) = 1 / (1 + exp(−log odds)), the log odds by `curve.py`

They fall with the evidence along a line that was learnt over other data sets. Once labels of this
one are reviewed, they deviate from it, and labels of one pair (given class, rival) from others. So
reviews also change the order of labels that are still open.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit, ndtri

from abstain.errors import AbstainError
from abstain.scores.curve import NODES, Curve, Doubles, Learnt, fit_curve
from abstain.scores.evidence import UNKNOWN, Evidence, Floats
from abstain.scores.given import Labels, checked_labels
from abstain.scores.interval import Interval

Mask: TypeAlias = npt.NDArray[np.bool_]
Rows: TypeAlias = Mask | npt.NDArray[np.int64] | slice

CONFIDENCE = 0.9
"""Coverage meant for intervals from the labels alone; they have it on held-out data sets."""
_Z = float(ndtri((1 + CONFIDENCE) / 2))
_LEAST = 1e-9  # a probability whose log odds are still finite
_FROM, _WHOLE = 0.1, 0.5  # P(wrong) from which a label is worth a look, and certainly so


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict on N labels; every figure follows from `wrong_probability`."""

    evidence: Evidence
    given: Labels = field(repr=False)
    num_classes: int
    curve: Curve
    reviewed: Labels = field(repr=False)
    """(N,) the class that a reviewer gave, or `UNKNOWN`."""
    unsure: Mask = field(repr=False)
    """(N,) labels that a reviewer could not decide: open as before, but not to be flagged again."""
    dropped: Mask = field(repr=False)
    """(N,) samples that a reviewer took out of the data set: no figure counts them."""

    def __len__(self) -> int:
        return len(self.given)

    @cached_property
    def is_reviewed(self) -> Mask:
        """(N,) which labels a reviewer gave a class."""
        reviewed: Mask = self.reviewed != UNKNOWN
        return reviewed

    @cached_property
    def is_open(self) -> Mask:
        """(N,) labels of the data set without a reviewed class; unsure ones are among them."""
        is_open: Mask = ~(self.is_reviewed | self.dropped)
        return is_open

    @cached_property
    def to_check(self) -> int:
        """The number of labels that nobody has looked at."""
        return int((self.is_open & ~self.unsure).sum())

    @cached_property
    def found_wrong(self) -> int:
        """Number of labels that reviewers found to be wrong."""
        return int((self.is_reviewed & (self.reviewed != self.given)).sum())

    @cached_property
    def doubts(self) -> Floats:
        """(N,) log odds that the label is wrong, whatever a reviewer decided of it."""
        logits = self.curve.logits(self.evidence.log_odds)
        unseen = np.isnan(logits)
        if unseen.any():  # for these only the rate is known
            rate = float(expit(logits[~unseen]).mean()) if not unseen.all() else 0.5
            logits[unseen] = logit(min(max(rate, _LEAST), 1 - _LEAST))
        return logits

    @cached_property
    def logits(self) -> Floats:
        """(N,) log odds that the label is wrong; infinite where a reviewer decided."""
        logits, found_wrong = self.doubts.copy(), self.reviewed != self.given
        logits[self.is_reviewed & found_wrong] = np.inf
        logits[self.is_reviewed & ~found_wrong] = -np.inf
        return logits

    @cached_property
    def wrong_probability(self) -> Floats:
        """(N,) P(label is wrong)."""
        wrong: Floats = expit(self.logits)
        return wrong

    @property
    def label_score(self) -> Floats:
        """(N,) P(label is right): low = bad."""
        return 1 - self.wrong_probability

    @cached_property
    def order(self) -> Labels:
        """Indices of all samples, the worst label first, those with an answer at the end."""
        unanswered = self.is_open & ~self.unsure
        return ascending(np.where(unanswered, -self.logits, np.float32(np.inf)))

    @cached_property
    def is_label_issue(self) -> Mask:
        """(N,) the worst labels nobody reviewed.

        A label with P(wrong) below 0.1 adds nothing to how many, one above 0.5 a whole label, and
        in between its share: about as many as make the expected F1 the highest, but the number
        follows P(wrong) without jumps. Where all labels are nearly equally doubtful, so that
        flagging some would be chance, only what they are doubted beyond the others counts.
        """
        flags = np.zeros(len(self), dtype=bool)
        left = self.order[: self.to_check]
        if len(left):
            p = self.wrong_probability[left].astype(np.float64)
            average = float(p.mean())
            least = max(_FROM, average - float(np.abs(p - average).mean()))
            worth = np.clip((p - least) / (_WHOLE - _FROM), 0, 1).sum()
            flags[left[: int(worth + 0.5)]] = True
        return flags

    @cached_property
    def rate(self) -> Interval:
        """The noise rate of what is left of the data set."""
        known = float((self.is_reviewed & ~self.dropped & (self.reviewed != self.given)).sum())
        left, open_ = max(int((~self.dropped).sum()), 1), self.unseen
        wrong = Interval(value=known + open_.value, low=known + open_.low, high=known + open_.high)
        return _scaled(wrong, 1 / left)

    @cached_property
    def unseen(self) -> Interval:
        """The number of wrong labels among those without a reviewed class."""
        return self.expected_among(self.is_open)

    def expected_wrong(self, budget: int) -> Interval:
        """Expected number of wrong labels among the `budget` worst that nobody reviewed.

        >>> from abstain.scores.evidence import evidence_from_probabilities
        >>> probabilities = [[0.99, 0.01]] * 60 + [[0.01, 0.99]] * 60
        >>> given = [0] * 60 + [1] * 50 + [0] * 10
        >>> verdict = judge(evidence_from_probabilities(probabilities, given), given, 2)
        >>> 8 < verdict.expected_wrong(10).value < 10
        True
        """
        if not 0 <= budget <= self.to_check:
            raise AbstainError(f"must lie in [0, {self.to_check}], got {budget}", argument="budget")
        return self.expected_among(self.order[:budget])

    def expected_among(self, rows: Rows, *, of_a_class: bool = False) -> Interval:
        """Expected number of wrong labels among some rows.

        The interval allows for the uncertainty of the curve and of the shifts of reviewed pairs,
        and for chance given P(wrong).

        Args:
            rows: Which labels.
            of_a_class: Whether they are the labels of one class: classes have their own offsets.
        """
        logits, curve = self.logits[rows], self.curve
        known = float(np.isposinf(logits).sum())
        is_open = np.isfinite(logits)
        logits, places = logits[is_open], curve.places[rows][is_open]
        left = len(logits)
        if not left:
            return Interval(value=known, low=known, high=known)
        p = expit(logits)
        moves = np.maximum(p * (1 - p), _LEAST)  # how P(wrong) moves with the log odds
        value, chance = float(p.sum(dtype=np.float64)), float(moves.sum(dtype=np.float64))
        nodes = curve.nodes[rows][is_open]
        of_nodes = np.bincount(nodes, moves, len(NODES))
        of_pairs = np.bincount(places, moves, len(curve.variances))
        covariance = curve.covariance
        if of_a_class:
            shares = np.append(of_pairs[: curve.pairs], of_pairs[curve.pairs :].sum()) / chance
            covariance = covariance + shares**2 @ np.append(
                curve.variances[: curve.pairs], curve.variances[-1]
            )
        chance += float(of_pairs[: curve.pairs] ** 2 @ curve.variances[: curve.pairs])
        # Along the direction in which the sum is the least certain, all log odds move together.
        moved = covariance @ of_nodes / math.sqrt(of_nodes @ covariance @ of_nodes)
        # Ballast and limit hold P(wrong) back. The interval follows what the answers say.
        lag = curve.untied - curve.deviations[-1:].sum(0)
        low, high = (
            float(expit(logits + (lag + z * moved).astype(np.float32)[nodes]).sum(dtype=np.float64))
            for z in (-_Z, _Z)
        )
        return Interval(
            value=known + value,
            low=known + max(0.0, value - math.hypot(max(value - low, 0), _Z * math.sqrt(chance))),
            high=known
            + min(left, value + math.hypot(max(high - value, 0), _Z * math.sqrt(chance))),
        )

    @cached_property
    def per_class(self) -> list[Interval]:
        """Noise rate among the labels given as class j; NaN where no label is j."""
        left = np.flatnonzero(~self.dropped)
        order = left[np.argsort(self.given[left], kind="stable")]
        ends = np.cumsum(np.bincount(self.given[left], minlength=self.num_classes))
        intervals = []
        for begin, end in zip(np.append(0, ends[:-1]).tolist(), ends.tolist(), strict=True):
            if begin == end:
                intervals.append(Interval(value=math.nan, low=0.0, high=1.0))
                continue
            wrong = self.expected_among(order[begin:end], of_a_class=True)
            intervals.append(_scaled(wrong, 1 / (end - begin)))
        return intervals

    @cached_property
    def transition(self) -> Doubles:
        """T[i, j] = P(given = j | true = i); rows sum to 1.

        The true class of a wrong label is taken to be its rival, or the class that a reviewer gave.
        """
        m = self.num_classes
        wrong = self.wrong_probability.astype(np.float64)
        rival = np.where(self.evidence.rival == UNKNOWN, self.given, self.evidence.rival)
        other = np.where(self.is_reviewed, self.reviewed, rival)
        right = np.where(self.dropped, 0.0, 1 - wrong)
        wrong = np.where(self.dropped, 0.0, wrong)
        joint = np.bincount(other * m + self.given, wrong, minlength=m * m)
        joint += np.bincount(self.given * (m + 1), right, minlength=m * m)
        joint = joint.reshape(m, m)
        joint[joint.sum(1) == 0] = np.eye(m)[joint.sum(1) == 0]
        transition: Doubles = joint / joint.sum(1, keepdims=True)
        return transition

    @cached_property
    def predicted_label(self) -> Labels:
        """(N,) the class with the most belief, which may be the given one."""
        doubted = (self.evidence.log_odds < 0) & (self.evidence.rival != UNKNOWN)
        believed = np.where(doubted, self.evidence.rival, self.given)
        return np.where(self.is_reviewed, self.reviewed, believed).astype(np.int64)

    @cached_property
    def confidence(self) -> Floats:
        """(N,) P(predicted label is right); NaN for a sample that was never seen."""
        wrong = self.wrong_probability
        doubted = self.predicted_label != self.given
        confidence = np.where(doubted, wrong * self.evidence.rival_share, 1 - wrong)
        confidence[self.evidence.rival == UNKNOWN] = np.nan
        confidence[self.is_reviewed] = 1
        return confidence


def judge(
    evidence: Evidence,
    given: npt.ArrayLike,
    num_classes: int,
    reviewed: Mapping[int, int] | None = None,
    learnt: Learnt | None = None,
    *,
    unsure: Collection[int] = (),
    dropped: Collection[int] = (),
) -> Verdict:
    """Judge labels by the evidence on them, and by those that were reviewed.

    Args:
        evidence: On each label.
        given: (N,) given labels.
        num_classes: Number of classes m.
        reviewed: The class that a reviewer gave, by row; however these rows were chosen.
        learnt: The numbers to judge by; by default those that come with the package.
        unsure: Rows that a reviewer could not decide. P(wrong) stays as estimated.
        dropped: Rows that a reviewer took out of the data set. They are no evidence on the others.

    >>> from abstain.scores.evidence import evidence_from_probabilities
    >>> probabilities = [[0.9, 0.1]] * 60 + [[0.1, 0.9]] * 60
    >>> given = [0] * 60 + [1] * 50 + [0] * 10
    >>> verdict = judge(evidence_from_probabilities(probabilities, given), given, 2)
    >>> int(verdict.is_label_issue.sum()), 10 / 120 in verdict.rate
    (10, True)
    """
    labels = checked_labels(given, len(evidence), num_classes).astype(np.int64)
    answers = np.full(len(labels), UNKNOWN, np.int64)
    for row, label in (reviewed or {}).items():
        if not 0 <= row < len(labels) or not 0 <= label < num_classes:
            raise AbstainError(
                f"must map rows below {len(labels)} to classes below {num_classes}, "
                f"got {row}: {label}",
                argument="reviewed",
            )
        answers[row] = label
    gone = _mask(dropped, len(labels), "dropped")
    shown = np.where(gone, np.float32(np.nan), evidence.log_odds)
    rows = np.flatnonzero((answers != UNKNOWN) & ~np.isnan(shown))
    curve = fit_curve(
        learnt or Learnt.load(),
        evidence.memorised,
        shown,
        _pairs(labels, evidence.rival, num_classes),
        rows,
        answers[rows] != labels[rows],
    )
    return Verdict(
        evidence=evidence,
        given=labels,
        num_classes=num_classes,
        curve=curve,
        reviewed=answers,
        unsure=_mask(unsure, len(labels), "unsure"),
        dropped=gone,
    )


def _mask(rows: Collection[int], size: int, name: str) -> Mask:
    mask = np.zeros(size, bool)
    if odd := [row for row in rows if not 0 <= row < size]:
        raise AbstainError(f"must be rows below {size}, got {odd[0]}", argument=name)
    mask[list(rows)] = True
    return mask


def _scaled(interval: Interval, by: float) -> Interval:
    return Interval(value=interval.value * by, low=interval.low * by, high=interval.high * by)


def _pairs(given: Labels, rival: npt.NDArray[np.int32], num_classes: int) -> Labels:
    """A number for each pair of given class and rival, which may be `UNKNOWN`."""
    return given * (num_classes + 1) + rival


def ascending(values: Floats) -> Labels:
    """A stable argsort in a third of its time: sorts integers of value and position."""
    bits = (values + np.float32(0)).view(np.int32)  # −0 becomes 0
    # Floats sort as their bits do, except negative ones, which sort in reverse.
    keys = (bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))).astype(np.int64)
    keys <<= 32
    keys |= np.arange(len(values))
    keys.sort()
    keys &= 0xFFFFFFFF
    return keys
