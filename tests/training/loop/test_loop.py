"""The loop against a plain one, and what it must do when things go wrong.

Tests of loop.py, and of what it is made of through the loop.
"""

import math
import threading

import numpy as np
import pytest
import small_runs as small
import torch
from torch.nn import functional

from abstain.errors import AbstainError
from abstain.support.optimizers import SGD
from abstain.training.plan import Plan
from abstain.training.recipe import plan_of
from abstain.training.saving.checkpoint import load_checkpoint
from abstain.training.train import train

import reference

SAMPLES, BATCH, EPOCHS = 43, 7, 3


class Net64(torch.nn.Module):
    """Two layers in float64, with the abstention output."""

    def __init__(self, outputs=4, dropout=0.0):
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.one, self.two = torch.nn.Linear(5, 8).double(), torch.nn.Linear(8, outputs).double()
        self.dropout = torch.nn.Dropout(dropout)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) / 3)

    def forward(self, x):
        return self.two(self.dropout(torch.tanh(self.one(x.double()))))


def loss_by_definition(recipe, logits, given, epoch):
    f = logits.softmax(-1)
    f_y, f_0 = f[torch.arange(len(given)), given], f[:, -1]
    if recipe.loss == "nll" or epoch < recipe.warm_up:
        return -f_y.log()
    if recipe.loss == "lq":
        q_y = f_y / (1 - f_0)
        return (1 - q_y**recipe.q) / recipe.q
    payoff = recipe.payoff
    if isinstance(payoff, str):  # a constant to the gradient
        rows = logits.detach().numpy()
        rules = [float(reference.payoff_by_rule(payoff, row, recipe.guard)) for row in rows]
        payoff = torch.tensor(rules, dtype=torch.float64)
    return -(f_y + f_0 / payoff).log()


def plain_loop(x, given, recipe, optimizer_class, **optimizer_settings):
    """The same training, written as one would without this package."""
    x = (x - x.mean(0)) / x.std(0)
    x, given = torch.from_numpy(x.astype(np.float32)), torch.from_numpy(given)
    model = Net64()
    optimizer = optimizer_class(model.parameters(), recipe.learning_rate, **optimizer_settings)
    steps = math.ceil(len(x) / recipe.batch) * recipe.epochs
    rates = {"constant": lambda _: 1.0, "cosine": lambda t: (1 + math.cos(math.pi * t / steps)) / 2}
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rates[recipe.schedule])
    history = []
    for epoch in range(recipe.epochs):
        seed = torch.Generator().manual_seed(recipe.seed_order * 1_000_003 + epoch)
        order = torch.randperm(len(x), generator=seed)
        for start in range(0, len(x), recipe.batch):
            index = order[start : start + recipe.batch]
            logits = model(x[index])
            losses = loss_by_definition(recipe, logits, given[index], epoch)
            optimizer.zero_grad()
            losses.mean().backward()
            if recipe.clip:
                torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
            optimizer.step()
            schedule.step()
            history.append((index, logits.detach(), losses.detach()))
    return model, history


@pytest.mark.parametrize(
    ("settings", "optimizer", "optimizer_settings"),
    [
        ({"method": "schedule", "warm_up": 1}, torch.optim.Adam, {}),
        ({"method": "mid", "warm_up": 0}, torch.optim.Adam, {}),
        ({"method": "exp", "warm_up": 1, "clip": 0.05}, torch.optim.Adam, {}),
        (
            {"method": "gamblers", "payoff": 2.5, "optimizer": "sgd", "schedule": "cosine"},
            torch.optim.SGD,
            {"momentum": 0.9, "nesterov": True},
        ),
        (
            {"method": "lq", "optimizer": "adamw", "weight_decay": 0.1},
            torch.optim.AdamW,
            {"weight_decay": 0.1},
        ),
        ({"method": "nll", "seed_order": 5}, torch.optim.Adam, {}),
    ],
    ids=lambda value: value.get("method", "") if isinstance(value, dict) else value.__name__,
)
def test_it_trains_what_a_plain_loop_trains(settings, optimizer, optimizer_settings):
    x, y = small.blobs(SAMPLES)
    settings = {"batch": BATCH, "epochs": EPOCHS, "learning_rate": 0.01} | settings
    recipe = plan_of(settings.pop("method"), **settings)
    trained = train((x, y), recipe, model=Net64())
    given = trained.data.given.numpy()
    resolved = trained.plan
    model, history = plain_loop(x, given, resolved, optimizer, **optimizer_settings)
    small.assert_same_weights(trained.model.state_dict(), model.state_dict(), rtol=1e-6, atol=1e-8)
    assert len(trained.history.steps) == len(history)
    for row, (index, logits, losses) in zip(trained.history.steps, history, strict=True):
        stake = 1 - logits.softmax(-1)[:, -1]
        right = logits[:, :-1].argmax(-1) == torch.from_numpy(given)[index]
        assert row["loss"] == pytest.approx(float(losses.mean()), rel=1e-6)
        assert row["stake"] == pytest.approx(float(stake.mean()), rel=1e-6)
        assert row["train_accuracy"] == pytest.approx(float(right.double().mean()))


def test_history_and_ledger_say_what_was_seen():
    x, y = small.blobs(SAMPLES)
    recipe = Plan(batch=BATCH, epochs=EPOCHS, warm_up=1, learning_rate=0.01, flip=0.3)
    trained = train((x, y), recipe, model=Net64())
    data = trained.data
    wrong_label = data.given != data.true
    assert wrong_label.any()
    _, history = plain_loop(x, data.given.numpy(), trained.plan, torch.optim.Adam)
    steps = math.ceil(SAMPLES / BATCH)
    for epoch, row in enumerate(trained.history.epochs):
        index, logits, losses = (
            torch.cat(parts)
            for parts in zip(*history[epoch * steps : (epoch + 1) * steps], strict=True)
        )
        corrupt = wrong_label[index]
        assert row["step"] == (epoch + 1) * steps
        assert row["loss"] == pytest.approx(float(losses.mean()), rel=1e-6)
        assert row["clean_loss"] == pytest.approx(float(losses[~corrupt].mean()), rel=1e-6)
        assert row["corrupt_loss"] == pytest.approx(float(losses[corrupt].mean()), rel=1e-6)
        if epoch == 0:
            assert "payoff" not in row
        else:
            payoffs = [float(reference.payoff_by_rule("euc", r, 1e-8)) for r in logits.numpy()]
            assert row["payoff"] == pytest.approx(np.exp(np.log(payoffs).mean()), rel=1e-5)
    beliefs, wrong = np.zeros(SAMPLES), np.zeros(SAMPLES)
    for index, logits, _ in history:
        q = functional.softmax(logits[:, :-1], -1)
        given = data.given[index]
        rows = index.numpy()
        beliefs[rows] += q[torch.arange(len(rows)), given].numpy() / EPOCHS
        wrong[rows] += (q.argmax(-1) != given).numpy()
    assert trained.ledger.visits.tolist() == [EPOCHS] * SAMPLES
    assert trained.ledger.wrong.tolist() == wrong.tolist()
    np.testing.assert_allclose(trained.ledger.belief.numpy(), beliefs, rtol=1e-5)


def test_seeds_of_noise_weights_and_order_are_separate():
    def run(**seeds):
        recipe = Plan(batch=BATCH, epochs=1, warm_up=0, flip=0.3, **seeds)
        trained = train(small.blobs(SAMPLES), recipe)
        return (
            trained.data.given.tolist(),
            [x.tolist() for x in trained.model.state_dict().values()],
            trained.history.steps[0]["loss"],
        )

    given, weights, loss = run()
    assert run() == (given, weights, loss)
    assert run(seed_noise=1)[0] != given
    by_init = run(seed_init=1)
    assert by_init[0] == given
    assert by_init[2] != loss
    by_order = run(seed_order=1)
    assert by_order[0] == given
    assert by_order[1] != weights


def test_the_random_numbers_of_the_program_are_left_alone():
    model = Net64(dropout=0.5)
    torch.manual_seed(7)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    train(small.blobs(20), Plan(epochs=2, warm_up=1), model=model)
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == np.random.get_state()[1].tolist()  # noqa: NPY002


def test_dropout_depends_on_the_seed_of_the_order_only():
    def weights(seed):
        torch.manual_seed(torch.seed() % 1000)  # whatever the program did before
        recipe = Plan(epochs=2, warm_up=1, batch=BATCH, seed_order=seed)
        return train(small.blobs(20), recipe, model=Net64(dropout=0.5)).model.two.weight.tolist()

    assert weights(0) == weights(0) != weights(1)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_every_precision_learns_one_after_the_other_in_one_program(precision):
    recipe = Plan(epochs=20, batch=16, clip=1.0, precision=precision)
    trained = train(small.blobs(90), recipe)
    assert trained.plan.precision == precision
    assert trained.history.epochs[-1]["train_accuracy"] > 0.95
    assert {x.dtype for x in trained.model.state_dict().values()} == {torch.float32}


def test_half_precision_computes_in_half_precision():
    seen = set()

    class Watch(Net64):
        def forward(self, x):
            outputs = torch.nn.functional.linear(x, torch.ones(4, 5)) + super().forward(x) * 0
            seen.add(torch.nn.functional.linear(x, torch.ones(4, 5)).dtype)
            return outputs

    train(small.blobs(20), Plan(epochs=1, warm_up=0, precision="bf16"), model=Watch())
    assert torch.bfloat16 in seen


def test_analytical_stop_ends_a_run_that_would_memorise():
    recipe = plan_of("aes", rate=0.3, flip=0.3, epochs=60, batch=8)
    trained = train(small.blobs(150), recipe)
    assert "has reached the plateau" in trained.outcome
    assert len(trained.history.steps) < 60 * 19
    assert trained.history.epochs[-1]["step"] == len(trained.history.steps)


def test_an_analytical_stop_that_never_came_says_why():
    trained = train(small.blobs(30), plan_of("aes", rate=0.3, epochs=2, batch=8))
    assert trained.outcome.startswith("all 2 epochs are done; to stop it was not yet: seen 8 of")


def test_validation_stop_gives_the_model_of_its_best_epoch():
    recipe = plan_of("ves", flip=0.4, epochs=40, batch=8, patience=3, hold_out=0.3, warm_up=1)
    trained = train(small.blobs(100, seed=3), recipe)
    accuracies = [row["validation_accuracy"] for row in trained.history.epochs]
    assert trained.epoch == int(np.argmax(accuracies)) + 1 < len(accuracies)
    held_out = trained.ledger.visits == 0
    assert held_out.sum() == 30
    inputs = trained.encoder.encode(trained.data)[held_out]
    with torch.no_grad():
        predicted = trained.model.eval()(inputs)[:, :-1].argmax(-1)
    agreement = float((predicted == trained.data.given[held_out]).double().mean())
    assert agreement == pytest.approx(max(accuracies))
    assert trained.summary()["validation_accuracy"] == max(accuracies)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_divergence_is_an_error_in_words(optimizer):
    recipe = Plan(epochs=5, learning_rate=1e6, optimizer=optimizer)
    with pytest.raises(AbstainError, match=r"the training has diverged; lower learning_rate \(1e"):
        train(small.blobs(90), recipe)


class _Breaks(Net64):
    """Weights that become NaN in the very last step of an epoch: no loss shows it yet."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        logits = super().forward(x)
        self.calls += self.training
        return logits * math.nan if self.calls == 2 * 7 and self.training else logits


@pytest.mark.parametrize("when", ["loss", "weights"])
def test_divergence_leaves_the_last_good_checkpoint_whole(tmp_path, monkeypatch, when):
    if when == "weights":  # the loss of the step is fine, its update is not
        original = SGD.step
        calls = []

        def step(self, *arguments):
            original(self, *arguments)
            calls.append(1)
            if len(calls) == 2 * 7:
                self.param_groups[0]["params"][0].data.fill_(math.nan)

        monkeypatch.setattr(SGD, "step", step)
    model = _Breaks() if when == "loss" else Net64()
    recipe = Plan(batch=BATCH, epochs=4, warm_up=1, optimizer="sgd")
    with pytest.raises(AbstainError, match=r"diverged.*the last good checkpoint, .* is whole"):
        train(small.blobs(SAMPLES), recipe, model=model, folder=tmp_path / "run")
    checkpoint = load_checkpoint(tmp_path / "run" / "last.safetensors")
    assert checkpoint.part("position")[1]["epoch"] == 1
    assert all(x.isfinite().all() for x in checkpoint.part("model")[0].values())


def test_it_trains_outside_the_main_thread():
    # Where no signal handler can be set.
    results = []
    thread = threading.Thread(
        target=lambda: results.append(train(small.blobs(20), Plan(epochs=1, warm_up=0)))
    )
    thread.start()
    thread.join()
    assert results[0].outcome == "the only epoch is done"
