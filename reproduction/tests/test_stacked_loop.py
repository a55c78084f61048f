"""The stacked trainer against the loop of `abstain train`, in float64."""

from contextlib import contextmanager

import numpy as np
import pytest
import small_runs as small
import torch

from abstain.models import build_model
from abstain.training.recipe import plan_of
from abstain.training.train import train
from reproduction.stacked.trainer import StackedTask, train_stacked


@contextmanager
def float64():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def network_of(seed):
    with float64():
        return build_model("mlp", input_shape=(5,), num_outputs=4, seed=seed)


def task_of(trained):
    inputs, true = trained.encoder.encode(trained.data), trained.data.true
    return StackedTask(
        inputs=inputs,
        true=true,
        test_inputs=inputs,
        test_labels=true,
        num_classes=3,
        network="mlp",
    )


@pytest.mark.parametrize("epochs", [8, 40])
def test_auto_is_that_of_the_loop_and_a_neighbour_changes_nothing(epochs):
    x, y = small.blobs(43)
    settings = {"epochs": epochs, "batch": 5, "learning_rate": 0.01, "flip": 0.3}
    recipe = plan_of("auto", seed_init=3, seed_order=4, **settings)
    trained = train((x, y), recipe, test=(x, y), model=small.Reads64(network_of(3)))
    other = plan_of("nll", precision=trained.plan.precision, **settings)
    other = other.resolved(num_samples=43, num_classes=3)
    task = task_of(trained)
    with float64():
        plain, stacked = train_stacked(task, [other, trained.plan], device="cpu")
        (alone,) = train_stacked(task, [other], device="cpu")
    for name in ("loss", "test_accuracy"):
        expected = [row[name] for row in trained.history.epochs]
        np.testing.assert_allclose([row[name] for row in stacked.epochs], expected, rtol=1e-9)
    assert stacked.outcome == trained.outcome
    np.testing.assert_allclose(
        [row["loss"] for row in plain.epochs], [row["loss"] for row in alone.epochs], rtol=1e-12
    )
