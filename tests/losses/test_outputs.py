"""Belief, stake, abstention and prediction, against the softmax they come from."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from abstain import AbstainError, abstention, belief, stake
from abstain.losses import predict


@given(st.lists(st.floats(-20, 20), min_size=3, max_size=8))
def test_pieces_agree_with_softmax(row):
    logits = torch.tensor(row, dtype=torch.float64)
    f = logits.softmax(-1)
    assert_close(abstention(logits), f[-1])
    assert_close(stake(logits), f[:-1].sum(), rtol=1e-6, atol=1e-12)
    assert_close(belief(logits), f[:-1] / f[:-1].sum(), rtol=1e-6, atol=1e-9)


def test_small_stakes_are_exact_where_one_minus_f0_is_not():
    logits = torch.tensor([0.0, 0.0, 60.0])
    assert 1 - logits.softmax(-1)[-1] == 0
    assert_close(stake(logits), 2 * torch.exp(torch.tensor(-60.0)))


def test_classes_may_lie_in_any_dimension():
    logits = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    assert_close(belief(logits, dim=1), belief(logits.movedim(1, -1)).movedim(-1, 1))
    assert_close(stake(logits, dim=1) + abstention(logits, dim=1), torch.ones(2, 3))
    assert predict(logits, 0.5, dim=1).shape == (2, 3)


@given(st.integers(0, 40), st.floats(0, 1))
def test_predict_answers_exactly_the_asked_share(samples, coverage):
    logits = torch.randn(samples, 6, generator=torch.Generator().manual_seed(samples))
    answers = predict(logits, coverage)
    answered = answers >= 0
    assert answered.sum() == round(coverage * samples)
    assert (answers[answered] == logits[answered, :-1].argmax(-1)).all()
    if answered.any() and not answered.all():
        assert abstention(logits)[answered].max() <= abstention(logits)[~answered].min()


def test_wrong_input_is_named():
    with pytest.raises(AbstainError, match=r"coverage must lie in \[0, 1\], got 1.5"):
        predict(torch.zeros(1, 3), 1.5)
    with pytest.raises(AbstainError, match="3 or more, got 2"):
        belief(torch.zeros(1, 2))
