"""Numbers as people read them: rounded, never to what is not so."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abstain.report.numbers import count, percent, rough, ticks, width
from abstain.scores.interval import Interval

SHARES = st.floats(0, 1)


@given(SHARES)
def test_no_other_share_is_shown_as_none_or_all(share):
    shown = percent(share)
    if 1e-6 < share < 1 - 1e-6:
        assert shown not in ("0%", "100%")
    assert float(shown.rstrip("%")) == pytest.approx(100 * share, abs=0.051)


def test_what_is_not_a_number_is_a_dash():
    assert percent(math.nan) == "–"


@given(SHARES, st.floats(0, 0.5))
def test_a_rough_value_lies_in_its_interval(value, half):
    found = Interval(value=value, low=max(0, value - half), high=min(1, value + half))
    shown = float(rough(found).rstrip("%")) / 100
    assert found.low - 0.0051 <= shown <= found.high + 0.0051


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_lie_inside_at_equal_distances(low, span):
    places = ticks(low, low + span)
    assert 2 <= len(places) <= 12
    steps = [b - a for a, b in pairwise(places)]
    assert max(steps) == pytest.approx(min(steps), rel=1e-3, abs=1e-6)
    assert low - 1e-6 * span <= places[0] <= places[-1] <= low + span * (1 + 1e-6)


@given(st.floats(-5, 5))
def test_a_bar_is_never_wider_than_its_room(share):
    assert 0 <= float(width(share).rstrip("%")) <= 100


def test_thousands_are_set_apart():
    assert count(1_234_567.4) == "1,234,567"
