"""A recipe gets what it asks for."""

import pytest
import torch

from abstain.training.loop.batches import held_out_rows
from abstain.training.objective.losses import make_objective, make_stop
from abstain.training.objective.stopping import AnalyticalStop, SettledStop, ValidationStop
from abstain.training.recipe import plan_of

GIVEN = torch.arange(100) % 3


def resolved(method, **settings):
    return plan_of(method, **settings).resolved(num_samples=100, num_classes=3)


@pytest.mark.parametrize(("method", "count"), [("nll", 0), ("ves", 10), ("auto", 20)])
def test_rows_are_held_out_once_and_by_the_seed_of_the_order(method, count):
    held_out, rest = held_out_rows(resolved(method), 100)
    assert len(held_out) == count
    assert sorted([*held_out.tolist(), *rest.tolist()]) == list(range(100))
    again, _ = held_out_rows(resolved(method), 100)
    assert torch.equal(held_out, again)
    other, _ = held_out_rows(resolved(method, seed_order=1), 100)
    assert count == 0 or not torch.equal(held_out, other)


@pytest.mark.parametrize(
    ("settings", "stop"),
    [
        ({"method": "nll"}, None),
        ({"method": "aes", "rate": 0.2}, AnalyticalStop),
        ({"method": "ves"}, ValidationStop),
        ({"method": "auto", "stop": "settled"}, SettledStop),
    ],
)
def test_each_stop_is_that_of_its_name(settings, stop):
    made = make_stop(resolved(**settings), 3)
    assert made is None if stop is None else isinstance(made, stop)


@pytest.mark.parametrize(
    ("dtype", "memory"), [(torch.float64, torch.float64), (torch.bfloat16, torch.float32)]
)
def test_only_the_trusted_loss_remembers_samples(dtype, memory):
    auto = make_objective(resolved("auto"), GIVEN, 3, dtype)
    assert auto.trust.state_dict()["memory"].dtype == memory
    assert auto.warm_up.held_out == 20
    plain = make_objective(resolved("nll"), GIVEN, 3, dtype)
    assert plain.trust is None
    assert plain.warm_up is None
