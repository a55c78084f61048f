"""What the first epoch may be asked; tests/scores/test_wrong_share.py has a fast learner."""

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from abstain.scores.first_epoch import FirstEpoch
from abstain.scores.held_out import HeldOut
from abstain.scores.plateau import Plateau


def first_epoch(contradicted, aside=0.35, samples=20_000):
    """One that contradicts three tenths of its surest, and on the whole so many."""
    tenths = np.linspace(0.3, 2 * contradicted - 0.3, 10)
    curve = np.cumsum(tenths) / np.arange(1, 11)
    plateau = Plateau(share=0.2, samples=samples // 5, disagreement=float(curve[1]), curve=curve)
    held_out = HeldOut(epoch=1, accuracy=1 - aside, rows=np.arange(1000))
    return FirstEpoch(plateau=plateau, held_out=held_out, samples=samples, num_classes=5)


def test_a_share_is_raised_to_what_it_is_at_certainty():
    raised = first_epoch(0.37).raised(0.1, contradicted=0.2)
    assert raised == pytest.approx(0.29, abs=0.01)


@pytest.mark.parametrize(
    ("asked", "value", "contradicted"),
    [
        (first_epoch(0.6), 0.1, 0.2),  # it knew far less than the model at its best
        (first_epoch(0.37), 0.1, 0.35),  # nothing was learnt by heart
        (first_epoch(0.37), 0.28, 0.2),  # chance explains the difference
        (first_epoch(0.37), 0.35, 0.2),  # it never lowers a share
        (first_epoch(0.7, aside=0.7), 0.1, 0.2),  # the model errs often
    ],
)
def test_it_is_not_asked_where_it_cannot_know_better(asked, value, contradicted):
    assert asked.raised(value, contradicted) == pytest.approx(value, abs=0.005)


@drawn(st.floats(0.3, 0.65), st.floats(0, 0.6), st.floats(0, 0.6))
def test_a_share_is_never_lowered_nor_raised_beyond_what_it_contradicts(told, value, contradicted):
    asked = first_epoch(told)
    raised = asked.raised(value, contradicted)
    assert value <= raised <= max(value, asked.plateau.disagreement)
    assert 0 <= asked.heard <= 1


def test_the_interval_hears_less_of_one_that_is_far_behind():
    heard = [first_epoch(told).heard for told in (0.35, 0.45, 0.5, 0.65)]
    assert heard == sorted(heard, reverse=True)
    assert (heard[0], heard[-1]) == (1, 0)
