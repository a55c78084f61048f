"""What an audit says of whole data sets, as a user would run it: the usual recipe, planted errors.

    python bench/audit_whole.py [--sets mnist cifar10 imdb embedded] [--seeds 229 230]
                                [--jobs 1]

"embedded" are the reviews of IMDB as a table of 128 numbers each, the way features of another model
come: TF-IDF and a truncated SVD. Rules were mended after runs with the seeds 200 to 228
and 320 to 323; here they are 229 and 230, by which none was mended. Prints, and writes to
results/audit-whole.json, for each run the share of wrong labels with its interval, how good
ranking and flags were, and what was expected of ten review budgets, up to as many labels as are
flagged, less what was there, as a share of the budget. Runs side by side share the device, and
their seconds mean little.
"""

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from abstain import Recipe, audit
from abstain.data import load

NOISE = {
    "mnist": [("symmetric", 0.0), ("symmetric", 0.2), ("pairflip", 0.2)],
    "cifar10": [
        ("symmetric", 0.0),
        ("symmetric", 0.2),
        ("symmetric", 0.4),
        ("pairflip", 0.2),
        ("pairflip", 0.4),
        ("instance", 0.2),
        ("instance", 0.4),
    ],
    "imdb": [("symmetric", 0.0), ("symmetric", 0.1), ("symmetric", 0.2), ("symmetric", 0.3)],
    "embedded": [("symmetric", 0.0), ("symmetric", 0.1), ("symmetric", 0.2), ("symmetric", 0.3)],
}
NUMBERS = 128  # that a review is embedded in


@cache
def embedded():
    """Reviews of IMDB as numbers, and their labels."""
    reviews = load("imdb")
    words = TfidfVectorizer(min_df=5, max_features=30_000, sublinear_tf=True)
    numbers = TruncatedSVD(NUMBERS, random_state=0).fit_transform(
        words.fit_transform(reviews.inputs)
    )
    return (numbers / numbers.std(0)).astype(np.float32), reviews.given.numpy()


def one_run(name, kind, rate, seed):
    torch.set_num_threads(1)
    began = time.perf_counter()
    seeds = dict.fromkeys(("seed_noise", "seed_init", "seed_order"), seed)
    source = embedded() if name == "embedded" else name
    found = audit(source, Recipe.of("auto", flip=rate, flip_kind=kind, **seeds))
    given = found.data.given.numpy()
    wrong = given != (given if found.data.true is None else found.data.true.numpy())
    low, value, high = found.noise_rate.low, found.noise_rate.value, found.noise_rate.high
    row = {
        "set": name,
        "kind": kind if rate else "none",
        "rate": rate,
        "seed": seed,
        "samples": len(given),
        "truth": float(wrong.mean()),
        "value": value,
        "low": low,
        "high": high,
        "covered": float(wrong.mean()) in found.noise_rate,
        "flagged": found.flagged,
        "caution": found.caution,
        "epochs": found.trained.epoch,
        "model": found.trained.recipe.model,
        "test_accuracy": found.trained.test_accuracy,
        "seconds": time.perf_counter() - began,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
    }
    if found.detection is not None:
        sizes = [max(1, round(tenth * found.flagged / 10)) for tenth in range(1, 11)]
        expected = [found.estimate.expected_wrong(size).value / size for size in sizes]
        row |= {
            **found.detection.as_json(),
            "budget_errors": [
                float(said - wrong[found.order[:size]].mean())
                for said, size in zip(expected, sizes, strict=True)
            ],
        }
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=list(NOISE), default=list(NOISE))
    parser.add_argument("--seeds", nargs="+", type=int, default=[229, 230])
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--output", type=Path, default=Path("results/audit-whole.json"))
    arguments = parser.parse_args()
    todo = [
        (name, *noise, seed)
        for seed in arguments.seeds
        for name in arguments.sets
        for noise in NOISE[name]
    ]
    rows = []
    with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as workers:
        for row in workers.map(one_run, *zip(*todo, strict=True)):
            rows.append(row)
            arguments.output.write_text(json.dumps(rows, indent=1) + "\n")
            print(
                f"{row['set']:8} {row['kind']:10} {row['truth']:.3f}  {row['value']:.3f} "
                f"[{row['low']:.3f}, {row['high']:.3f}]"
                + (f"  F1 {row['f1']:.3f}" if "f1" in row else "")
                + ("" if row["covered"] else "  missed"),
                flush=True,
            )
    for name in arguments.sets:
        errors = [x["budget_errors"] for x in rows if x["set"] == name and "budget_errors" in x]
        furthest = max(np.mean(errors, 0), key=abs)
        print(f"{name}: expectations are off by {100 * furthest:+.1f} points on average at most")


if __name__ == "__main__":
    main()
