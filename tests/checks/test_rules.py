import numpy as np
import pytest
from hypothesis import given as forall
from hypothesis import strategies as st

from abstain.checks.rules import far_out, low, odd

MEASURES = st.lists(st.floats(0.01, 100), min_size=3, max_size=50)


@forall(MEASURES, st.floats(0.01, 100))
@pytest.mark.parametrize("rule", [low, odd, far_out])
def test_a_flag_is_a_score_below_a_half_in_any_unit(rule, measures, unit):
    found, scaled = rule(measures), rule(np.array(measures) * unit)
    assert ((found.score >= 0) & (found.score <= 1)).all()
    clear = np.abs(found.score - 0.5) > 1e-4  # rounding decides only on the very border
    assert (found.is_issue == (found.score < 0.5))[clear].all()
    np.testing.assert_allclose(scaled.score, found.score, atol=1e-4)


def test_three_times_too_large_is_odd_but_not_low():
    measures = [1.0, 1.0, 1.0, 3.1, 0.3]
    assert low(measures).is_issue.tolist() == [False, False, False, False, True]
    assert odd(measures).is_issue.tolist() == [False, False, False, True, True]


@pytest.mark.parametrize("measures", [[0.0, 0.0, 0.0, 5.0], [np.nan, np.nan]])
def test_where_nothing_is_usual_nothing_is_unusual(measures):
    assert not low(measures).is_issue.any()
    assert not odd(measures).is_issue.any()


def test_what_is_unknown_is_no_issue():
    assert low([1.0, np.nan, 1.0, 0.1]).is_issue.tolist() == [False, False, False, True]


def test_no_spread_no_outliers():
    assert not far_out([1.0] * 10 + [2.0]).is_issue.any()
