"""Measure the cost of a training by `auto` over one by cross-entropy with as many epochs.

    python reproduction/bench/auto_cost.py [--repeats 5] [--epochs 15]

Both as `abstain.train` does them, ledger, history and test accuracy included, in turn in one run;
only ratios of medians mean something. The aim is 1.3 or less.
"""

import argparse
import random
import statistics
import time

from abstain.cli.process import tune_process

if __name__ == "__main__":
    tune_process()  # as the command line does, before torch starts

import torch
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits

from abstain import Recipe, train

AIM = 1.3


def table_of_digits():
    x, y = load_digits(return_X_y=True)
    return x.astype("float32"), y.astype(str)


SOURCES = {"mnist-5k, the paper's CNN": "mnist-5k", "digits as a table, MLP": table_of_digits()}


def seconds(source, method, epochs, seed):
    recipe = Recipe.of(method, epochs=epochs, flip=0.3, seed=seed, seed_noise=0)
    start = time.perf_counter()
    train(source, recipe)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=15)
    arguments = parser.parse_args()
    table = Table("auto over cross-entropy", "time of a training", "smallest", "largest", "aim")
    table.title = f"{arguments.epochs} epochs, {torch.get_num_threads()} threads"
    for name, source in SOURCES.items():
        seconds(source, "nll", 1, seed=0)  # loads what is loaded once
        ratios = []
        for seed in range(arguments.repeats):
            sides = random.sample(["auto", "nll"], 2)
            taken = {side: seconds(source, side, arguments.epochs, seed) for side in sides}
            ratios.append(taken["auto"] / taken["nll"])
        figures = (statistics.median(ratios), min(ratios), max(ratios))
        table.add_row(name, *(f"{x:.3f}" for x in figures), f"≤ {AIM}")
    Console().print(table)


if __name__ == "__main__":
    main()
