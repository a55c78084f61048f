"""Near duplicates: within a data set, with different labels, and between train and test."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from abstain.checks.neighbours import Neighbours
from abstain.checks.rules import Ints, Issues, Mask, below

NEAR = 0.5
"""A pair is near where its distance is below this part of that to the tenth neighbour, at most."""
_DENSEST = 0.25
"""Least distance to the tenth neighbour that is used, as a part of the usual one: among eleven
copies that distance is about 0, and by it they would not be near each other."""
_FAR = 1e9


@dataclass(frozen=True)
class NearDuplicates:
    """Samples with near duplicates, and their sets."""

    issues: Issues
    group: Ints
    """(N,) the set that a sample belongs to, from 0; −1 for none."""
    differ: Mask
    """(N,) whether the labels of its set differ."""


def sets_of(group: Ints) -> list[Ints]:
    """The rows of each set of near duplicates.

    >>> sets_of(np.array([1, -1, 0, 1, 0]))
    [array([2, 4]), array([0, 3])]
    """
    rows = np.flatnonzero(group >= 0)
    order = rows[np.argsort(group[rows], kind="stable")]
    return np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if len(order) else []


def near_duplicates(
    prints: Ints,
    given: Ints,
    neighbours: Neighbours | None = None,
    empty: Mask | None = None,
) -> NearDuplicates:
    """Samples that are identical, or much nearer to each other than the others around them.

    Two samples are near duplicates where their distance is below a part of the smaller of their
    distances to the tenth neighbour: a half, or less where samples come as near by chance
    (`nearness`). So it does not matter in what unit features are, nor how densely they lie.

    Args:
        prints: (N,) numbers that are equal where inputs are: `abstain.data.identity.fingerprints`.
        given: (N,) given labels.
        neighbours: By features; without, only identical inputs count.
        empty: (N,) inputs that hold nothing, which are no duplicates of each other.

    >>> found = near_duplicates(np.array([7, 8, 7, 9]), np.array([0, 1, 1, 0]))
    >>> found.group.tolist(), found.differ.tolist(), found.issues.score.tolist()
    ([0, -1, 0, -1], [True, False, True, False], [0.0, 1.0, 0.0, 1.0])
    """
    size = len(prints)
    _, first, number = np.unique(prints, return_index=True, return_inverse=True)
    kept = np.ones(size, bool) if empty is None else ~empty
    same = kept & (np.bincount(number)[number] > 1)
    left, right = np.flatnonzero(same), first[number[same]]
    issues = Issues(same, np.where(same, 0, 1).astype(np.float32))
    if neighbours is not None:
        both = kept[:, None] & kept[neighbours.index]
        ratio = np.where(both, ratios(neighbours, neighbours), _FAR)
        near = nearness(neighbours)
        rows, places = np.nonzero(ratio < near)
        left = np.concatenate([left, rows])
        right = np.concatenate([right, neighbours.index[rows, places]])
        best = np.where(same, 0, ratio.min(axis=1))
        # A neighbour of a sample need not have that one among its own.
        np.minimum.at(best, neighbours.index.ravel(), ratio.ravel())
        issues = below(np.minimum(best, _FAR), near)
    links = coo_array((np.ones(len(left), bool), (left, right)), (size, size))
    _, component = connected_components(links, directed=False)
    group = np.full(size, -1)
    _, group[issues.is_issue] = np.unique(component[issues.is_issue], return_inverse=True)
    return NearDuplicates(issues, group, _differ(group, given))


def between(
    prints: Ints,
    test_prints: Ints,
    among_samples: Neighbours | None = None,
    from_test: Neighbours | None = None,
    empty: Mask | None = None,
) -> tuple[Issues, Ints]:
    """Samples with a near duplicate in a test set, and its row there (−1 for none).

    Args:
        prints: (N,) of the samples, as for `near_duplicates`.
        test_prints: (M,) of the test set.
        among_samples: The neighbours of the samples among themselves.
        from_test: Of each sample of the test set, the nearest of these samples.
        empty: (N,) samples that hold nothing, which are duplicates of none.

    >>> found, partner = between(np.array([7, 8]), np.array([9, 8]))
    >>> found.is_issue.tolist(), partner.tolist()
    ([False, True], [-1, 1])
    """
    ratio, partner, near = np.full(len(prints), np.inf), np.full(len(prints), -1), NEAR
    if among_samples is not None and from_test is not None:
        every = ratios(from_test, among_samples)
        order = np.argsort(-every, axis=None, kind="stable")  # the nearest comes last and stays
        rows = from_test.index.ravel()[order]
        ratio[rows], partner[rows] = every.ravel()[order], order // every.shape[1]
        near = nearness(among_samples)
    known, first = np.unique(test_prints, return_index=True)
    match = np.searchsorted(known, prints).clip(max=len(known) - 1)
    same = known[match] == prints
    ratio[same], partner[same] = 0, first[match[same]]
    if empty is not None:
        ratio[empty] = _FAR
    issues = below(np.minimum(ratio, _FAR), near)
    return issues, np.where(issues.is_issue, partner, -1)


def nearness(neighbours: Neighbours) -> float:
    """The part of the distance to the tenth neighbour below which a pair is near, at most a half.

    In m dimensions the nearest of k neighbours lies below a part r of the distance to the k-th with
    the chance 1 − (1 − rᵐ)ᵏ⁻¹ ≈ (k − 1) rᵐ. By the part that is returned, chance makes about one
    such sample of all. m is what the distances say, log(d_k / d_j) having the mean Σ 1/i / m over
    i = j … k − 1, not the number of columns.

    >>> from abstain.checks.neighbours import Index
    >>> rng = np.random.default_rng(0)
    >>> few, more = (rng.normal(size=(1000, columns)).astype(np.float32) for columns in (2, 32))
    >>> [round(nearness(Index.of(rows).neighbours()), 2) for rows in (few, more)]
    [0.01, 0.5]
    """
    size, k = neighbours.distance.shape
    middle = k // 2
    inner = neighbours.distance[:, middle - 1]  # the nearest may be duplicates
    spread = np.log(neighbours.farthest[inner > 0] / inner[inner > 0])
    if not len(spread) or spread.mean() == 0:
        return NEAR
    dimensions = float((1 / np.arange(middle, k)).sum() / spread.mean())
    return float(min(NEAR, (1 / ((k - 1) * size)) ** (1 / dimensions)))


def ratios(of: Neighbours, among_samples: Neighbours) -> npt.NDArray[np.float64]:
    """(M, k) distances in units of how far neighbours usually are, where both samples lie.

    Args:
        of: Of each of M samples, the nearest of N others, or of themselves.
        among_samples: The neighbours of the N among themselves.
    """
    scale = np.minimum(of.farthest[:, None], among_samples.farthest[of.index]).astype(np.float64)
    scale = np.maximum(scale, _DENSEST * float(np.median(among_samples.farthest)))
    otherwise = np.where(of.distance > 0, np.inf, 0.0)
    return np.divide(of.distance, scale, out=otherwise, where=scale > 0)


def _differ(group: Ints, given: Ints) -> Mask:
    """Whether a sample's set has more than one label."""
    members = group >= 0
    labels = np.unique(np.stack([group[members], given[members]]), axis=1)
    differ: Mask = members & (np.bincount(labels[0], minlength=1) > 1)[group]
    return differ
