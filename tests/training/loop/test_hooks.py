"""Changes that hooks make to a training reach the model and the history."""

from dataclasses import replace

import pytest
import small_runs as small
import torch

from abstain import AbstainError, Recipe, train
from abstain.training.loop.hooks import Hooks


class Blank(Hooks):
    """Blanks the inputs of every batch, and collects the rows."""

    def __init__(self):
        self.rows = []

    def on_batch(self, loop, batch):
        return replace(batch, inputs=torch.zeros_like(batch.inputs))

    def on_row(self, loop, kind, row):
        self.rows.append((kind, row))


def train_with(*hooks):
    loop = small.loop_on_blobs(parts={"hooks": hooks})
    loop.run()
    return loop


def test_the_model_trains_on_the_batches_that_a_hook_gives():
    blank = train_with(Blank()).controller.final_model()
    assert not blank.weight.any()  # zeros as inputs move the bias only
    assert blank.bias.any()
    assert train_with().controller.final_model().weight.any()


def test_a_hook_gets_every_row_of_the_history_once():
    hooks = Blank()
    history = train_with(hooks).history
    assert [row for kind, row in hooks.rows if kind == "step"] == history.steps
    assert [row for kind, row in hooks.rows if kind == "epoch"] == history.epochs
    assert [kind for kind, _ in hooks.rows] == (["step"] * 3 + ["epoch"]) * 2


class Steps(Hooks):
    """Adds a number to every input, notes when it is called, and ends the training."""

    def __init__(self, number, last=None):
        self.number, self.last, self.calls = number, last, []

    def on_begin(self, loop):
        self.calls.append(("begin", loop.position.step))

    def on_batch(self, loop, batch):
        return replace(batch, inputs=batch.inputs * 0 + self.number + batch.inputs.sum())

    def on_row(self, loop, kind, row):
        if kind == "step" and row["step"] == self.last:
            loop.end("enough")

    def on_end(self, loop):
        self.calls.append(("end", loop.position.outcome))


def test_users_hand_hooks_to_train_and_a_hook_is_given_the_loop(tmp_path):
    hook = Steps(1.0, last=3)
    recipe = Recipe.of("nll", epochs=5, batch=2)
    trained = train(small.blobs(20), recipe, hooks=[hook], folder=tmp_path / "run")
    assert trained.outcome == "enough"
    assert hook.calls == [("begin", 0), ("end", "enough")]
    # The run has ended: resumed, it takes no further step.
    x, y = small.blobs(20)
    assert train((x, y), folder=tmp_path / "run", resume=True).outcome == "enough"


def test_what_is_no_hook_is_refused_before_the_training():
    for hooks in (3, Hooks()):
        with pytest.raises(AbstainError, match="hooks must be a sequence, got"):
            train(small.blobs(20), hooks=hooks)
    with pytest.raises(AbstainError, match=r"hooks must be a list of Hooks, got \[3\]"):
        train(small.blobs(20), hooks=[3])
