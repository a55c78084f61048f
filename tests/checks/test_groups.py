import numpy as np
import pytest
from samples_of_checks import clusters

from abstain.checks.groups import weak_groups
from abstain.checks.neighbours import rows_of


@pytest.mark.parametrize("seed", range(3))
def test_a_cluster_with_many_disagreements_is_found(seed):
    rows, cluster = clusters(size=2000, centres=10, seed=seed)
    rng = np.random.default_rng(seed)
    disagrees = rng.random(2000) < np.where(cluster == 3, 0.5, 0.05)
    found = weak_groups(rows_of(rows), disagrees)
    weak = found.issues.is_issue
    assert weak[cluster == 3].mean() > 0.9
    assert weak[cluster != 3].mean() < 0.05
    for k in range(found.group.max() + 1):  # by hand
        inside = found.group == k
        agreement = (1 - disagrees[inside].mean()) / (1 - disagrees[~inside].mean())
        np.testing.assert_allclose(found.issues.score[inside], min(agreement, 1), rtol=1e-5)


@pytest.mark.parametrize("noise", [0.02, 0.2])  # of little, chance doubles the share easily
def test_even_noise_has_no_weak_groups(noise):
    rows, _ = clusters(size=2000, centres=10)
    flagged = [
        weak_groups(rows_of(rows), np.random.default_rng(seed).random(2000) < noise).issues.is_issue
        for seed in range(5)
    ]
    assert not np.any(flagged)


def test_less_than_twice_as_much_is_not_worth_a_look_however_sure():
    rows, cluster = clusters(size=10_000, centres=5)
    disagrees = np.random.default_rng(0).random(10_000) < np.where(cluster == 3, 0.7, 0.4)
    assert not weak_groups(rows_of(rows), disagrees).issues.is_issue.any()


@pytest.mark.parametrize("value", [False, True])
def test_all_alike_is_no_weakness(value):
    rows, _ = clusters(size=200)
    assert not weak_groups(rows_of(rows), np.full(200, value)).issues.is_issue.any()
