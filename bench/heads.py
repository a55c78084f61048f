"""Heads on fixed features: linear alone, or the better of linear and a small MLP, by held-out loss?

    python bench/heads.py --data-dir DATA --out results/heads.json
    python bench/heads.py --cost    adds what five heads cost beside one, on this machine

For every set with real errors, on the features of bench/cases.py: five linear heads blind to a fold
each, as `abstain.embed.folds` has them, and five MLPs trained on the same batches, all five in one
batched product. Log loss is of the given labels, out of sample; it chooses. True labels are looked
at only for the AUROC of 1 − P(given label).
"""

import argparse
import importlib.util
import json
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import torch
from cases import PHOTOS, TABLES, TEXTS, features_of, read_set
from sklearn.metrics import roc_auc_score
from torch.nn.functional import cross_entropy, dropout, nll_loss

from abstain.embed import folds
from abstain.embed.folds import FOLDS, out_of_sample

HIDDEN, DROPOUT, RATE = 128, 0.5, 1e-3
COSTS = [(1280, 10), (256, 4), (256, 100)]
"""Columns and classes."""


def mlp_out_of_sample(features, given, classes, seed=0):
    """As `out_of_sample`, by MLPs: the same folds, batches, epochs and choice of the epoch."""
    generator = torch.Generator().manual_seed(seed)
    fold = folds.folds_of(given, generator)
    mean, std = folds._moments(features)
    features = (features - mean) / std
    columns = features.shape[1]
    first = torch.randn(FOLDS, columns, HIDDEN, generator=generator) * (2 / columns) ** 0.5
    last = torch.randn(FOLDS, HIDDEN, classes, generator=generator) / HIDDEN**0.5
    biases = torch.zeros(FOLDS, 1, HIDDEN), torch.zeros(FOLDS, 1, classes)
    weights = [x.requires_grad_() for x in (first, last, *biases)]
    optimizer = torch.optim.AdamW(weights, lr=RATE, weight_decay=folds._DECAY)
    per_epoch = -(-len(given) // folds._BATCH)
    epochs = max(folds._EPOCHS, -(-folds._LEAST_STEPS // per_epoch))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * per_epoch)

    def logits(rows, share=0.0):
        hidden = torch.baddbmm(biases[0], rows.expand(FOLDS, -1, -1), first).relu()
        return torch.baddbmm(biases[1], dropout(hidden, share, share > 0), last).transpose(0, 1)

    best, least = None, float("inf")
    for _ in range(epochs):
        for taken in torch.randperm(len(given), generator=generator).split(folds._BATCH):
            losses = cross_entropy(
                logits(features[taken], DROPOUT).transpose(1, 2),
                given[taken, None].expand(-1, FOLDS),
                reduction="none",
            )
            seen = fold[taken, None] != torch.arange(FOLDS)
            optimizer.zero_grad()
            ((losses * seen).sum(0) / seen.sum(0).clamp(min=1)).sum().backward()
            optimizer.step()
            schedule.step()
        with torch.no_grad():
            found = logits(features)[torch.arange(len(given)), fold].log_softmax(-1)
            loss = float(nll_loss(found, given))
        if loss < least:
            best, least = found.exp(), loss
    return best


def slow_out_of_sample(features, given, classes):
    """`out_of_sample` at the learning rate of the MLPs: how much of their gain is due to that."""
    usual, folds._RATE = folds._RATE, RATE
    try:
        return out_of_sample(features, given, classes)
    finally:
        folds._RATE = usual


KINDS = {"linear": out_of_sample, "mlp": mlp_out_of_sample, "slow": slow_out_of_sample}


def figures(heads, features, given, true, classes):
    began = time.perf_counter()
    probabilities = heads(features, given, classes).double().clamp(min=1e-12)
    seconds = time.perf_counter() - began
    own = probabilities[torch.arange(len(given)), given]
    return {
        "loss": round(float(-own.log().mean()), 4),
        "auroc": round(float(roc_auc_score(given != true, -own)), 4),
        "seconds": round(seconds, 2),
    }


def seconds_of(heads, *data):
    began = time.perf_counter()
    usual, folds.FOLDS = folds.FOLDS, heads
    try:
        out_of_sample(*data)
    finally:
        folds.FOLDS = usual
    return time.perf_counter() - began


def cost(samples, columns, classes, repeats=5):
    """Measure how many times as long five heads take as one, in turn."""
    generator = torch.Generator().manual_seed(0)
    given = torch.randint(classes, (samples,), generator=generator)
    rows = torch.randn(samples, columns, generator=generator)
    seconds_of(FOLDS, rows, given, classes)  # the device gets ready
    pairs = [[seconds_of(k, rows, given, classes) for k in (1, FOLDS)] for _ in range(repeats)]
    one, five = (float(np.median(x)) for x in zip(*pairs, strict=True))
    on_gpu = torch.cuda.is_available()
    return {
        "device": torch.cuda.get_device_name() if on_gpu else f"{os.cpu_count()} CPU cores",
        "samples": samples,
        "columns": columns,
        "classes": classes,
        "one": round(one, 2),
        "five": round(five, 2),
        "times": round(float(np.median([b / a for a, b in pairs])), 2),
    }


def add_costs(path):
    """To the result, in place of those of this device."""
    made = [cost(20_000, columns, classes) for columns, classes in COSTS]
    found = json.loads(path.read_text(encoding="utf-8"))
    others = [x for x in found.get("cost", ()) if x["device"] != made[0]["device"]]
    found["cost"] = others + made
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(made, indent=1))


def main():
    spec = importlib.util.find_spec("wordllama")
    where = None if spec is None else Path(spec.origin).parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("ABSTAIN_DATA"))
    parser.add_argument("--wordllama", type=Path, default=where)
    parser.add_argument("--out", type=Path, default=Path("results/heads.json"))
    parser.add_argument("--cost", action="store_true", help="only what five heads cost beside one")
    options = parser.parse_args()
    if options.cost:
        add_costs(options.out)
        return
    torch.manual_seed(0)
    found = {"hidden": HIDDEN, "dropout": DROPOUT, "rate": RATE, "sets": {}}
    for name in (*TEXTS, *TABLES, *PHOTOS):
        inputs, given, true = read_set(name, options.data_dir)
        rows = torch.from_numpy(features_of(name, inputs, "all", options.wordllama))
        classes = int(max(given.max(), true.max())) + 1
        given = torch.from_numpy(np.asarray(given))
        true = torch.from_numpy(np.asarray(true))
        row = {"samples": len(given), "columns": rows.shape[1]}
        for kind, heads in KINDS.items():
            row[kind] = figures(heads, rows, given, true, classes)
        found["sets"][name] = row
        print(name, json.dumps(row), flush=True)
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
