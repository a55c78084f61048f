"""Weights of samples: from a column, an array or a file, and what they do to a training."""

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
import torch

from abstain.data import load
from abstain.errors import AbstainError
from abstain.training.plan import Plan
from abstain.training.recipe import plan_of
from abstain.training.train import train


@pytest.fixture
def table(tmp_path):
    """Two columns of numbers, a label and a weight."""
    rng = np.random.default_rng(0)
    columns = {
        "a": rng.normal(size=12),
        "b": rng.normal(size=12),
        "label": ["x", "y"] * 6,
        "weight": np.arange(12) / 11,
    }
    csv.write_csv(pa.table(columns), tmp_path / "table.csv")
    pq.write_table(pa.table(columns), tmp_path / "table.parquet")
    return tmp_path


@pytest.mark.parametrize("name", ["table.csv", "table.parquet"])
def test_a_column_of_weights_is_no_feature(table, name):
    data = load(table / name, weights="weight")
    assert data.columns == ("a", "b")
    assert data.weights.tolist() == pytest.approx((np.arange(12) / 11).tolist())
    assert load(table / name).columns == ("a", "b", "weight")


def test_weights_from_files_are_found_by_id(table):
    ids = [str(k) for k in reversed(range(12))]
    weights = pa.table({"id": ids, "weight": np.arange(12.0)})
    csv.write_csv(weights, table / "w.csv")
    pq.write_table(weights, table / "w.parquet")
    np.save(table / "w.npy", np.arange(12.0)[::-1])
    for name in ("w.csv", "w.parquet", "w.npy"):
        data = load(table / "table.csv", weights=table / name, features=["a", "b"])
        assert data.weights.tolist() == list(range(11, -1, -1))


def test_weights_of_arrays(tmp_path):
    np.savez(tmp_path / "d.npz", x=np.eye(4), y=[0, 1, 0, 1], weight=[1, 2, 3, 0])
    assert load(tmp_path / "d.npz", weights="weight").weights.tolist() == [1, 2, 3, 0]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, -1.0] * 6, "must be 0 or more, got -1 in row 1"),
        ([np.nan] * 12, "must be 0 or more, got nan"),
        ([0.0] * 12, "must not all be 0"),
        ([1.0] * 11, "one for each of 12 samples"),
    ],
)
def test_weights_that_make_no_sense_are_refused(table, values, message):
    np.save(table / "w.npy", values)
    with pytest.raises(AbstainError, match=message):
        load(table / "table.csv", weights=table / "w.npy")


def test_weights_that_are_not_there_are_refused(table, image_folder):
    for weights, message in (
        ("wieght", "did you mean weight"),
        ("nowhere.csv", "a file that exists"),
        (table / "table.csv", "the columns id and weight"),
    ):
        with pytest.raises(AbstainError, match=message):
            load(table / "table.csv", weights=weights)
    with pytest.raises(AbstainError, match="must be a file for photos"):
        load(image_folder(), weights="weight")
    pq.write_table(pa.table({"id": ["0"], "weight": [1.0]}), table / "few.parquet")
    with pytest.raises(AbstainError, match="for every sample, got none for 1, 2"):
        load(table / "table.csv", weights=table / "few.parquet")


def trained(folder, weights=None):
    recipe = plan_of("nll", epochs=4, batch=12, optimizer="sgd", learning_rate=0.5)
    return train(folder / "d.npz", recipe, **({} if weights is None else {"weights": weights}))


def test_weights_multiply_the_loss(tmp_path):
    """A weight of 2 is a gradient twice as large; one of 0 makes a sample count for nothing."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 3)).astype(np.float32), np.arange(12) % 2
    extra = {"one": np.ones(12), "none": np.repeat([1.0, 0.0], [8, 4])}
    np.savez(tmp_path / "d.npz", x=x, y=y, **extra)
    plain, one, none = (trained(tmp_path, name) for name in (None, "one", "none"))
    states = [list(run.model.state_dict().values()) for run in (plain, one, none)]
    assert all(torch.equal(a, b) for a, b in zip(states[0], states[1], strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(states[0], states[2], strict=True))
    # Other labels where the weight is 0: nothing may change but what is recorded of them.
    np.savez(tmp_path / "d.npz", x=x, y=np.where(extra["none"] > 0, y, 1 - y), **extra)
    other = list(trained(tmp_path, "none").model.state_dict().values())
    assert all(torch.equal(a, b) for a, b in zip(states[2], other, strict=True))


def test_a_weighted_run_resumes_with_its_weights(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "d.npz", x=rng.normal(size=(12, 3)), y=np.arange(12) % 2)
    np.save(tmp_path / "w.npy", np.linspace(0, 1, 12))
    recipe = Plan(epochs=2, warm_up=1)
    weights = {"weights": str(tmp_path / "w.npy")}
    train(tmp_path / "d.npz", recipe, folder=tmp_path / "run", **weights)
    again = train(folder=tmp_path / "run", resume=True)
    assert again.data.weights[-1] == 1.0
    np.save(tmp_path / "w.npy", np.ones(12))
    with pytest.raises(AbstainError, match="data must be those that the run"):
        train(folder=tmp_path / "run", resume=True)
