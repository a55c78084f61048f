"""Inputs as numbers."""

import pytest
import torch

from abstain.data import load
from abstain.data.inputs import all_finite, rows_at


@pytest.mark.parametrize("place", [0, 777, -1])
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_one_number_that_is_not_finite_is_seen_among_many(place, value):
    numbers = torch.full((1000,), 3e38)  # their sum overflows
    numbers[::2] *= -1
    assert all_finite(numbers)
    assert all_finite(numbers.abs())
    numbers[place] = value
    numbers[500] = -value
    assert not all_finite(numbers)


def test_rows_are_the_same_in_memory_and_lazy(tmp_path):
    lines = [f"{k},{k / 7},{k % 2}" for k in range(30)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,label", *lines]))
    whole, lazy = load(tmp_path / "t.csv"), load(tmp_path / "t.csv", memory_budget=1)
    one_by_one = [lazy.inputs[k] for k in range(30)]
    order = [3, 29, 3, 0]
    for inputs in (whole.inputs, lazy.inputs, one_by_one):
        assert torch.equal(rows_at(inputs, order), whole.inputs[order])
