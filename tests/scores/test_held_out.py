"""The standard error of held-out accuracy."""

import math

import numpy as np
import pytest

from abstain.scores.held_out import HeldOut


def test_its_standard_error_is_that_of_a_share():
    held_out = HeldOut(epoch=1, accuracy=0.8, rows=np.arange(400))
    assert held_out.disagreement == pytest.approx(0.2)
    assert held_out.standard_error == pytest.approx(math.sqrt(0.8 * 0.2 / 400), rel=0.02)


def test_a_model_that_met_all_labels_is_not_certain_to_meet_all():
    assert HeldOut(epoch=1, accuracy=1.0, rows=np.arange(20)).standard_error > 0.03
