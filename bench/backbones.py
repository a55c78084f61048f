"""Measure the gain of a backbone on data sets whose wrong labels are known.

    python bench/backbones.py --data-dir DATA --out results/backbones.json

DATA holds `real/` (sets with real errors; `real/README.md` there names their sources) and
`cifar10/`. Each set is audited twice with defaults, from scratch (`--backbone none`) and by the
small backbone of its kind, with an empty cache, so that the seconds of a backbone hold its features
too. Of the second audit, three kinds of evidence are compared: that of the training (the ledger),
that of out-of-sample probabilities (`found.probabilities`), and the mean of both. At most `--most`
samples of a set are taken, the same ones each time.

    python bench/backbones.py --data-dir DATA --add small:minilm [--finetune]

adds another backbone, or one that is trained too, to results that are there.
"""

import argparse
import json
import os
import platform
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import pyarrow.parquet as pq
import torch
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

from abstain import Recipe, audit
from abstain.data import load
from abstain.embed.backbones.small import SMALL as PACKAGES
from abstain.scores.evidence import evidence_from_probabilities

TEXTS = (
    *("weak_agnews", "weak_imdb", "weak_trec", "noisyag", "davidson_hate", "convabuse"),
    *("md_offensive", "climate_fever", "politeness", "product_match"),
)
PHOTOS = ("label1", "label2", "label3")
TUNED = ", fine-tuned"
SMALL = {"text": "small:wordllama", "image": "small:efficientnet-lite2"}


def sets(data_dir, most):
    """Name, kind, inputs, given labels and true labels of each set."""
    for name in TEXTS:
        table = pq.read_table(data_dir / "real" / f"{name}.parquet")
        table = table.take(drawn(table.num_rows, most))
        columns = (table.column(x).to_pylist() for x in ("text", "label", "true"))
        inputs, given, true = columns
        yield name, "text", inputs, np.array(given).astype(str), np.array(true).astype(str)
    table = pq.read_table(
        data_dir / "real" / "cifar10_people.parquet", columns=["id", *PHOTOS, "true"]
    )
    table = table.take(drawn(table.num_rows, most))
    rows = table.column("id").to_numpy().astype(int)
    photos = torch.as_tensor(np.asarray(load("cifar10", data_dir=data_dir).inputs))[rows]
    true = np.array(table.column("true").to_pylist()).astype(str)
    for column in PHOTOS:
        given = np.array(table.column(column).to_pylist()).astype(str)
        yield f"cifar10_people.{column}", "image", photos, given, true


def drawn(rows, most):
    return np.sort(np.random.default_rng(0).permutation(rows)[:most])


def run(kind, inputs, given, true, backbone, *, finetune=False):
    """One audit and how right it is."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["ABSTAIN_CACHE"] = cache
        began = time.perf_counter()
        found = audit(
            (inputs, given), Recipe.of("auto", finetune=finetune or None), backbone=backbone
        )
        seconds = time.perf_counter() - began
        wrong = given != true
        odds = found.verdict.evidence.log_odds
        row = {
            "seconds": round(seconds, 2),
            "rate": round(found.noise_rate.value, 4),
            "low": round(found.noise_rate.low, 4),
            "high": round(found.noise_rate.high, 4),
            "f1": round(float(f1_score(wrong, found.verdict.is_label_issue)), 4),
            **ranking(odds, wrong),
        }
        if backbone != "none" and not finetune:
            out = evidence_from_probabilities(found.probabilities, found.data.given.numpy())
            row["out_of_sample"] = ranking(out.log_odds, wrong)
            row["both"] = ranking((odds + out.log_odds) / 2, wrong)
    return row


def ranking(log_odds, wrong):
    score = -np.nan_to_num(log_odds)
    return {
        "auroc": round(float(roc_auc_score(wrong, score)), 4),
        "average_precision": round(float(average_precision_score(wrong, score)), 4),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("ABSTAIN_DATA"))
    parser.add_argument("--most", type=int, default=5_000)
    parser.add_argument("--only", help="sets whose name holds this")
    parser.add_argument("--add", choices=[f"small:{name}" for name in PACKAGES])
    parser.add_argument("--finetune", action="store_true", help="with --add: train it too")
    parser.add_argument("--out", type=Path, default=Path("results/backbones.json"))
    options = parser.parse_args()
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor()
    found = {"device": device or "cpu", "cores": os.cpu_count(), "most": options.most, "sets": {}}
    if options.add:
        found = json.loads(options.out.read_text(encoding="utf-8"))
    for name, kind, inputs, given, true in sets(options.data_dir, found["most"]):
        if options.only and options.only not in name:
            continue
        about = {
            "samples": len(given),
            "wrong": round(float((given != true).mean()), 4),
            "kind": kind,
        }
        row = found["sets"].setdefault(name, about)
        if options.add and PACKAGES[options.add.removeprefix("small:")].kind != kind:
            continue
        for backbone in [options.add] if options.add else ["none", SMALL[kind]]:
            key = f"{backbone}{TUNED if options.finetune else ''}"
            row[key] = run(kind, inputs, given, true, backbone, finetune=options.finetune)
            print(name, key, json.dumps(row[key]), flush=True)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
