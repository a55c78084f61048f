"""Co-teaching+: who teaches whom what, and that every trainer teaches it."""

import copy
import math
from contextlib import contextmanager

import numpy as np
import pytest
import small_runs as small
import torch

from abstain.errors import AbstainError
from abstain.models import build_model
from abstain.predicting.predict import predict_from
from abstain.training.coteaching import CoTeachingPlan, Pair, exchange, partner_seed
from abstain.training.loop.batches import Batches
from abstain.training.recipe import Recipe
from abstain.training.saving.checkpoint import load_checkpoint
from abstain.training.train import train

import reference


def chosen_by_loops(predictions, losses, counts, kept, by_disagreement):
    """What each of two networks hands to the other, sample by sample."""
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
    recipe = Recipe(rate=0.45, epochs=200, warm_up=20, learning_rate=0.01)
    plan = CoTeachingPlan.of(recipe)
    assert [plan.by_disagreement(epoch) for epoch in (0, 19, 20)] == [False, False, True]
    assert plan.kept(10) == plan.kept(199) == pytest.approx(0.55)
    assert plan.kept(1) == pytest.approx(1 - 0.045)
    assert plan.learning_rate_at(79) == 0.01
    assert plan.learning_rate_at(199) == pytest.approx(0.01 / 120)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, r"rate must be given .* 'coteaching-plus', got none.*use method 'schedule'"),
        ({"rate": 0.2, "schedule": "cosine"}, "schedule must be constant .* got 'cosine'"),
    ],
)
def test_a_recipe_that_cannot_be_co_taught_is_refused(settings, reason):
    with pytest.raises(AbstainError, match=reason):
        Recipe.of("coteaching-plus", **settings)


@contextmanager
def float64():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def pair_of(networks):
    return Pair(*(small.Reads64(copy.deepcopy(network)) for network in networks))


@pytest.mark.parametrize("warm_up", [0, 2])
def test_the_loop_trains_the_pair_of_the_plain_trainer(warm_up):
    x, y = small.blobs(22)
    # Five batches an epoch: twenty steps, in which R(t), learning rate and momentum change.
    recipe = Recipe.of(
        "coteaching-plus", rate=0.9, epochs=4, warm_up=warm_up, batch=5, learning_rate=0.01,
        flip=0.4, seed_init=3, seed_order=4,
    )  # fmt: skip
    with float64():
        seeds = recipe.seed_init, partner_seed(recipe.seed_init)
        networks = [
            build_model("mlp", input_shape=(5,), num_outputs=4, seed=seed) for seed in seeds
        ]
    trained = train((x, y), recipe, model=pair_of(networks))
    other = train((x, y), recipe, model=pair_of(networks[::-1]))
    given, inputs = trained.data.given, trained.encoder.encode(trained.data)
    assert "payoff" not in trained.history.epochs[-1]  # cross-entropy has none

    batches = Batches(
        inputs=inputs, rows=torch.arange(22), size=5, seed=4, device=torch.device("cpu")
    )
    epochs = [
        [(batch.inputs.double(), given[batch.index]) for batch in batches.epoch(epoch)]
        for epoch in range(4)
    ]
    reference.co_teach(networks, epochs, CoTeachingPlan.of(trained.recipe))
    for run, network in zip((trained, other), networks, strict=True):
        small.assert_same_weights(
            run.model.network.state_dict(), network.state_dict(), rtol=1e-9, atol=1e-12
        )


def test_a_named_model_gives_a_pair_with_other_weights_and_one_model_in_the_end(tmp_path):
    recipe = Recipe.of("coteaching-plus", rate=0.2, flip=0.2, epochs=30, batch=8, seed_init=5)
    x, y = small.blobs(150)
    trained = train((x, y), recipe, folder=tmp_path / "run")
    assert not isinstance(trained.model, Pair)
    saved = load_checkpoint(tmp_path / "run" / "last.safetensors").part("model")[0]
    firsts, seconds = (
        {name.removeprefix(part): w for name, w in saved.items() if name.startswith(part)}
        for part in ("first.", "second.")
    )
    small.assert_same_weights(firsts, small.weights(tmp_path / "run"))
    assert firsts.keys() == seconds.keys()
    assert not any(torch.equal(firsts[name], seconds[name]) for name in firsts)
    right = [row["train_accuracy"] for row in trained.history.epochs]
    assert right[-1] > 0.75  # the share of right labels is 0.8
    answers = predict_from(tmp_path / "run", (x, y))
    assert (answers.predicted == trained.data.true.numpy()).mean() > 0.95


def test_a_pair_and_its_method_go_together():
    data, net = small.blobs(22), torch.nn.Linear(5, 3)
    recipe = Recipe.of("coteaching-plus", rate=0.2, epochs=2)
    with pytest.raises(AbstainError, match=r"model must be a Pair .* got Linear for 'coteaching"):
        train(data, recipe, model=net)
    with pytest.raises(AbstainError, match=r"model must be a Pair .* got Pair for 'schedule'"):
        train(data, Recipe(epochs=2), model=Pair(net, net))


def test_the_networks_of_a_pair_get_their_abstention_outputs():
    pair = Pair(torch.nn.Linear(5, 3), torch.nn.Linear(5, 3))
    recipe = Recipe.of("coteaching-plus", rate=0.2, epochs=2, warm_up=1)
    trained = train(small.blobs(22), recipe, model=pair)
    assert trained.model(torch.zeros(1, 5)).shape == (1, 4)
