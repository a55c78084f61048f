"""What others do to a training along the way reaches the model and the history."""

from dataclasses import replace

import small_runs as small
import torch

from abstain.training.loop.hooks import Hooks


class Blank(Hooks):
    """Blanks the inputs of every batch, and collects the rows."""

    def __init__(self):
        self.rows = []

    def on_batch(self, batch):
        return replace(batch, inputs=torch.zeros_like(batch.inputs))

    def on_row(self, kind, row):
        self.rows.append((kind, row))


def train_with(hooks):
    loop = small.loop_on_blobs(parts={"hooks": hooks})
    loop.run()
    return loop


def test_the_model_trains_on_the_batches_that_a_hook_gives():
    blank = train_with(Blank()).judge.final_model()
    assert not blank.weight.any()  # zeros as inputs move the bias only
    assert blank.bias.any()
    assert train_with(None).judge.final_model().weight.any()


def test_a_hook_gets_every_row_of_the_history_once():
    hooks = Blank()
    history = train_with(hooks).history
    assert [row for kind, row in hooks.rows if kind == "step"] == history.steps
    assert [row for kind, row in hooks.rows if kind == "epoch"] == history.epochs
    assert [kind for kind, _ in hooks.rows] == (["step"] * 3 + ["epoch"]) * 2
