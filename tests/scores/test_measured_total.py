"""Parts of an estimate add up to the number that was measured."""

import pytest
from hypothesis import given as forall
from hypothesis import strategies as st

from abstain.scores.interval import Interval
from abstain.scores.measured_total import to_measured


@forall(st.lists(st.tuples(st.integers(1, 50), st.floats(0, 1)), min_size=1), st.floats(0, 1))
def test_parts_add_up_to_what_was_measured_and_none_holds_more_than_it_can(parts, share):
    total = sum(size for size, _ in parts)
    estimated = sum(size * p for size, p in parts)
    measured = Interval(value=share * total, low=share * total / 2, high=(1 + share) * total / 2)
    values = []
    for size, p in parts:
        part = Interval(value=size * p, low=size * p / 2, high=size * (1 + p) / 2)
        found = to_measured(part, size, estimated=estimated, measured=measured, total=total)
        assert -1e-6 <= found.low <= found.value <= found.high <= size + 1e-6
        assert found.value <= measured.value + 1e-6
        assert found.high <= max(measured.high, found.value)
        values.append(found.value)
    assert sum(values) == pytest.approx(measured.value, abs=1e-6)
