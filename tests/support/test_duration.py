import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abstain.errors import AbstainError
from abstain.support.duration import seconds_of, spoken


@given(st.integers(0, 10**6))
def test_what_is_spoken_is_understood(seconds):
    assert seconds_of(spoken(seconds), "budget") == seconds


@pytest.mark.parametrize(
    "wrong", ["", "soon", "-5", "10 m", "1m1h", "m", "5d", -1, math.nan, math.inf, True, "1e3"]
)
def test_what_is_no_duration_is_refused(wrong):
    with pytest.raises(AbstainError, match=r"^budget must be a duration such as 90s, 10m"):
        seconds_of(wrong, "budget")
