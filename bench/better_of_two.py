"""Choose the better of two trainings by held-out labels, where many of these are wrong.

    python bench/better_of_two.py --data-dir DATA --out results/better-of-two.json

For every set with real errors, and for digits and mnist-5k with planted ones, on the features of
bench/cases.py: six networks (linear or an MLP; few epochs or many) learn 60% of the given labels.
Others, as many as a warm-up holds out, say which of each two is better: by cross-entropy; by
cross-entropy after the network was mixed with a guess, in the share that fits these labels best;
or by how many are predicted. True labels of the rest say which is. The regret is what the chosen
network lacks in accuracy beside the better one, in points, in the mean over all pairs and splits.
"""

import argparse
import importlib.util
import itertools
import json
import os
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import torch
from cases import PHOTOS, TABLES, TEXTS, features_of, read_set, source_of
from torch.nn.functional import cross_entropy

from abstain.noise import corrupt
from abstain.noise.matrices import pairflip, symmetric
from abstain.training.objective.warm_up import held_out_samples

NETWORKS = tuple(itertools.product((0, 256), (3, 12, 60)))
"""Hidden units, none for a linear one, and epochs."""
PLANTED = {"symmetric 0.2": (symmetric, 0.2), "pairflip 0.3": (pairflip, 0.3)}
RULES = ("cross-entropy", "mixed", "predicted")


def mixed_loss(losses, classes):
    """The mean loss of a network mixed with a guess, in the share that makes it least."""
    right, share = (-losses.double()).exp(), 0.5
    for _ in range(200):  # of expectation and maximisation, for one number
        guessed = share / classes
        share = float((guessed / ((1 - share) * right + guessed)).mean())
    return float(-((1 - share) * right + share / classes).log().mean())


def learnt(rows, given, classes, hidden, epochs, seed):
    """A network, trained as a head is."""
    torch.manual_seed(seed)
    columns = rows.shape[1]
    layers = [torch.nn.Linear(columns, hidden), torch.nn.ReLU()] if hidden else []
    model = torch.nn.Sequential(*layers, torch.nn.Linear(hidden or columns, classes))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        for taken in torch.randperm(len(given)).split(64):
            optimizer.zero_grad()
            cross_entropy(model(rows[taken]), given[taken]).backward()
            optimizer.step()
    return model.eval()


@torch.no_grad()
def figures(model, rows, given, test, true, classes):
    """Measure what held-out labels say, the more the better, and the accuracy in truth."""
    losses = cross_entropy(model(rows), given, reduction="none")
    return {
        "cross-entropy": -float(losses.mean()),
        "mixed": -mixed_loss(losses, classes),
        "predicted": float((model(rows).argmax(1) == given).float().mean()),
        "accuracy": float((model(test).argmax(1) == true).float().mean()),
    }


def regrets(rows, given, true, classes, splits):
    """In points, by rule; and of a choice by chance."""
    lost = {name: [] for name in (*RULES, "chance")}
    for seed in range(splits):
        order = torch.randperm(len(given), generator=torch.Generator().manual_seed(seed))
        learns = int(0.6 * len(given))
        held_out = held_out_samples(len(given))
        own, asked, rest = order.split([learns, held_out, len(given) - learns - held_out])
        found = [
            figures(
                learnt(rows[own], given[own], classes, *network, seed),
                *(rows[asked], given[asked], rows[rest], true[rest], classes),
            )
            for network in NETWORKS
        ]
        for one, other in itertools.combinations(found, 2):
            best = max(one["accuracy"], other["accuracy"])
            for name in RULES:
                chosen = max(one, other, key=lambda x, name=name: x[name])
                lost[name].append(best - chosen["accuracy"])
            lost["chance"].append(best - (one["accuracy"] + other["accuracy"]) / 2)
    return {name: round(100 * float(np.mean(x)), 3) for name, x in lost.items()}


def main():
    place = importlib.util.find_spec("wordllama").origin
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("ABSTAIN_DATA"))
    parser.add_argument("--wordllama", type=Path, default=Path(place).parent)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("results/better-of-two.json"))
    options = parser.parse_args()
    found = {"splits": options.splits, "sets": {}}
    real = [(name, "real") for name in (*TEXTS, *TABLES, *PHOTOS)]
    for name, noise in (*real, *itertools.product(("digits", "mnist_5k"), PLANTED)):
        inputs, given, true = read_set(name, options.data_dir)
        classes = int(max(given.max(), true.max())) + 1
        if noise != "real":
            matrix, rate = PLANTED[noise]
            given = corrupt(true, matrix(classes, rate), np.random.default_rng(0))
        rows = torch.from_numpy(features_of(name, inputs, "all", options.wordllama))
        given, true = (torch.from_numpy(np.asarray(x)).long() for x in (given, true))
        row = regrets(rows, given, true, classes, options.splits)
        about = {"source": source_of(name), "samples": len(given)}
        found["sets"][f"{name}, {noise}"] = about | row
        print(name, noise, json.dumps(row), flush=True)
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
