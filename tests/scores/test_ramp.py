import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from abstain.scores.ramp import ramp


@drawn(st.floats(-10, 10), st.floats(-5, 5), st.floats(0.01, 5))
def test_a_ramp_rises_from_none_to_all(x, begin, length):
    ends = (begin, begin + length)
    assert ramp(x, ends) == pytest.approx(np.interp(x, ends, (0, 1)), abs=1e-9)
