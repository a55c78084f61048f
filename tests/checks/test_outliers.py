import numpy as np
import torch
from samples_of_checks import clusters

from abstain.checks.neighbours import Index, rows_of
from abstain.checks.outliers import outliers


def test_strangers_are_found_though_five_of_them_are_alike():
    rows, _ = clusters(size=1000)
    rng = np.random.default_rng(5)
    alone = 3 * rng.normal(size=(5, 16))
    alike = 3 * rng.normal(size=16) + 0.3 * rng.normal(size=(5, 16))
    strange = torch.from_numpy(np.concatenate([alone, alike]).astype(np.float32))
    found = outliers(Index.of(rows_of(torch.cat([rows, strange]))).neighbours())
    assert found.is_issue[-10:].sum() >= 9
    assert found.is_issue[:-10].mean() < 0.02
    worst = np.argsort(found.score)[:10]
    assert (worst >= 1000).sum() >= 9


def test_the_rule_is_that_of_datalab():
    """The rule: mean cosine distance to the ten nearest, and the fence of its documentation."""
    rows = rows_of(clusters(size=500)[0])
    apart = 1 - rows.astype(float) @ rows.T
    np.fill_diagonal(apart, np.inf)
    mean = np.sort(apart, axis=1)[:, :10].mean(axis=1)
    lower, upper = np.percentile(mean, [25, 75])
    expected = mean > upper + (1 / 0.37 - 1) * (upper - lower)
    found = outliers(Index.of(rows).neighbours())
    np.testing.assert_array_equal(found.is_issue, expected)
    assert 0 < expected.sum() < 50


def test_copies_have_no_outliers():
    assert not outliers(Index.of(np.ones((50, 3), np.float32)).neighbours()).is_issue.any()
