"""A model that is simulated: what it believes in each epoch, without any training.

A sample has its own difficulty; the belief in its true class grows from epoch to epoch, and at some
time of its own its given label is memorised.
"""

import numpy as np
import torch

from abstain.noise import corrupt, transition
from abstain.scores.ledger import Ledger


def labels(samples, classes, kind, rate, rng, weights=None):
    true = rng.choice(classes, samples, p=weights)
    return true, corrupt(true, transition(kind, classes, rate), rng)


def simulated_run(
    samples=2000,
    classes=5,
    kind="symmetric",
    rate=0.3,
    seed=0,
    weights=None,
    epochs=20,
    skill=6.0,
    memory=1.0,
):
    """Ledger, given and true labels of a simulated run."""
    rng = np.random.default_rng(seed)
    true, given = labels(samples, classes, kind, rate, rng, weights)
    easy = rng.beta(4, 1, samples)  # most are easy
    style = rng.normal(size=(samples, classes))  # what makes a sample look like other classes
    memorised_at = rng.uniform(4, max(epochs, 5), samples)
    ledger = Ledger(samples)
    rows = np.arange(samples)
    for epoch in range(epochs):
        logits = style + 0.5 * rng.normal(size=(samples, classes))
        logits[rows, true] += skill * easy * (1 - 0.5 ** (epoch + 1))
        logits[rows, given] += memory * np.clip((epoch - memorised_at) / 4, 0, 1)
        ledger.update(
            torch.arange(samples),
            torch.from_numpy(logits).float(),
            torch.from_numpy(given),
            has_abstention=False,
            epoch=epoch,
        )
    return ledger, given, true
