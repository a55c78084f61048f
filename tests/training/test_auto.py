"""The method `auto`: every trainer follows its definition, in one process or several.

Grouped by the method, which several modules make up. Tests of warm_up_phase.py; of trust.py and
averaging.py through the method.
"""

import copy
import math
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import small_runs as small
import torch
from torch.nn.functional import cross_entropy

from abstain.data import load
from abstain.errors import AbstainError
from abstain.models import build_model
from abstain.training.loop.batches import Batches
from abstain.training.objective.warm_up import held_out_samples
from abstain.training.plan import Plan
from abstain.training.recipe import plan_of
from abstain.training.train import train


@pytest.fixture
def _float64():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def batches(inputs, rows, recipe, epoch):
    made = Batches(
        inputs=inputs,
        rows=rows,
        size=recipe.batch,
        seed=recipe.seed_order,
        device=torch.device("cpu"),
    )
    return made.epoch(epoch)


def trusted_loss(row, label, memory):
    """The loss of one sample, by its definition."""
    q = torch.softmax(row[:-1], -1)
    fixed = q.detach()
    m, effective = len(q), float(1 / (fixed**2).sum())
    decided = (m - effective) / (m - 1)
    trust = min(1.0, memory[0] / memory[1])
    return trust**decided * math.sqrt(effective) * (1 - q[label])


def plainly(model, inputs, given, recipe, num_classes, test_labels):
    """Auto, sample by sample: rows of loss and test accuracy, and the model in the end."""
    total = len(given)
    generator = torch.Generator().manual_seed(recipe.seed_order)
    order = torch.randperm(total, generator=generator)
    count = held_out_samples(total)
    held_out, first_rows = order[:count], order[count:]
    optimizer = torch.optim.Adam(model.parameters(), recipe.learning_rate)
    averaged = copy.deepcopy(model)
    horizon = max(1.0, recipe.average * math.ceil(len(first_rows) / recipe.batch))
    memory = [[1 / num_classes] * 2 for _ in range(total)]
    shares = torch.bincount(given).double() / total
    untaught = float(-(shares * shares.log()).sum())
    best, best_epoch, kept_epoch, switched, steps, rows = math.inf, 0, 0, None, 0, []
    for epoch in range(recipe.epochs):
        losses = []
        is_warm_up = switched is None
        trained_on = first_rows if is_warm_up else torch.arange(total)
        for batch in batches(inputs, trained_on, recipe, epoch):
            logits, labels = model(batch.inputs), given[batch.index]
            if is_warm_up:
                own = cross_entropy(logits, labels, reduction="none")
            else:
                samples = zip(logits, labels.tolist(), batch.index.tolist(), strict=True)
                own = torch.stack([trusted_loss(x, y, memory[i]) for x, y, i in samples])
            optimizer.zero_grad()
            own.mean().backward()
            optimizer.step()
            losses += own.tolist()
            steps += 1
            share = max(1 / horizon, 9 / (10 + steps))
            with torch.no_grad():
                for a, b in zip(averaged.parameters(), model.parameters(), strict=True):
                    a.copy_((1 - share) * a + share * b)
            beliefs = torch.softmax(logits[:, :-1].detach(), -1)
            for q, y, i in zip(beliefs, labels.tolist(), batch.index.tolist(), strict=True):
                old = memory[i]
                memory[i] = [0.7 * old[0] + 0.3 * float(q[y]), 0.7 * old[1] + 0.3 * float(q.max())]
        with torch.no_grad():
            accuracy = (averaged(inputs)[:, :-1].argmax(-1) == test_labels).double().mean()
            rows.append((np.mean(losses), float(accuracy)))
            if is_warm_up:
                each = cross_entropy(averaged(inputs[held_out]), given[held_out], reduction="none")
                loss = float(each.mean())
                if loss < best:
                    best, best_epoch, best_each = loss, epoch, each
                error = np.std((each - best_each).numpy()) / math.sqrt(count)
                if loss - best <= min(error, 0.01 * untaught):
                    kept, kept_epoch = copy.deepcopy((averaged.state_dict(), memory)), epoch
                waited = epoch - best_epoch
                patience = max(3, round(recipe.epochs / 10))
                memorises = loss > best + 0.1 * untaught
                has_begun = best < 0.99 * untaught or memorises
                is_late = epoch + 1 >= recipe.epochs * 2 / 3 and has_begun
                if (best < untaught or memorises) and (waited >= patience or is_late):
                    switched = epoch + 1
                    weights, memory = kept
                    model.load_state_dict(weights)
                    averaged.load_state_dict(weights)
                    optimizer = torch.optim.Adam(model.parameters(), recipe.learning_rate)
                    steps = 0
    return rows, averaged, switched, kept_epoch + 1


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize("epochs", [8, 40])
def test_the_loop_does_what_the_definition_says(epochs):
    x, y = small.blobs(43)
    recipe = plan_of(
        "auto", epochs=epochs, batch=5, learning_rate=0.01, flip=0.3, seed_init=3, seed_order=4
    )
    network = build_model("mlp", input_shape=(5,), num_outputs=4, seed=3)
    torch.set_default_dtype(torch.float32)
    trained = train((x, y), recipe, test=(x, y), model=small.Reads64(copy.deepcopy(network)))
    torch.set_default_dtype(torch.float64)
    given, true = trained.data.given, trained.data.true
    inputs = trained.encoder.encode(trained.data)
    model = small.Reads64(network)
    expected, averaged, switched, kept = plainly(model, inputs, given, trained.plan, 3, true)
    assert switched is not None
    assert f"cross-entropy until epoch {kept}, " in trained.outcome
    got = [(row["loss"], row["test_accuracy"]) for row in trained.history.epochs]
    np.testing.assert_allclose(got, expected, rtol=1e-9)
    # A first step of Adam is as long for a gradient of rounding errors as for any other.
    small.assert_same_weights(
        trained.model.state_dict(), averaged.state_dict(), rtol=1e-9, atol=1e-9
    )
    assert trained.ledger.visits.tolist() == [epochs] * 43  # held out or not


@pytest.fixture
def begun(tmp_path):
    source = small.save_blobs(tmp_path, 43)
    model = small.save_net(tmp_path, small.NET64)

    def arguments(name, **settings):
        settings = {"batch": 7, "model": model, "learning_rate": 0.01, "epochs": 12} | settings
        recipe = plan_of("auto", flip=0.3, **settings)
        out = tmp_path / name
        where = {"source": str(source), "test": str(source), "folder": str(out)}
        return out, {**where, "recipe": recipe.as_json()}

    return arguments


def test_two_processes_train_what_one_does(begun):
    one, arguments = begun("one")
    small.start(arguments)
    two, arguments = begun("two")
    small.start_many(arguments)
    # A first step of Adam is as long for a gradient of rounding errors as for any other.
    small.assert_same_weights(small.weights(one), small.weights(two), rtol=1e-9, atol=1e-8)
    visits = [pq.read_table(out / "ledger.parquet")["visits"].to_pylist() for out in (one, two)]
    assert visits == [[12] * 43] * 2
    ends = [pq.read_table(out / "epochs.parquet").to_pydict() for out in (one, two)]
    for name in ("loss", "validation_loss", "test_accuracy"):
        np.testing.assert_allclose(ends[0][name], ends[1][name], rtol=1e-9)


def test_an_interrupted_run_goes_on_to_the_same_bits(begun, monkeypatch):
    from abstain.training.loop import loop

    straight, arguments = begun("straight")
    train(**{**arguments, "recipe": Plan.from_json(arguments["recipe"])})
    broken, arguments = begun("broken")
    arguments["recipe"] = Plan.from_json(arguments["recipe"])
    steps = 0
    step = loop.Loop._step

    def interrupted(self, batch):
        nonlocal steps
        steps += 1
        if steps in (9, 40, 61):  # in the warm-up, and after it
            self._leave()
        step(self, batch)

    monkeypatch.setattr(loop.Loop, "_step", interrupted)
    for _ in range(3):
        with pytest.raises(loop.Interrupted):
            train(**arguments, resume=steps > 0)
    train(**arguments, resume=True)
    small.assert_same_weights(small.weights(straight), small.weights(broken))


def test_a_collapse_is_noticed_and_undone(monkeypatch):
    from abstain.training.loop.step import Learner
    from abstain.training.objective import losses as objective

    def ruinous(log_belief, given, _trust):
        return log_belief.gather(-1, given.unsqueeze(-1)).squeeze(-1)  # away from every label

    monkeypatch.setattr(objective, "trusted_losses", ruinous)
    judged = []
    restart = Learner.restart

    def counted(learner, weights):
        judged.append(1)
        restart(learner, weights)

    monkeypatch.setattr(Learner, "restart", counted)
    x, y = small.blobs(200)
    trained = train((x, y), plan_of("auto", epochs=20, batch=8), test=(x, y))
    assert len(judged) == 2
    assert "the loss collapsed" in trained.outcome
    last = trained.history.epochs[-1]
    assert last["epoch"] < 20
    assert last["test_accuracy"] > 0.95


def test_what_cannot_be_learnt_is_left_to_cross_entropy():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3)).astype(np.float32)
    y = rng.integers(0, 3, 200).astype(str)
    trained = train((x, y), plan_of("auto", epochs=6, batch=20, learning_rate=1e-6))
    assert "stayed above that of the class-frequency baseline" in trained.outcome


def test_a_given_warm_up_ends_when_it_says():
    recipe = plan_of("auto", warm_up=2, epochs=5)
    assert recipe.warm_up_ends == "fixed"
    trained = train(small.blobs(60), recipe)
    assert trained.outcome == "all 5 epochs are done"
    with pytest.raises(AbstainError, match=r"warm_up_ends='held-out' .* got stop='validation'"):
        plan_of("auto", stop="validation")


@pytest.mark.parametrize("scale", [1.0, 10.0])
def test_held_out_labels_count_by_their_weights(scale):
    """Else a warm-up ends where it begins to disagree with labels that are not to count."""
    data = load(small.blobs(200))
    weights = torch.rand(200, generator=torch.Generator().manual_seed(0)).round() * scale
    trained = train(replace(data, weights=weights), plan_of("auto", epochs=1))
    rows = torch.from_numpy(trained.held_out.rows)
    inputs = trained.encoder.encode(data)[rows]
    with torch.no_grad():
        losses = cross_entropy(trained.model(inputs), data.given[rows], reduction="none")
    expected = (losses * weights[rows]).sum() / weights[rows].sum()
    assert trained.history.epochs[0]["validation_loss"] == pytest.approx(float(expected), rel=1e-5)
    none = train(replace(data, weights=torch.zeros(200)), plan_of("auto", epochs=1))
    assert none.history.epochs[0]["validation_loss"] > 0
