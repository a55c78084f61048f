import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_wine

from abstain.checks.giveaways import giveaways


def table_of(**columns):
    return torch.from_numpy(np.stack([*columns.values()], axis=1)), tuple(columns)


def test_columns_that_say_the_label_are_named_in_whatever_way_they_say_it():
    rng = np.random.default_rng(0)
    given = rng.integers(4, size=2000)
    shuffled = np.array([2, 0, 3, 1])[given]
    table, columns = table_of(
        noise=rng.normal(size=2000),
        code=shuffled.astype(float),
        category=given + 4.0 * rng.integers(10, size=2000),  # forty categories, ten for each class
        customer=rng.permutation(2000).astype(float),
        sorted_number=given * 2000.0 + rng.permutation(2000),
        half_missing=np.where(rng.random(2000) < 0.5, np.nan, given),
        mostly=np.where(rng.random(2000) < 0.2, rng.integers(4, size=2000), given).astype(float),
        empty=np.full(2000, np.nan),
        account=given + 4.0 * rng.integers(50, size=2000),  # ten rows of each, too few for a rule
    )
    found = giveaways(table, given, columns)
    assert {x.column for x in found} == {"code", "category", "sorted_number"}
    assert all(x.skill > 0.95 for x in found)


def test_a_value_that_is_missing_for_one_class_only_says_it():
    given = np.arange(1000) % 2
    column = np.where(given == 1, np.nan, 5.0)[:, None]
    assert [x.column for x in giveaways(torch.from_numpy(column), given)] == ["0"]


@pytest.mark.parametrize("source", [load_breast_cancer, load_wine])
def test_good_columns_of_real_tables_are_no_giveaways(source):
    inputs, given = source(return_X_y=True)
    assert giveaways(torch.from_numpy(inputs), given) == ()


@pytest.mark.parametrize("given", [np.zeros(50, int), np.array([0])])
def test_one_class_gives_nothing_away(given):
    assert giveaways(torch.rand(len(given), 3), given) == ()


@pytest.mark.parametrize("believed", [0, 1])
def test_where_hardly_a_label_is_believed_nothing_is_given_away(believed):
    given = np.arange(20) % 2
    flagged = np.arange(20) >= believed
    assert giveaways(torch.rand(20, 3), given, flagged=flagged) == ()
