import math

import numpy as np
import pytest
import torch

from abstain.training.objective.losses import Objective
from abstain.training.plan import Plan
from abstain.training.recipe import METHODS

import reference

LOGITS = torch.tensor([[2.0, -1.0, 0.5, 0.3], [0.0, 0.1, -3.0, 2.0]], dtype=torch.float64)
GIVEN = torch.tensor([0, 2])


def by_definition(recipe, row, label, epoch):
    f = np.exp(row) / np.exp(row).sum()
    q = f[:-1] / f[:-1].sum()
    if recipe.loss == "nll" or epoch < (recipe.warm_up or 0):
        return -math.log(f[label])
    if recipe.loss == "gamblers":
        payoff = recipe.payoff
        if isinstance(payoff, str):
            payoff = float(reference.payoff_by_rule(payoff, row, recipe.guard))
        return -math.log(f[label] + f[-1] / payoff)
    if recipe.loss == "trusted":  # with nothing remembered yet
        return (1 - q[label]) / (q**2).sum() ** 0.5
    if recipe.loss == "lq":
        return (1 - max(q[label], recipe.truncate or 0) ** recipe.q) / recipe.q
    return (1 - q[label]) / (q**2).sum()


@pytest.mark.parametrize("epoch", [0, 5])
@pytest.mark.parametrize("method", METHODS)
def test_the_loss_is_its_definition_before_and_after_the_warm_up(method, epoch):
    bare = Plan(**{"method": method, "rate": 0.2, **METHODS[method]})
    recipe = bare.resolved(num_samples=100, num_classes=3)
    losses = Objective(recipe)(LOGITS, GIVEN, epoch)
    rows = zip(LOGITS.numpy(), GIVEN.tolist(), strict=True)
    expected = [by_definition(recipe, row, label, epoch) for row, label in rows]
    np.testing.assert_allclose(losses.numpy(), expected, rtol=1e-9)


def test_the_reported_payoff_is_the_payoff_used():
    rule = Objective(Plan(epochs=9, warm_up=1))
    payoff = rule.payoff(LOGITS, epoch=1)
    expected = [float(reference.payoff_by_rule("euc", row, 1e-8)) for row in LOGITS.numpy()]
    np.testing.assert_allclose(payoff.numpy(), expected, rtol=1e-9)
    assert rule.payoff(LOGITS, epoch=0) is None  # cross-entropy has none
    fixed = Objective(Plan(epochs=9, warm_up=0, payoff=2.5))
    assert fixed.payoff(LOGITS, epoch=0).tolist() == [2.5, 2.5]
    assert Objective(Plan(epochs=9, loss="lq", warm_up=0)).payoff(LOGITS, epoch=0) is None
