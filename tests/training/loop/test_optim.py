"""Our optimisers against those of torch that they stand for."""

import pytest
import torch

from abstain.embed.finetuning import FineTuned
from abstain.training.loop.step import make_optimizer, make_schedule
from abstain.training.plan import Plan
from abstain.training.recipe import plan_of


def trained(make):
    """Weights and state after some steps on a small problem."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(5, 3, generator=generator))
    inputs = torch.randn(8, 5, generator=generator)
    optimizer = make([weight])
    for _ in range(5):
        optimizer.zero_grad()
        (inputs @ weight).square().mean().backward()
        optimizer.step()
    return weight, optimizer


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("adam", lambda w: torch.optim.Adam(w, 0.01, weight_decay=0.1, fused=True)),
        ("adamw", lambda w: torch.optim.AdamW(w, 0.01, weight_decay=0.1, fused=True)),
        (
            "sgd",
            lambda w: torch.optim.SGD(w, 0.01, momentum=0.9, nesterov=True, weight_decay=0.1),
        ),
    ],
)
def test_it_steps_as_the_optimiser_of_torch_and_takes_its_state(name, theirs):
    recipe = Plan(optimizer=name, learning_rate=0.01, weight_decay=0.1)
    ours, optimizer = trained(lambda w: make_optimizer(w, recipe))
    expected, reference = trained(theirs)
    assert torch.equal(ours, expected)
    assert not ours.grad.requires_grad
    optimizer.load_state_dict(reference.state_dict())
    for mine, its in zip(optimizer.state[ours].values(), reference.state[expected].values(),
                         strict=True):  # fmt: skip
        assert mine is its or torch.equal(torch.as_tensor(mine), torch.as_tensor(its))


def test_a_schedule_of_torch_counts_its_steps(recwarn):
    weight = torch.nn.Parameter(torch.ones(1))
    recipe = Plan(schedule="linear", learning_rate=1.0, optimizer="sgd")
    optimizer = make_optimizer([weight], recipe)
    schedule = make_schedule(optimizer, recipe, steps=10)
    for _ in range(10):
        weight.sum().backward()
        optimizer.step()
        schedule.step()
    assert schedule.get_last_lr() == [pytest.approx(0.01)]
    assert not recwarn.list  # torch warns of a schedule that steps before its optimiser


@pytest.mark.parametrize("schedule", ["constant", "cosine", "linear", "one-cycle"])
def test_a_pretrained_network_moves_at_its_share_of_the_learning_rate(schedule):
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
    network[1].bias.requires_grad_(False)
    model = FineTuned(network, columns=2, num_outputs=3, rate=0.2)
    recipe = plan_of("nll", finetune=True, schedule=schedule)
    optimizer = make_optimizer(model, recipe)
    schedule = make_schedule(optimizer, recipe, steps=20)
    head, backbone = optimizer.param_groups
    assert head["params"] == [model.head.weight, model.head.bias]
    assert backbone["params"] == [network[1].weight]
    rates = []
    for _ in range(20):
        optimizer.step()
        schedule.step()
        rates.append(schedule.get_last_lr())
        assert rates[-1][1] == pytest.approx(0.2 * rates[-1][0], rel=1e-6, abs=1e-8)
    assert max(rate for rate, _ in rates) == pytest.approx(3e-3, rel=0.1)
