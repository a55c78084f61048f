"""Small grey images: learnt from scratch, or seen by a pretrained backbone?

    python bench/drawings.py --data-dir DATA --out results/drawings.json

Each set is audited with planted errors, symmetric and instance-dependent, and where it has them
with the errors of people, once from scratch and once by EfficientNet-Lite2, with an empty cache.
Beside the audits stands what can be measured without knowing which labels are wrong: how much of an
image its most frequent value fills (`plain`), which is what `--backbone auto` goes by; how many
held-out labels each training predicts; and how many labels heads blind to them predict (`probe`),
from the pixels and from the features.
`--only` takes sets by name, and adds them to those in the file.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import pyarrow.parquet as pq
import torch
from sklearn.metrics import roc_auc_score

from abstain import AbstainError, Recipe, audit
from abstain.data import load
from abstain.embed.choice import plain_ground
from abstain.embed.folds import out_of_sample

BACKBONE = "small:efficientnet-lite2"
NOISE = ("symmetric", "instance")
RATE = 0.2
_GREY = torch.tensor([0.299, 0.587, 0.114])


def sets(data_dir, most):
    """Name, images, labels as given and true labels; grey photos are there to fool a rule."""
    for name in ("digits", "mnist-5k", "mnist", "fashion-mnist"):
        try:
            data = load(name, data_dir=data_dir)
        except AbstainError as error:
            print(f"{name} is left out: {error}")
            continue
        rows = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))[:most]
        yield name, torch.as_tensor(np.asarray(data.inputs))[rows], data.given[rows], None
    table = pq.read_table(data_dir / "real" / "cifar10_people_labels.parquet")
    rows = np.sort(np.random.default_rng(0).permutation(table.num_rows)[:most])
    photos = torch.as_tensor(np.asarray(load("cifar10", data_dir=data_dir).inputs))[rows]
    grey = (photos.float() * _GREY[:, None, None]).sum(1, keepdim=True).round().byte()
    true = load("cifar10", data_dir=data_dir)
    names = np.array(table.column("label1").to_pylist())[rows]
    given = torch.tensor([true.classes.index(x) for x in names])
    yield "cifar10 in grey", grey, true.given[rows], given


def run(images, given, wrong, kind, backbone):
    """One audit: how well it ranks wrong labels, and what it takes."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["ABSTAIN_CACHE"] = cache
        flip = {} if kind == "people" else {"flip": RATE, "flip_kind": kind}
        began = time.perf_counter()
        found = audit(
            (images, given.numpy()), Recipe.of("auto", **flip), backbone=backbone, check=["labels"]
        )
        seconds = time.perf_counter() - began
    wrong = found.planted if wrong is None else wrong
    row = {"auroc": round(float(roc_auc_score(wrong, -found.verdict.label_score)), 4)}
    row["seconds"] = round(seconds, 1)
    row["held_out"] = round(found.held_out.accuracy, 4)
    if backbone == "none":
        rows = images.flatten(1).float()
    else:
        rows = found.trained.encoder.encode(found.trained.data)
    probabilities = out_of_sample(rows, found.data.given, found.data.num_classes)
    met = probabilities.argmax(1) == found.data.given
    row["probe"] = round(float(met.float().mean()), 4)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("ABSTAIN_DATA"))
    parser.add_argument("--most", type=int, default=5_000)
    parser.add_argument("--only", help="sets whose name holds this")
    parser.add_argument("--out", type=Path, default=Path("results/drawings.json"))
    options = parser.parse_args()
    found = {"cores": os.cpu_count(), "most": options.most, "cases": []}
    if options.only and options.out.exists():
        found = json.loads(options.out.read_text(encoding="utf-8"))
    for name, images, true, people in sets(Path(options.data_dir), options.most):
        if options.only and options.only not in name:
            continue
        for kind in (*NOISE, *(["people"] if people is not None else [])):
            given = people if kind == "people" else true
            wrong = (given != true).numpy() if kind == "people" else None
            case = {"set": name, "samples": len(true), "noise": kind}
            case["plain"] = round(plain_ground(load((images, given.numpy()))), 3)
            for backbone in ("none", BACKBONE):
                case[backbone] = run(images, given, wrong, kind, backbone)
            found["cases"].append(case)
            print(json.dumps(case), flush=True)
            options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
