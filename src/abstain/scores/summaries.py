"""Groups of the labels in doubt: identical inputs, pairs of classes, single classes."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from abstain.errors import AbstainError
from abstain.scores.given import Labels, checked_labels

Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Duplicates:
    """Identical inputs whose labels disagree."""

    members: Labels
    """Indices of all samples in such groups, group after group, in their order within each."""
    group: Labels
    """The group of each member, from 0, in the order of their first members."""

    def __len__(self) -> int:
        """Number of groups."""
        return int(self.group[-1]) + 1 if len(self.group) else 0

    def without(self, rows: Mask) -> "Duplicates":
        """But for some samples, such as empty ones, which are only alike in that.

        >>> found = Duplicates(members=np.array([0, 2, 1, 5]), group=np.array([0, 0, 1, 1]))
        >>> len(found.without(np.array([True, False, True, False, False, False])))
        1
        """
        kept = ~rows[self.members]
        _, group = np.unique(self.group[kept], return_inverse=True)
        return Duplicates(members=self.members[kept], group=group.astype(np.int64))


@dataclass(frozen=True, kw_only=True)
class PairSummary:
    """Pairs of classes of which one is taken for the other, the commonest first."""

    given: Labels
    predicted: Labels
    count: Labels


def disagreeing_duplicates(fingerprints: npt.ArrayLike, given: npt.ArrayLike) -> Duplicates:
    """Groups of samples with the same fingerprint (integers or strings) but different labels.

    >>> found = disagreeing_duplicates(["a", "b", "a", "c", "c", "b"], [0, 1, 2, 1, 1, 0])
    >>> found.members.tolist(), found.group.tolist(), len(found)
    ([0, 2, 1, 5], [0, 0, 1, 1], 2)
    """
    prints = np.asarray(fingerprints)
    if prints.ndim != 1:
        raise AbstainError(
            f"must be one per sample, got shape {prints.shape}", argument="fingerprints"
        )
    labels = checked_labels(given, len(prints))
    _, first, group = np.unique(prints, return_index=True, return_inverse=True)
    lowest = np.full(len(first), np.iinfo(np.int32).max, np.int32)
    highest = np.full(len(first), -1, np.int32)
    np.minimum.at(lowest, group, labels)
    np.maximum.at(highest, group, labels)
    members = np.flatnonzero((lowest < highest)[group])
    # A group is known by its first member.
    heads = first[group[members]]
    order = np.argsort(heads, kind="stable")
    _, numbers = np.unique(heads[order], return_inverse=True)
    return Duplicates(members=members[order], group=numbers.astype(np.int64))


def pair_summary(predicted: Labels, given: npt.ArrayLike, issues: Mask) -> PairSummary:
    """Which class is taken for which, over the samples in `issues`; only pairs that occur.

    Args:
        predicted: (N,) proposed labels.
        given: (N,) given labels.
        issues: (N,) which samples to count: `Verdict.is_label_issue`.
    """
    labels = checked_labels(given, len(predicted))
    chosen = issues & (predicted != labels)
    predicted = predicted[chosen]
    size = int(max(labels.max(), predicted.max(initial=0))) + 1
    pairs, counts = np.unique(labels[chosen] * np.int64(size) + predicted, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    pairs = pairs[order]
    return PairSummary(given=pairs // size, predicted=pairs % size, count=counts[order])
