"""Is `auto` safe where the paper has no rows: tables, few samples, two and a hundred classes?

    python bench/auto_tabular.py [--seeds 3] [--json results/auto-tabular.json]

Trains `auto`, the paper's schedule and cross-entropy on small sets that scikit-learn ships or
makes, with and without planted errors, and prints test accuracy at the last epoch: mean ± standard
deviation over seeds, each with its own noise, split, initial weights and order.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_classification
from sklearn.model_selection import train_test_split

from abstain import Recipe, train

METHODS = ("nll", "schedule", "auto")
FLIPS = (0.0, 0.2, 0.4)


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


SETS = {
    "iris": lambda: load_iris(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "unbalanced": unbalanced,
    "100 classes": many_classes,
}


def accuracy(name, method, flip, seed):
    x, y = SETS[name]()
    names = np.array([f"c{label:03d}" for label in y])
    x_train, x_test, y_train, y_test = train_test_split(
        x.astype(np.float32), names, test_size=0.25, random_state=seed, stratify=y
    )
    recipe = Recipe.of(method, flip=flip, seed_noise=seed, seed_init=seed, seed_order=seed)
    trained = train((x_train, y_train), recipe, test=(x_test, y_test), show=False)
    return trained.test_accuracy, trained.outcome


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)  # networks this small gain nothing from more
    rows = []
    print(f"{'set':14s} {'flip':>4s}  " + "  ".join(f"{m:>13s}" for m in METHODS))
    for name in options.sets:
        for flip in FLIPS:
            cells = []
            for method in METHODS:
                runs = [accuracy(name, method, flip, seed) for seed in range(options.seeds)]
                found = 100 * np.array([value for value, _ in runs])
                collapsed = sum("collapsed" in outcome for _, outcome in runs)
                rows.append(
                    {"set": name, "flip": flip, "method": method, "collapsed": collapsed,
                     "accuracy": found.tolist()}
                )  # fmt: skip
                cells.append(f"{found.mean():6.1f} ± {found.std(ddof=1):4.1f}")
            print(f"{name:14s} {flip:4.1f}  " + "  ".join(cells), flush=True)
    if options.json:
        options.json.write_text(json.dumps({"seeds": options.seeds, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
