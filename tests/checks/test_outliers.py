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


def test_copies_have_no_outliers():
    assert not outliers(Index.of(np.ones((50, 3), np.float32)).neighbours()).is_issue.any()
