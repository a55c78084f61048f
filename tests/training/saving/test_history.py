import math

import pyarrow.parquet as pq
import pytest

from abstain.training.saving.history import Average, History


def test_average_is_the_weighted_mean_of_what_came():
    values = [3.0, 1.0, 4.0, 1.0, 5.0]
    average = Average(decay=0.9)
    for n, value in enumerate(values, start=1):
        weights = [0.9 ** (n - 1 - i) for i in range(n)]
        mean = sum(w * v for w, v in zip(weights, values, strict=False)) / sum(weights)
        assert average.add(value) == pytest.approx(mean)


def test_packed_and_unpacked_it_is_the_same_and_lacking_numbers_are_nan():
    history = History()
    history.steps += [{"step": 1, "loss": 2.5}, {"step": 2, "loss": 1 / 3, "payoff": 1.9}]
    history.epochs.append({"epoch": 1, "test_accuracy": 0.9})
    again = History.unpacked(*history.packed())
    assert math.isnan(again.steps[0].pop("payoff"))
    assert again == history


@pytest.mark.parametrize("part", ["steps", "epochs"])
def test_a_part_without_rows_is_packed_too(part):
    # A checkpoint within the first epoch has no epoch yet.
    history = History(**{part: [{"step": 1.0}]})
    assert History.unpacked(*history.packed()) == history
    assert History.unpacked(*History().packed()) == History()


def test_written_as_parquet_with_a_row_for_each(tmp_path):
    history = History(steps=[{"step": 1.0, "loss": 2.0}, {"step": 2.0, "loss": 1.0}], epochs=[])
    history.write(tmp_path)
    assert pq.read_table(tmp_path / "steps.parquet").to_pydict() == {
        "step": [1.0, 2.0],
        "loss": [2.0, 1.0],
    }
    assert pq.read_table(tmp_path / "epochs.parquet").num_rows == 0
