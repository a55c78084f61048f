"""A batch in parts trains what a whole batch trains, and leaves no trace."""

import threading
import time

import numpy as np
import pytest
import small_runs as small
import torch
from torch import nn

from abstain.errors import AbstainError
from abstain.models import MLP, CifarCNN, MnistCNN, ResNet18, TextLSTM
from abstain.training.loop.loop import Loop
from abstain.training.parts import Parts, inseparable
from abstain.training.recipe import Recipe
from abstain.training.step_layout import Layout
from abstain.training.train import train


@pytest.fixture(autouse=True)
def _no_trace():
    before = threading.active_count(), torch.get_num_threads()
    yield
    assert (threading.active_count(), torch.get_num_threads()) == before


def net64(seed=0):
    torch.manual_seed(seed)
    convolutions = nn.Sequential(nn.Conv2d(2, 4, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten())
    return nn.Sequential(convolutions, nn.LayerNorm(36), nn.Linear(36, 5)).double()


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("channels_last", [False, True])
def test_twenty_steps_in_parts_are_twenty_whole_steps(count, channels_last):
    layout = Layout(channels_last)
    generator = torch.Generator().manual_seed(0)
    # 7 is no multiple of the parts, and 2 samples are not enough for three.
    sizes = [7, 12, 2, 3] * 5
    batches = [
        (
            layout.lay(torch.randn(n, 2, 8, 8, generator=generator).double()),
            torch.randint(0, 5, (n,), generator=generator),
        )
        for n in sizes
    ]

    def trained(parts_count):
        model = layout.place(net64())
        optimizer = torch.optim.Adam(model.parameters(), 0.01, fused=True)
        seen = []
        with Parts(parts_count, model) as parts:
            for x, y in batches:
                optimizer.zero_grad()
                logits = parts(model, x)
                nn.functional.cross_entropy(logits, y).backward()
                seen.append(logits.detach())
                optimizer.step()
        return model.state_dict(), torch.cat(seen)

    (whole, logits), (divided, logits_divided) = trained(1), trained(count)
    small.assert_same_weights(whole, divided, rtol=0, atol=1e-9)
    torch.testing.assert_close(logits, logits_divided, rtol=0, atol=1e-9)


def test_frozen_and_unused_parameters_get_no_gradient():
    model = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)])
    model[0].requires_grad_(False)
    with Parts(2, model) as parts:
        parts(lambda x: model[1](model[0](x)), torch.ones(4, 3)).sum().backward()
    assert [layer.weight.grad is None for layer in model] == [True, False, True]


def test_no_graph_is_made_where_none_is_wanted():
    model = net64()
    x = torch.randn(9, 2, 8, 8).double()
    with Parts(3, model) as parts, torch.no_grad():
        outputs = parts(model, x)
    assert outputs.grad_fn is None
    torch.testing.assert_close(outputs, model(x).detach())


def test_every_part_has_a_thread_of_its_own_that_computes_alone():
    seen = {}

    def answer(x):
        seen[threading.get_ident()] = torch.get_num_threads()
        time.sleep(0.01)  # or one thread might do the work of two
        return model(x)

    torch.set_num_threads(2)
    try:
        model = net64()
        with Parts(3, model) as parts:
            parts(answer, torch.randn(6, 2, 8, 8).double())
        assert list(seen.values()) == [1, 1, 1]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("backward", [False, True])
def test_an_error_in_any_part_comes_out_and_ends_all(part, backward):
    model = net64()

    class Breaks(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            raise ZeroDivisionError

    def answer(x):
        outputs = model(x)
        if x[0, 0, 0, 0] != part:
            return outputs
        if backward:
            return Breaks.apply(outputs)
        raise ZeroDivisionError

    x = torch.zeros(4, 2, 8, 8).double()
    x[2:] = 1
    with pytest.raises(ZeroDivisionError), Parts(2, model) as parts:
        parts(answer, x).sum().backward()


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (MLP(3, (4,)), None),
        (MnistCNN(3), None),
        (CifarCNN(3), None),
        (TextLSTM(3, vocabulary=9, attention=True), None),
        (nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.0)), None),
        (MLP(3, (4,), dropout=0.1), "Dropout"),
        (ResNet18(3), "ResNet18"),
        (nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), "BatchNorm1d"),
        (nn.LSTM(2, 2, num_layers=2, dropout=0.1), "LSTM"),
        (nn.Embedding(4, 2, max_norm=1.0), "Embedding"),
        (nn.Embedding(4, 2, sparse=True), "Embedding"),
        (type("Own", (nn.Linear,), {})(2, 2), "Own"),
    ],
)
def test_only_models_whose_samples_are_known_to_be_apart_are_divided(model, reason):
    assert inseparable(model) == reason


@pytest.mark.parametrize("method", ["schedule", "auto"])
def test_a_run_in_parts_is_the_run(method):
    def run(parts):
        recipe = Recipe.of(method, epochs=3, batch=16, parts=parts, flip=0.2, clip=1.0)
        trained = train(small.blobs(90), recipe, test=small.blobs(50, seed=1))
        assert trained.recipe.parts == parts
        return trained

    whole, divided = run(1), run(2)
    small.assert_same_weights(
        whole.model.state_dict(), divided.model.state_dict(), rtol=1e-4, atol=1e-5
    )
    for one, two in zip(whole.history.steps, divided.history.steps, strict=True):
        assert one["loss"] == pytest.approx(two["loss"], rel=1e-3)
    np.testing.assert_allclose(whole.ledger.belief, divided.ledger.belief, atol=1e-3)


def test_an_interrupted_run_in_parts_is_resumed_to_the_bit(tmp_path, monkeypatch):
    data = small.blobs(90)
    recipe = Recipe(epochs=3, batch=16, warm_up=1, precision="bf16", parts=3)
    whole = train(data, recipe)
    original = Loop._step

    def interrupt(loop, *arguments):
        if loop.position.epoch == 1:
            raise KeyboardInterrupt
        return original(loop, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "_step", interrupt)
        with pytest.raises(KeyboardInterrupt):
            train(data, recipe, folder=tmp_path / "run")
    resumed = train(data, folder=tmp_path / "run", resume=True)
    assert resumed.recipe.parts == 3
    small.assert_same_weights(whole.model.state_dict(), resumed.model.state_dict())


def test_parts_that_would_train_something_else_are_refused():
    model = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
    with pytest.raises(AbstainError, match="parts must be 1 for a model with BatchNorm1d, got 2"):
        train(small.blobs(30), Recipe(epochs=2, parts=2), model=model)
