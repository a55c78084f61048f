"""Is `auto` safe where the paper has no rows: tables, few samples, two and a hundred classes?

    python reproduction/bench/auto_tabular.py [--seeds 3] [--json FILE]

Trains `auto`, the paper's schedule and cross-entropy on small sets that scikit-learn ships or
makes, with and without planted errors and with no size given, and prints test accuracy at
the last epoch, in %, mean ± standard deviation over seeds, each with its own noise, split, initial
weights and order; and how well wrong labels are ranked before right ones (AUROC, in %).
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_blobs,
    make_classification,
    make_moons,
)
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from abstain import Recipe, train
from abstain.scores.evidence import evidence_from_ledger

METHODS = ("nll", "schedule", "auto")
NOISE = (("symmetric", 0.0), ("symmetric", 0.2), ("symmetric", 0.4), ("pairflip", 0.3))


def many_classes():
    """A hundred classes in forty dimensions, thirty samples each."""
    rng = np.random.default_rng(0)
    labels = np.arange(3000) % 100
    centres = rng.normal(size=(100, 40)) * 1.5
    return centres[labels] + rng.normal(size=(3000, 40)), labels


def unbalanced():
    """Four classes of which the rarest has a sixteenth of the samples of the commonest."""
    return make_classification(
        3000, 20, n_informative=10, n_classes=4, weights=[0.64, 0.2, 0.12, 0.04],
        class_sep=1.5, flip_y=0, random_state=0,
    )  # fmt: skip


def two_classes():
    """Six of twenty columns separate two classes, each of which has two clusters."""
    return make_classification(
        800, 20, n_informative=6, n_classes=2, class_sep=1.2, flip_y=0, random_state=1
    )


SETS = {
    "iris": lambda: load_iris(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "digits": lambda: load_digits(return_X_y=True),
    "moons": lambda: make_moons(600, noise=0.2, random_state=0),
    "blobs": lambda: make_blobs(400, 10, centers=5, cluster_std=4, random_state=0),
    "two classes": two_classes,
    "unbalanced": unbalanced,
    "100 classes": many_classes,
}


def run(name, method, kind, rate, seed):
    """Test accuracy, AUROC of the ranking (NaN without errors), and how the training ended."""
    x, y = SETS[name]()
    names = np.array([f"c{label:03d}" for label in y])
    x_train, x_test, y_train, y_test = train_test_split(
        x.astype(np.float32), names, test_size=0.25, random_state=seed, stratify=y
    )
    recipe = Recipe.of(method, flip=rate, flip_kind=kind, seed=seed)
    trained = train((x_train, y_train), recipe, test=(x_test, y_test))
    given = trained.data.given.numpy()
    evidence = evidence_from_ledger(trained.ledger, given)
    wrong = given != trained.data.true.numpy() if rate else None
    auroc = roc_auc_score(wrong, -evidence.log_odds) if rate else float("nan")
    return trained.test_accuracy, auroc, trained.outcome


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)  # networks this small gain nothing from more
    rows = []
    print(f"{'set':14s} {'noise':14s} " + "".join(f"{m:>22s}" for m in METHODS))
    for name in options.sets:
        for kind, rate in NOISE:
            cells = []
            for method in METHODS:
                runs = [run(name, method, kind, rate, seed) for seed in range(options.seeds)]
                accuracy, auroc = 100 * np.array([figures for *figures, _ in runs]).T
                collapsed = sum("collapsed" in outcome for *_, outcome in runs)
                rows.append(
                    {"set": name, "kind": kind, "rate": rate, "method": method,
                     "collapsed": collapsed, "accuracy": accuracy.round(2).tolist(),
                     "auroc": auroc.round(2).tolist() if rate else None}
                )  # fmt: skip
                spread = accuracy.std(ddof=1) if len(runs) > 1 else 0.0
                ranked = f"{auroc.mean():6.1f}" if rate else "     –"
                cells.append(f"{accuracy.mean():8.1f} ± {spread:4.1f} {ranked}")
            print(f"{name:14s} {kind:10s} {rate:3.1f} " + " ".join(cells), flush=True)
    if options.json:
        options.json.write_text(json.dumps({"seeds": options.seeds, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
