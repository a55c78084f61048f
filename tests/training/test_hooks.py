"""What others do to a training along the way reaches the model and the history."""

from dataclasses import replace

import small_runs as small
import torch
from accelerate import Accelerator

from abstain.data import fit_encoder, load
from abstain.scores.ledger import Ledger
from abstain.training.batches import Batches
from abstain.training.hooks import Hooks
from abstain.training.loop import Loop
from abstain.training.recipe import Recipe
from abstain.training.step_layout import Layout
from abstain.training.task import Task


class Blank(Hooks):
    """Blanks the inputs of every batch, and collects the rows."""

    def __init__(self):
        self.rows = []

    def on_batch(self, batch):
        return replace(batch, inputs=torch.zeros_like(batch.inputs))

    def on_row(self, kind, row):
        self.rows.append((kind, row))


def train_with(hooks):
    data = load(small.blobs(20))
    encoder = fit_encoder(data)
    batches = Batches(
        inputs=encoder.encode(data), rows=torch.arange(20), size=8, seed=0,
        device=torch.device("cpu"),
    )  # fmt: skip
    recipe = Recipe.of("nll", epochs=2).resolved(num_samples=20, num_classes=3)
    model = torch.nn.Linear(5, 4)
    torch.nn.init.zeros_(model.weight)
    loop = Loop(
        model,
        Task(encoder=encoder, num_classes=3, training=batches, given=data.given),
        recipe,
        accelerator=Accelerator(cpu=True),
        layout=Layout(),
        ledger=Ledger(20),
        hooks=hooks,
    )
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
