"""A fine-tuned backbone on real human labels: CIFAR-10 as single annotators saw it (CIFAR-10N).

For each column of labels and each seed an audit of the 50,000 training images with
EfficientNet-Lite2, trained too. Test labels are looked at only to report accuracy. Aim on an H200:
accuracy 0.931 and AUROC 0.986 of raw evidence at the last epoch, in 60 s.

    python bench/finetune.py --data-dir DATA --labels DATA/real/cifar10_people_labels.parquet

`--limit 300 --epochs 1 --columns label1 --seeds 0` tries it on a CPU.
"""

import argparse
import json
import platform
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from rich.console import Console
from rich.table import Table
from sklearn.metrics import f1_score, roc_auc_score

from abstain import Recipe, audit
from abstain.data import load

BACKBONE = "small:efficientnet-lite2"
SHOWN = ("seconds", "test_accuracy", "auroc_evidence", "auroc_label_score", "f1", "rate")


def with_labels(data, names):
    """The same images with the labels of one annotator."""
    number = {name: k for k, name in enumerate(data.classes)}
    given = torch.tensor([number[name] for name in names])
    return replace(data, given=given, true=data.given)


def first(data, limit):
    """The first samples."""
    return replace(data, inputs=data.inputs[:limit], given=data.given[:limit], ids=data.ids[:limit])


def case(data, test, column, seed, settings):
    began = time.monotonic()
    seeds = {"seed_init": seed, "seed_order": seed}
    recipe = Recipe.of("auto", finetune=True, **seeds, **settings)
    found = audit(data, recipe, backbone=BACKBONE, test=test)
    seconds = time.monotonic() - began
    wrong = (data.given != data.true).numpy()
    verdict, trained = found.verdict, found.trained
    rate = found.noise_rate
    return {
        "column": column,
        "seed": seed,
        "seconds": round(seconds, 2),
        "test_accuracy": trained.history.epochs[-1]["test_accuracy"],
        "auroc_evidence": roc_auc_score(wrong, -trained.ledger.evidence.numpy()),
        "auroc_label_score": roc_auc_score(wrong, -np.asarray(verdict.label_score)),
        "f1": f1_score(wrong, verdict.is_label_issue),
        "flagged": int(verdict.is_label_issue.sum()),
        "rate": rate.value,
        "rate_low": rate.low,
        "rate_high": rate.high,
        "true_rate": float(wrong.mean()),
        "outcome": trained.outcome,
        "augment": trained.recipe.augment,
        "precision": trained.recipe.precision,
        "epochs": [
            {k: row[k] for k in ("epoch", "seconds", "test_accuracy", "loss") if k in row}
            for row in trained.history.epochs
        ],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--labels", type=Path, required=True)
    parser.add_argument("--columns", default="label1,label2,label3")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--out", type=Path, default=Path("results/finetune.json"))
    parser.add_argument("--limit", type=int, help="only the first images")
    parser.add_argument("--epochs", type=int)
    options = parser.parse_args()
    columns = options.columns.split(",")
    table = pq.read_table(options.labels, columns=columns)
    data = load("cifar10", data_dir=options.data_dir)
    test = load("cifar10", data_dir=options.data_dir, split="test")
    settings = {} if options.epochs is None else {"epochs": options.epochs}
    if options.limit is not None:
        data, test = first(data, options.limit), first(test, options.limit)
    on_gpu = torch.cuda.is_available()
    about = {
        "device": torch.cuda.get_device_name() if on_gpu else platform.processor() or "cpu",
        "torch": torch.__version__,
        "backbone": BACKBONE,
        "samples": len(data),
        "settings": settings,
    }
    cases = []
    for column in columns:
        noisy = with_labels(data, table[column].to_pylist()[: len(data)])
        for seed in map(int, options.seeds.split(",")):
            cases.append(case(noisy, test, column, seed, settings))
            options.out.parent.mkdir(parents=True, exist_ok=True)
            options.out.write_text(json.dumps({**about, "cases": cases}, indent=1) + "\n")
            print(column, seed, {name: round(cases[-1][name], 4) for name in SHOWN}, flush=True)
    shown = Table("column", "seed", *SHOWN, "true rate", title=about["device"], box=None)
    for one in cases:
        figures = [f"{one[name]:.4g}" for name in (*SHOWN, "true_rate")]
        shown.add_row(one["column"], str(one["seed"]), *figures)
    Console(width=120).print(shown)


if __name__ == "__main__":
    main()
