"""Every model of a stack becomes what it would have become alone, trained in the plainest way."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from stacked_tasks import CLASSES, make_task, resolved

from abstain import noise
from abstain.errors import AbstainError
from abstain.models import build_model
from abstain.training.loop.batches import Batches
from abstain.training.objective.losses import Objective
from abstain.training.objective.stopping import AnalyticalStop
from reproduction.stacked import trainer
from reproduction.stacked.coteaching import CoTeachingPlan
from reproduction.stacked.nets import build_one, conv_pool_relu
from reproduction.stacked.runs import Run
from reproduction.stacked.text import attend, recur, recur_back
from reproduction.stacked.trainer import train_stacked

import reference


@pytest.fixture
def _float64():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def given_labels(task, recipe):
    planted = noise.plant(
        task.true.numpy(),
        np.arange(len(task.true)),
        recipe.flip_kind,
        recipe.flip,
        recipe.seed_noise,
        num_classes=CLASSES,
    )
    return torch.from_numpy(planted.given)


def numbers(inputs):
    """Pixels in [0, 1]; tokens are none, and stay."""
    return inputs.to(torch.get_default_dtype()) / 255 if inputs.dtype == torch.uint8 else inputs


def batches_of(task, recipe, rows=None):
    rows = torch.arange(len(task.true)) if rows is None else rows
    return Batches(
        inputs=task.inputs,
        rows=rows,
        size=recipe.batch,
        seed=recipe.seed_order,
        device=torch.device("cpu"),
    )


class SlowLaProp:
    """LaProp as it is defined, one parameter after the other."""

    def __init__(self, parameters, learning_rate):
        self.learning_rate, self.steps = learning_rate, 0
        self.state = [(p, torch.zeros_like(p), torch.zeros_like(p)) for p in parameters]

    def zero_grad(self):
        for parameter, _, _ in self.state:
            parameter.grad = None

    @torch.no_grad()
    def step(self):
        self.steps += 1
        for parameter, mean, square in self.state:
            square.copy_(0.9 * square + 0.1 * parameter.grad**2)
            unit = parameter.grad / ((square / (1 - 0.9**self.steps)).sqrt() + 1e-15)
            mean.copy_(0.9 * mean + 0.1 * self.learning_rate * unit)
            parameter -= mean / (1 - 0.9**self.steps)


def plainly(task, recipe, rows=None):
    """A loop over batches of one model: its mean loss and its test accuracy after each epoch."""
    model = build_one(
        task.network,
        input_shape=tuple(task.inputs.shape[1:]),
        num_outputs=CLASSES + 1,
        vectors=task.vectors,
        seed=recipe.seed_init,
    )
    given, objective = given_labels(task, recipe), Objective(recipe)
    optimizer_class = {"adam": torch.optim.Adam, "laprop": SlowLaProp}[recipe.optimizer]
    optimizer = optimizer_class(model.parameters(), recipe.learning_rate)
    batches, epochs = batches_of(task, recipe, rows), []
    for epoch in range(recipe.epochs):
        total = 0.0
        for batch in batches.epoch(epoch):
            losses = objective(model(numbers(batch.inputs)), given[batch.index], epoch)
            optimizer.zero_grad()
            losses.mean().backward()
            optimizer.step()
            total += losses.sum().item()
        answers = model(numbers(task.test_inputs))[:, :-1].argmax(-1)
        accuracy = (answers == task.test_labels).double().mean().item()
        epochs.append((total / len(batches.rows), accuracy))
    return epochs


def of_all_methods(task, **changes):
    """Five batches an epoch for four epochs: twenty steps, of which five are warm-up."""
    changes = {"epochs": 4, **changes}
    made = [
        resolved("nll", task, **changes),
        resolved("gamblers", task, payoff=3.2, warm_up=1, **changes),
        resolved("gamblers", task, payoff=math.inf, warm_up=0, **changes),
        resolved("schedule", task, warm_up=1, **changes),
        resolved("schedule", task, guard=1e-4, warm_up=0, **changes),
        resolved("mid", task, warm_up=1, **changes),
        resolved("exp", task, warm_up=2, flip_kind="pairflip", **changes),
        resolved("small-stake", task, warm_up=1, **changes),
        resolved("lq", task, **changes),
        resolved("lq-truncated", task, truncate=0.22, warm_up=0, **changes),
    ]
    # Each with its own seeds, and one that ends earlier.
    made = [replace(r, seed_init=k, seed_order=k % 3, seed_noise=k % 4) for k, r in enumerate(made)]
    return [*made[:-1], replace(made[-1], epochs=3)]


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize("network", ["mnist-cnn", "cifar-cnn", "mlp", "lstm", "lstm-attention"])
def test_stacked_models_learn_what_each_would_alone(network):
    task = make_task(network)
    # Losses know nothing of networks, and the larger ones would take long.
    recipes = of_all_methods(task)[:: 3 if network.startswith("lstm") else 1]
    for recipe, result in zip(recipes, train_stacked(task, recipes, device="cpu"), strict=True):
        expected = plainly(task, recipe)
        got = [(row["loss"], row["test_accuracy"]) for row in result.epochs]
        assert result.recipe == recipe
        assert result.stop_epoch == len(got) == recipe.epochs
        np.testing.assert_allclose(got, expected, rtol=1e-9)


@pytest.mark.usefixtures("_float64")
def test_records_the_figures_of_an_epoch_under_the_names_of_the_loop():
    task = make_task("mlp")
    fixed = resolved("gamblers", task, payoff=3.2, warm_up=1, epochs=2)
    result = train_stacked(task, [fixed, resolved("nll", task, flip=0.0)], device="cpu")
    warm, later = result[0].epochs
    shown = {"epoch", "loss", "train_accuracy", "stake", "clean_loss", "corrupt_loss"}
    looked_at = {"test_accuracy", "test_accuracy_without_last"}
    assert set(warm) == shown | looked_at  # no payoff: cross-entropy has none
    assert later["payoff"] == pytest.approx(3.2)
    wrong = (given_labels(task, fixed) != task.true).double().mean().item()
    parts = wrong * later["corrupt_loss"] + (1 - wrong) * later["clean_loss"]
    assert parts == pytest.approx(later["loss"])
    assert set(result[1].epochs[0]) == shown - {"corrupt_loss"} | looked_at


@pytest.mark.usefixtures("_float64")
def test_analytical_stop_freezes_a_model_within_an_epoch_and_leaves_the_others_alone():
    task = make_task("mlp", samples=600)
    stopped = resolved("aes", task, flip=0.3, rate=0.3, payoff=3.5, epochs=30)
    entropy = replace(stopped, payoff=math.inf, seed_init=1)  # nll, stopped at its own entropy
    other = resolved("nll", task, epochs=4)
    results = train_stacked(task, [other, stopped, entropy], device="cpu")
    assert results[0].outcome == "all 4 epochs are done"
    assert results[0].epochs[-1]["loss"] == pytest.approx(plainly(task, other)[-1][0], rel=1e-9)
    for recipe, result in zip((stopped, entropy), results[1:], strict=True):
        assert "has reached the plateau" in result.outcome
        steps = steps_until_stop(task, recipe)
        assert result.stop_epoch * 120 == pytest.approx(steps)
        assert len(result.epochs) == math.ceil(result.stop_epoch)
        assert result.stop_epoch % 1 > 0


def steps_until_stop(task, recipe):
    """The step after which the loop for one model would end: it looks at every tenth."""
    model = build_model("mlp", input_shape=(1, 4, 4), num_outputs=5, seed=recipe.seed_init)
    given, objective = given_labels(task, recipe), Objective(recipe)
    optimizer = torch.optim.Adam(model.parameters())
    stop, steps = AnalyticalStop(recipe.rate, recipe.payoff, CLASSES), 0
    for epoch in range(recipe.epochs):
        for batch in batches_of(task, recipe).epoch(epoch):
            losses = objective(model(numbers(batch.inputs)), given[batch.index], epoch)
            optimizer.zero_grad()
            losses.mean().backward()
            optimizer.step()
            steps += 1
            if stop.update(losses.mean().item(), len(losses)):
                return math.ceil(steps / 10) * 10
    raise AssertionError("never stopped")


@pytest.mark.usefixtures("_float64")
def test_validation_stop_trains_on_the_rest_and_keeps_the_best_epoch():
    task = make_task("mlp", samples=60)
    recipe = resolved("ves", task, payoff=3.5, epochs=60, patience=3, hold_out=0.3, warm_up=0)
    longer = resolved("nll", task, epochs=3)
    result, other = train_stacked(task, [recipe, longer], device="cpu", keep_samples=True)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(recipe.seed_order))
    alone = plainly(task, replace(recipe, epochs=len(result.epochs)), rows=order[18:])
    np.testing.assert_allclose([row["loss"] for row in result.epochs], [x for x, _ in alone], 1e-9)
    best = np.argmax([row["validation_accuracy"] for row in result.epochs])
    assert len(result.epochs) == result.stop_epoch == best + 1 + 3
    assert result.test_accuracy == result.epochs[best]["test_accuracy"]
    assert "no accuracy above" in result.outcome
    assert np.flatnonzero(np.isnan(result.belief)).tolist() == sorted(order[:18].tolist())
    assert other.stop_epoch == 3


@pytest.mark.usefixtures("_float64")
def test_keeps_belief_and_abstention_of_every_sample():
    task = make_task("mlp", samples=23)
    recipes = [resolved("schedule", task, epochs=2, warm_up=1), resolved("nll", task, epochs=5)]
    result = train_stacked(task, recipes, device="cpu", keep_samples=True)[0]
    recipe = recipes[0]
    model = build_model("mlp", input_shape=(1, 4, 4), num_outputs=5, seed=recipe.seed_init)
    given, objective = given_labels(task, recipe), Objective(recipe)
    optimizer = torch.optim.Adam(model.parameters())
    belief, rejection = torch.zeros(23), torch.zeros(23)
    for epoch in range(2):
        for batch in batches_of(task, recipe).epoch(epoch):
            logits = model(numbers(batch.inputs))
            label = given[batch.index]
            outputs = logits.detach().softmax(-1)
            own = outputs.gather(-1, label[:, None])[:, 0]
            belief[batch.index] += own / (1 - outputs[:, -1]) / 2
            rejection[batch.index] = outputs[:, -1]
            optimizer.zero_grad()
            objective(logits, label, epoch).mean().backward()
            optimizer.step()
    np.testing.assert_allclose(result.belief, belief, rtol=1e-5)
    np.testing.assert_allclose(result.rejection, rejection, rtol=1e-5, atol=1e-7)
    assert result.given.tolist() == given.tolist()


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize("network", ["lstm", "lstm-attention"])
def test_text_networks_stack_under_laprop_too(network):
    task = make_task(network)
    recipes = [
        resolved("nll", task, optimizer="laprop"),
        resolved("gamblers", task, optimizer="laprop", payoff=3.2, warm_up=1),
    ]
    for recipe, result in zip(recipes, train_stacked(task, recipes, device="cpu"), strict=True):
        got = [(row["loss"], row["test_accuracy"]) for row in result.epochs]
        np.testing.assert_allclose(got, plainly(task, recipe), rtol=1e-9)


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize(
    ("network", "init_epoch"), [("mlp-256", 0), ("mlp-256", 2), ("lstm-attention", 2)]
)
def test_coteaching_pairs_stack_beside_other_models(network, init_epoch):
    task = make_task(network)
    recipe = resolved("gamblers", task, payoff=math.inf, epochs=5, warm_up=init_epoch)
    pairs = [replace(recipe, method="coteaching-plus", rate=0.4, seed_init=seed) for seed in (0, 1)]
    results = train_stacked(task, [pairs[0], resolved("nll", task), pairs[1]], device="cpu")
    for recipe, result in zip(pairs, results[::2], strict=True):
        run = Run.begin(0, recipe, task.inputs, task.true, CLASSES)
        settings = {"num_outputs": CLASSES + 1, "vectors": task.vectors}
        shape = tuple(task.inputs.shape[1:])
        pair = tuple(
            build_one(network, input_shape=shape, seed=seed, **settings) for seed in run.seeds
        )
        given = given_labels(task, recipe)
        epochs = (
            (
                (numbers(batch.inputs), given[batch.index])
                for batch in batches_of(task, recipe).epoch(e)
            )
            for e in range(recipe.epochs)
        )
        reference.co_teach(pair, epochs, CoTeachingPlan.of(recipe))
        answers = [model(numbers(task.test_inputs))[:, :-1].argmax(-1) for model in pair]
        accuracy = np.mean([(a == task.test_labels).double().mean().item() for a in answers])
        assert result.test_accuracy == pytest.approx(accuracy)
        assert result.outcome == "all 5 epochs are done"


def test_a_network_without_a_stacked_form_is_trained_all_the_same(monkeypatch):
    monkeypatch.setattr(trainer, "_NETS", {})
    task = make_task("lstm")
    recipes = [resolved("nll", task, seed_init=seed) for seed in (0, 1)]
    for recipe, result in zip(recipes, train_stacked(task, recipes, device="cpu"), strict=True):
        expected = [loss for loss, _ in plainly(task, recipe)]
        assert [row["loss"] for row in result.epochs] == pytest.approx(expected, rel=1e-5)


def test_results_come_in_the_order_of_the_recipes_and_are_reported():
    task = make_task("mlp")
    recipes = [resolved("nll", task, epochs=epochs, seed_init=epochs) for epochs in (3, 1, 4, 2)]
    reported = []
    results = train_stacked(
        task, recipes, device="cpu", report=lambda k, row: reported.append((k, row))
    )
    assert [len(result.epochs) for result in results] == [3, 1, 4, 2]
    for number, result in enumerate(results):
        assert [row for k, row in reported if k == number] == result.epochs


def test_the_test_set_is_looked_at_as_often_as_asked_and_at_the_end():
    task = make_task("mlp", samples=60)
    recipes = [resolved("nll", task, epochs=epochs) for epochs in (7, 3)]
    often = train_stacked(task, recipes, device="cpu")
    seldom = train_stacked(task, recipes, device="cpu", evaluate_every=4)
    looked = [[row["epoch"] for row in r.epochs if "test_accuracy" in row] for r in seldom]
    assert looked == [[3, 4, 5, 6, 7], [3]]  # at 3 for the sake of the other, and the last five
    assert [r.test_accuracy for r in seldom] == [r.test_accuracy for r in often]
    stops = resolved("ves", task, payoff=3.5, epochs=3, warm_up=0)
    (result,) = train_stacked(task, [stops], device="cpu", evaluate_every=4)
    assert all("test_accuracy" in row for row in result.epochs)
    huge = replace(recipes[0], learning_rate=1e30)
    (result,) = train_stacked(task, [huge], device="cpu", evaluate_every=4)
    assert result.outcome == "diverged"
    assert 0 <= result.test_accuracy <= 1


def test_a_model_that_diverges_ends_alone():
    task = make_task("mlp")
    fine, bad = resolved("nll", task), resolved("nll", task, seed_init=1)
    inputs = task.inputs.double() / 255
    task = replace(task, inputs=inputs.float(), test_inputs=task.test_inputs.float() / 255)
    results = train_stacked(task, [fine, bad], device="cpu")
    assert all(result.outcome == "all 3 epochs are done" for result in results)
    huge = [replace(r, learning_rate=1e30) for r in (fine, bad)]
    assert {r.outcome for r in train_stacked(task, huge, device="cpu")} == {"diverged"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batch": 7}, "recipes must agree in batch, got 5, 7"),
        ({"learning_rate": 0.1}, "recipes must agree in learning_rate"),
        ({"clip": 1.0}, "clip must be None here, got 1.0"),
        ({"optimizer": "adamw"}, "optimizer must be one of adam, laprop, sgd here, got adamw"),
        ({"epochs": None}, "recipes must be resolved"),
    ],
)
def test_says_what_cannot_be_stacked(changes, words):
    task = make_task("mlp")
    recipe = resolved("nll", task)
    with pytest.raises(AbstainError, match=words):
        train_stacked(task, [recipe, replace(recipe, **changes)], device="cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("side", "channels", "outputs"), [(28, 1, 24), (12, 24, 56), (14, 8, 16)])
def test_fused_convolution_computes_what_the_plain_one_does(side, channels, outputs, precision):
    rng = torch.Generator().manual_seed(0)
    shapes = (3, 40, side, side, channels), (3, 25 * channels, outputs), (3, 1, outputs)
    # Few different values, so that neither way rounds anything: equal is equal, ties and all.
    plain = [torch.randint(-2, 3, shape, generator=rng).double() for shape in shapes]
    slope = None
    found = []
    for place, dtype in (("cpu", torch.float64), ("cuda", precision)):
        tensors = [x.to(place, dtype).requires_grad_() for x in plain]
        y = conv_pool_relu(*tensors, 5)
        if slope is None:
            slope = torch.randint(-1, 2, y.shape, generator=rng).double()
        gradients = torch.autograd.grad(y, tensors, slope.to(place, dtype))
        found.append([x.double().cpu() for x in (y, *gradients)])
    for expected, got in zip(*found, strict=True):
        torch.testing.assert_close(
            got, expected, rtol=1e-2, atol=1e-2 * expected.abs().max().item()
        )


@pytest.mark.gpu
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("hidden", "batch"), [(64, 5), (128, 64), (256, 70)])
def test_fused_recurrence_computes_what_the_plain_one_does(hidden, batch, precision):
    rng = torch.Generator().manual_seed(0)
    before = torch.randn(3, 6, batch, 4 * hidden, generator=rng).to(precision)
    weight = (torch.randn(3, hidden, 4 * hidden, generator=rng) / hidden**0.5).to(precision)
    slopes = torch.randn(3, 6, batch, hidden, generator=rng).to(precision)
    found = []
    for place, dtype in (("cpu", torch.float64), ("cuda", precision)):
        gates, w, s = (x.to(place, dtype).clone() for x in (before, weight, slopes))
        states, cells = recur(gates, w)
        found.append([x.double().cpu() for x in (states, cells, recur_back(gates, cells, w, s))])
    for expected, got in zip(*found, strict=True):
        error = (got - expected).norm() / expected.norm()
        assert error < (1e-2 if precision == torch.bfloat16 else 1e-3)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_fused_attention_computes_what_the_plain_one_does(precision):
    rng = torch.Generator().manual_seed(0)
    states = (0.2 * torch.randn(2, 37, 3, 128, generator=rng)).to(precision)
    slope = torch.randn(2, 3, 128, generator=rng).to(precision)
    last = torch.tensor([[0, 36, 31], [5, 32, 20]])
    found = []
    for place, dtype in (("cpu", torch.float64), ("cuda", precision)):
        x = states.to(place, dtype).requires_grad_()
        mean = attend(x, last.to(place))
        (slopes,) = torch.autograd.grad(mean, x, slope.to(place, dtype))
        found.append([y.double().cpu() for y in (mean, slopes)])
    for expected, got in zip(*found, strict=True):
        error = (got - expected).norm() / expected.norm()
        assert error < (1e-2 if precision == torch.bfloat16 else 1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("network", ["mnist-cnn", "lstm", "lstm-attention"])
def test_a_gpu_gives_the_losses_of_the_cpu(network):
    task = make_task(network, samples=400)
    recipes = [resolved(m, task, warm_up=1, batch=50) for m in ("schedule", "small-stake", "mid")]
    results = [train_stacked(task, recipes, device=place) for place in ("cpu", "cuda")]
    for slow, fast in zip(*results, strict=True):
        assert fast.epochs[0]["loss"] == pytest.approx(slow.epochs[0]["loss"], rel=2e-2)
