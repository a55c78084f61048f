"""Co-teaching+: who teaches whom what. test_stacked.py compares trained pairs with a plain loop."""

import math

import numpy as np
import pytest
import torch

from abstain.training.plan import Plan
from reproduction.stacked.coteaching import CoTeachingPlan, exchange


def chosen_by_loops(predictions, losses, counts, kept, by_disagreement):
    """Choose what each of two networks hands to the other, sample by sample."""
    trains = np.zeros(losses.shape, dtype=bool)
    size = losses.shape[1]
    candidates = [
        i
        for i in range(size)
        if counts[0, i] and (predictions[0, i] != predictions[1, i] or not by_disagreement)
    ]
    number = max(1, math.floor(kept * len(candidates) + 1e-6)) if candidates else 0
    for teacher in (0, 1):
        ranked = sorted(candidates, key=lambda i: losses[teacher, i])
        for i in ranked[:number]:
            trains[1 - teacher, i] = True
    return trains


@pytest.mark.parametrize("by_disagreement", [True, False])
@pytest.mark.parametrize("kept", [1.0, 0.7, 0.01])
def test_exchange_agrees_with_loops(kept, by_disagreement):
    rng = np.random.default_rng(0)
    for classes in (2, 10):
        predictions = rng.integers(classes, size=(3, 2, 30))
        losses = rng.exponential(size=(3, 2, 30))
        counts = np.broadcast_to(np.arange(30) < 25, (3, 2, 30))
        got = exchange(
            *(torch.from_numpy(x.copy()) for x in (predictions, losses, counts)),
            kept,
            by_disagreement,
        )
        for pair in range(3):
            triple = predictions[pair], losses[pair], counts[pair]
            assert got[pair].tolist() == chosen_by_loops(*triple, kept, by_disagreement).tolist()


def test_a_pair_that_agrees_on_a_batch_is_taught_as_in_plain_co_teaching():
    same = torch.zeros(2, 4, dtype=torch.int64)
    losses = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]])
    counts = torch.tensor([[True, True, True, False]] * 2)
    by_agreement = exchange(same, losses, counts, 0.7, True)
    assert by_agreement.tolist() == exchange(same, losses, counts, 0.7, False).tolist()
    assert by_agreement.tolist() == [[False, True, True, False], [True, True, False, False]]


def test_each_pair_may_have_its_own_share_and_rule():
    predictions = torch.tensor([[[0, 0, 0, 0], [0, 0, 1, 1]]] * 2)
    counts = torch.ones(2, 2, 4, dtype=torch.bool)
    kept, rule = torch.tensor([0.5, 0.75]), torch.tensor([True, False])
    chosen = exchange(predictions, torch.rand(2, 2, 4), counts, kept, rule)
    assert chosen.sum(-1).tolist() == [[1, 1], [3, 3]]
    assert not chosen[0, :, :2].any()


def test_the_plan_follows_the_recipe():
    recipe = Plan(rate=0.45, epochs=200, warm_up=20, learning_rate=0.01)
    plan = CoTeachingPlan.of(recipe)
    assert [plan.by_disagreement(epoch) for epoch in (0, 19, 20)] == [False, False, True]
    assert plan.kept(10) == plan.kept(199) == pytest.approx(0.55)
    assert plan.kept(1) == pytest.approx(1 - 0.045)
    assert plan.learning_rate_at(79) == 0.01
    assert plan.learning_rate_at(199) == pytest.approx(0.01 / 120)
