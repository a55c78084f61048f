"""Tests of authors_plan.py, variants.py and what the stack does by them, against plain formulas."""

import math

import numpy as np
import pytest
import torch
from stacked_tasks import CLASSES, make_task, resolved
from torch.nn.functional import cross_entropy

from abstain.training.plan import Plan
from reproduction.authors_plan import AuthorsPlan, recipe_from_json
from reproduction.groups import make_groups
from reproduction.stacked.coteaching import PublicPlan
from reproduction.stacked.losses import Losses
from reproduction.stacked.nets import build_one
from reproduction.stacked.optim import RULES
from reproduction.stacked.text import PaddedTextNet
from reproduction.stacked.trainer import train_stacked
from reproduction.variants import CONTROLS, VARIANTS


def authors(task, **changes):
    changes = {
        "method": "gamblers",
        "payoff": 3.5,
        "epochs": 3,
        "batch": 5,
        "warm_up": 0,
        **changes,
    }
    return AuthorsPlan(**changes).resolved(num_samples=len(task.true), num_classes=CLASSES)


def losses_of(logits, given, *, warm=False, **changes):
    recipe = AuthorsPlan(**{"payoff": 3.5, "warm_up": 0, **changes})
    table = Losses.of([recipe], torch.device("cpu"), torch.float64)
    table.warm[:] = warm
    return table(logits[None], given[None])[0][0]


@pytest.fixture
def drawn():
    rng = torch.Generator().manual_seed(0)
    logits = 4 * torch.randn(9, CLASSES + 1, generator=rng, dtype=torch.float64)
    return logits, torch.randint(0, CLASSES, (9,), generator=rng)


def returned(logits, given, payoff, inside):
    beliefs = logits.softmax(-1)
    bet = beliefs.gather(-1, given[:, None])[:, 0]
    return -(bet + beliefs[:, -1] / payoff + inside).log()


def test_the_losses_of_the_authors_code_are_those_of_its_formulas(drawn):
    logits, given = drawn
    close = torch.testing.assert_close
    close(losses_of(logits, given, inside=0.2), returned(logits, given, 3.5, 0.2))
    close(losses_of(logits, given, fixed_payoff=1000.0), returned(logits, given, 1000, 0))
    found = losses_of(logits, given, warm=True, warm_payoff=10.0, inside=1e-10)
    close(found, returned(logits, given, 10, 1e-10))
    classes = logits[:, :-1]
    twice = cross_entropy(classes.softmax(-1), given, reduction="none")
    close(losses_of(logits, given, public=True), twice)
    plain = cross_entropy(classes, given, reduction="none")
    close(losses_of(logits, given, public=True, warm=True), plain)


def test_the_public_plan_is_that_of_arrays_over_epochs():
    epochs, rate = 99, 0.45
    forget = np.full(epochs + 1, rate)
    forget[:10] = np.linspace(0, rate, 10)
    rates = np.full(epochs + 1, 1e-3)
    rates[80:] = (epochs + 1 - np.arange(80, epochs + 1)) / 20 * 1e-3
    plan = PublicPlan(rate=rate, epochs=epochs, init_epoch=20)
    assert [plan.kept(e) for e in range(epochs)] == pytest.approx(1 - forget[1:])
    assert [plan.learning_rate_at(e) for e in range(epochs)] == pytest.approx(rates[1:])
    assert next(e + 1 for e in range(epochs) if plan.by_disagreement(e)) == 20


def test_momentum_is_that_of_torch():
    class Held:
        weights = working = first = None

    weight = torch.nn.Parameter(torch.tensor([[1.0, -2.0]]))
    plain = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
    held = Held()
    held.weights = held.working = [torch.tensor([[1.0, -2.0], [5.0, 5.0]])]
    held.first = [torch.zeros(2, 2)]
    held.beta1 = torch.full((2,), 0.9)
    held.learning_rate = torch.full((2,), 0.1)
    held.steps = torch.zeros(2)
    moves = torch.tensor([True, False])
    for step in range(4):
        gradient = torch.tensor([[0.5, -1.0]]) * (step + 1)
        weight.grad = gradient.clone()
        plain.step()
        gradients = [torch.cat((gradient, gradient))]
        RULES["sgd"].move(held, gradients, moves, RULES["sgd"].scales(held, moves))
    torch.testing.assert_close(held.weights[0][:1], weight.detach())
    assert held.weights[0][1].tolist() == [5.0, 5.0]


def test_the_padded_reader_classifies_the_state_after_all_padding():
    task = make_task("lstm-padded")
    module = build_one(
        "lstm-padded", input_shape=(7,), num_outputs=CLASSES + 1, vectors=task.vectors, seed=0
    )
    net = PaddedTextNet(module)
    tokens = task.inputs[:6].long()
    states, _ = module.lstm(module.vectors[tokens])
    found = net.forward(net.stack([module]), tokens[None])[0]
    torch.testing.assert_close(found, module.fc(states[:, -1]))


def test_accuracy_without_the_last_class_loses_just_that_class():
    task = make_task("mlp", samples=60)
    recipe = authors(task, method="nll", loss="nll", epochs=30)
    (result,) = train_stacked(task, [recipe], device="cpu")
    row = result.epochs[-1]
    labels = task.test_labels.numpy()
    shares = np.bincount(labels, minlength=CLASSES) / len(labels)
    assert shares @ np.array(result.by_class) == pytest.approx(row["test_accuracy"])
    assert row["test_accuracy"] > 0.9
    # All others are met, and of the last class none can be.
    assert row["test_accuracy_without_last"] <= 1 - shares[-1]
    assert row["test_accuracy_without_last"] >= row["test_accuracy"] - shares[-1]


def test_a_stop_by_held_out_loss_waits_longer_if_it_trains_on_that():
    task = make_task("mlp", samples=60)
    changes = {"rises": 2, "samples": 30, "epochs": 60, "flip": 0.5, "inside": 1e-10}
    apart, leaking = train_stacked(
        task, [authors(task, **changes), authors(task, leak=True, **changes)], device="cpu"
    )
    assert apart.stop_epoch < leaking.stop_epoch
    rising = [row["validation_loss"] for row in apart.epochs]
    assert min(rising[:-2]) < min(rising[-2:])
    assert "held-out loss above" in apart.outcome


def test_a_stop_at_an_epochs_end_compares_the_mean_loss_of_that_epoch():
    task = make_task("mlp", samples=60)
    recipe = authors(
        task, stop="analytical", rate=0.3, flip=0.3, ends_by_epoch=True, epochs=60, payoff=3.5
    )
    (result,) = train_stacked(task, [recipe], device="cpu")
    plateau = -(0.7 * math.log(0.7) + 0.3 * math.log(0.3 / 2.5))
    losses = [row["loss"] for row in result.epochs]
    assert losses[-1] < plateau <= min(losses[:-1])
    assert result.stop_epoch == len(losses)


def test_a_new_optimiser_every_epoch_changes_the_second_epoch_only():
    task = make_task("mlp")
    plain, fresh = (
        train_stacked(task, [authors(task, fresh=fresh)], device="cpu")[0].epochs
        for fresh in (False, True)
    )
    assert plain[0] == fresh[0]
    assert plain[1]["loss"] != fresh[1]["loss"]


def test_pairs_of_the_public_code_train_on_what_is_kept():
    task = make_task("mlp", samples=60)
    recipe = authors(
        task, method="coteaching-plus", rate=0.2, flip=0.2, epochs=30, public=True, payoff=math.inf
    )
    (result,) = train_stacked(task, [recipe], device="cpu")
    assert result.test_accuracy > 0.7


def test_a_setting_is_run_in_all_cells_of_a_column_and_has_its_own_name():
    names = [v.run().name for v in (*VARIANTS, *CONTROLS)]
    assert len(set(names)) == len(names)
    cells = {}
    for variant in VARIANTS:
        key = variant.data, variant.method, variant.what
        cells.setdefault(key, []).append((variant.table, variant.rate))
    assert len(cells[("cifar10", "lq", "the last class is never predicted")]) == 7
    assert len(cells[("imdb", "analytical", VARIANTS[-1].what)]) == 3


def test_a_recipe_with_these_settings_survives_json_and_is_told_apart():
    recipe = resolved("nll", make_task("mlp"))
    assert type(recipe_from_json(recipe.as_json())) is Plan
    own = AuthorsPlan(leak=True, payoff=math.inf)
    assert recipe_from_json(own.as_json()) == own


def test_what_a_stack_must_share_is_grouped_apart():
    runs = [v.run() for v in (*VARIANTS, *CONTROLS)]
    for group in make_groups(runs, 64):
        assert len({getattr(run.recipe, "exact", False) for run in group.runs}) == 1
