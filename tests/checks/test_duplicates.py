import numpy as np
import pytest
from samples_of_checks import clusters
from sklearn.datasets import load_digits

from abstain.checks.duplicates import NEAR, between, near_duplicates, nearness, sets_of
from abstain.checks.neighbours import Index, rows_of


def slow(rows, near, k=10):
    """Pairs that are near, one after the other."""
    size = len(rows)
    distance = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    tenth = np.sort(distance, axis=1)[:, k - 1]
    pairs = set()
    for i in range(size):
        for j in np.argsort(distance[i], kind="stable")[:k]:
            scale = max(min(tenth[i], tenth[j]), np.median(tenth) / 4)
            if distance[i, j] < near * scale:
                pairs |= {(i, int(j)), (int(j), i)}
    return pairs


def planted(seed=0, copies=12):
    """Digits, the last rows of which are copies of the first with a little noise."""
    rows = load_digits().data[:500].astype(np.float32)
    rng = np.random.default_rng(seed)
    near = rows[:copies] + rng.normal(0, 0.3, (copies, rows.shape[1])).astype(np.float32)
    return np.concatenate([rows, near])


def test_sets_against_a_loop_over_pairs():
    rows = planted()
    neighbours = Index.of(rows).neighbours()
    found = near_duplicates(np.arange(len(rows)), np.zeros(len(rows), int), neighbours)
    pairs = slow(rows.astype(float), nearness(neighbours))
    assert set(np.flatnonzero(found.issues.is_issue)) == {i for i, _ in pairs}
    for i, j in pairs:
        assert found.group[i] == found.group[j] >= 0


def test_planted_copies_are_found_and_hardly_anything_else():
    rows = planted()
    found = near_duplicates(
        np.arange(len(rows)), np.zeros(len(rows), int), Index.of(rows).neighbours()
    )
    wanted = {*range(12), *range(500, 512)}
    got = set(np.flatnonzero(found.issues.is_issue))
    assert wanted <= got
    assert len(got - wanted) <= 4
    assert all(found.group[k] == found.group[500 + k] for k in range(12))


def test_thirty_frames_of_one_film_are_a_set():
    rows = planted()
    rng = np.random.default_rng(1)
    film = rows[50] + rng.normal(0, 0.05, (30, rows.shape[1])).astype(np.float32)
    every = np.concatenate([rows, film])
    found = near_duplicates(
        np.arange(len(every)), np.zeros(len(every), int), Index.of(every).neighbours()
    )
    assert len(set(found.group[-30:])) == 1
    assert found.group[-1] == found.group[50] >= 0


@pytest.mark.parametrize("columns", [1, 2, 3, 5, 8, 12, 20])
def test_chance_makes_about_one_near_sample_in_any_dimension(columns):
    rows = np.random.default_rng(columns).random((2000, columns), dtype=np.float32)
    neighbours = Index.of(rows).neighbours()
    found = near_duplicates(np.arange(2000), np.zeros(2000, int), neighbours)
    assert found.issues.is_issue.sum() <= 8
    assert 0 < nearness(neighbours) <= NEAR


def test_identical_inputs_are_duplicates_whatever_their_features():
    rows = rows_of(clusters()[0])
    prints = np.arange(len(rows))
    prints[7] = prints[300]
    given = np.zeros(len(rows), int)
    given[300] = 1
    found = near_duplicates(prints, given, Index.of(rows).neighbours())
    assert found.issues.score[7] == found.issues.score[300] == 0
    assert found.group[7] == found.group[300] >= 0
    assert found.differ[[7, 300]].all()
    assert found.differ.sum() == 2


def test_labels_differ_only_in_sets_that_have_several():
    found = near_duplicates(np.array([1, 1, 2, 2, 3]), np.array([0, 0, 0, 4, 1]))
    assert [x.tolist() for x in sets_of(found.group)] == [[0, 1], [2, 3]]
    assert found.differ.tolist() == [False, False, True, True, False]


def test_without_duplicates_there_are_no_sets():
    found = near_duplicates(np.arange(5), np.arange(5))
    assert sets_of(found.group) == []
    assert not found.differ.any()


def test_a_sample_that_differs_from_identical_ones_is_the_least_like_a_duplicate():
    rows = np.ones((40, 3), np.float32)
    rows[0, 0] = 5
    found = near_duplicates(np.arange(40), np.zeros(40, int), Index.of(rows).neighbours()).issues
    assert found.score[0] == pytest.approx(1, abs=0.01)
    assert not found.is_issue[0]
    assert (found.score[1:] == 0).all()


def test_copies_in_a_test_set_are_found_with_their_row():
    rows = planted(copies=0)
    rng = np.random.default_rng(3)
    fresh = load_digits().data[600:700].astype(np.float32)
    leaked = rows[[5, 40]] + rng.normal(0, 0.3, (2, rows.shape[1])).astype(np.float32)
    test = np.concatenate([fresh, leaked])
    index = Index.of(rows)
    test_prints = -1 - np.arange(102)
    test_prints[0] = 9  # the same input as row 9, whatever the features say
    found, partner = between(
        np.arange(500), test_prints, index.neighbours(), index.nearest_to(test)
    )
    assert partner[[5, 40, 9]].tolist() == [100, 101, 0]
    assert found.is_issue[[5, 40, 9]].all()
    assert found.score[9] == 0
    assert found.is_issue.sum() <= 5
    assert (partner[~found.is_issue] == -1).all()


def test_empty_inputs_are_no_duplicates_of_each_other():
    rows = rows_of(clusters()[0])
    rows[3] = rows[4] = rows[5] = 0
    rows[8] = rows[9]
    empty = np.isin(np.arange(len(rows)), [3, 4, 5])
    own = Index.of(rows).neighbours()
    prints = np.where(empty, 7, np.arange(100, 100 + len(rows)))
    found = near_duplicates(prints, np.arange(len(rows)) % 2, own, empty)
    assert (found.group[empty] == -1).all()
    assert found.group[8] == found.group[9] >= 0
    leaks, _ = between(prints, np.array([7]), empty=empty)
    assert not leaks.is_issue.any()
