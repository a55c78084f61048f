"""Records made by hand, and a task so small that a real training of it takes no time."""

import numpy as np

from abstain.data import load
from abstain.training.plan import Plan
from reproduction.record import Record, separate
from reproduction.runs import Run
from reproduction.tasks import Task


def tiny_run(seed=0, **changes):
    recipe = Plan(**{"method": "nll", "loss": "nll", "epochs": 2, "batch": 32, **changes})
    return Run(data="digits", network="mlp", recipe=recipe).with_seed(seed)


def tiny_task(data="digits", network="mlp"):
    digits = load(data)
    inputs = digits.inputs[:96].flatten(1).float() / 16
    labels = digits.given[:96]
    return Task(
        data=data,
        network=network,
        inputs=inputs,
        true=labels,
        test_inputs=inputs[:32],
        test_labels=labels[:32],
        num_classes=10,
    )


def hand_made(run, accuracy=0.9, stop_epoch=None, seconds=1.0, device="hand", **history):
    """A record with a history that leads to an accuracy; not what any training gave."""
    epochs = run.recipe.epochs
    lines = {
        "epoch": np.arange(1, epochs + 1),
        "loss": np.linspace(2.3, 1.0, epochs),
        "train_accuracy": np.linspace(0.2, 0.6, epochs),
        "stake": np.full(epochs, 0.6),
        "clean_loss": np.linspace(2.0, 0.4, epochs),
        "corrupt_loss": np.linspace(3.0, 2.0, epochs),
        "test_accuracy": np.linspace(min(accuracy + 0.05, 1.0), accuracy, epochs),
        **history,
    }
    wrong = np.arange(40) % 2 == 0
    scores = np.where(wrong, 0.8, 0.2)
    return Record(
        run=run,
        history={name: [float(x) for x in line] for name, line in lines.items()},
        stop_epoch=float(epochs if stop_epoch is None else stop_epoch),
        outcome="by hand",
        test_accuracy=accuracy,
        separation=separate(scores, 1 - scores, wrong) if run.recipe.flip else None,
        seconds=seconds,
        versions={"torch": "0"},
        machine={"device": device},
    )
