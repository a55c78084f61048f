"""Measure how the audit grows with the data: ledger, evidence, rate and ranking.

The beliefs are those of a model that improves from epoch to epoch, with a tenth of the labels
wrong. They are made batch by batch, so that only the audit's own memory grows. Each case runs in a
process of its own. Times are CPU seconds of one core, without the making of beliefs, the lesser of
two runs, as other programs push data out of the caches. Memory is what the process gained.

    python bench/audit_scale.py [--small] [--output results/audit-scale.json]

Ends with 1 if an aim is missed: ten times the rows in at most eleven times the time and memory, and
10⁷ rows × 10 classes within 4 GiB.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from abstain.scores.evidence import evidence_from_ledger
from abstain.scores.held_out import HeldOut
from abstain.scores.ledger import Ledger
from abstain.scores.verdict import judge

CASES = [(10**5, 10), (10**6, 10), (10**7, 10), (10**5, 1000), (10**6, 1000)]
EPOCHS, RATE, NUMBERS_AT_ONCE = 3, 0.1, 2**21
GROWTH, LARGEST_GIB = 11.0, 4.0


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def beliefs(true, rows, noise, epoch):
    """Logits of a batch: noise from a fixed pool, and the true class ahead of it."""
    shift = int(rows[0]) % len(noise)
    logits = noise.roll(shift, 0)[: len(rows)].clone()
    logits[torch.arange(len(rows)), true[rows]] += 3.0 + epoch
    return logits


def run(num_rows, num_classes):
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    true = torch.randint(num_classes, (num_rows,), generator=generator)
    wrong = torch.rand(num_rows, generator=generator) < RATE
    moved = torch.randint(1, num_classes, (num_rows,), generator=generator)
    given = torch.where(wrong, (true + moved) % num_classes, true)
    size = NUMBERS_AT_ONCE // (num_classes + 1)
    noise = torch.randn(size, num_classes + 1, generator=generator)
    Ledger(8).update(torch.arange(8), noise[:8], given[:8])  # what is loaded when first used
    before = peak_bytes()
    spent = dict.fromkeys(("ledger", "evidence", "rate", "ranking"), 0.0)

    def timed(name, work):
        begin = time.process_time()
        result = work()
        spent[name] += time.process_time() - begin
        return result

    ledger = timed("ledger", lambda: Ledger(num_rows))
    for epoch in range(EPOCHS):
        for rows in torch.arange(num_rows).split(size):
            logits = beliefs(true, rows, noise, epoch)
            timed("ledger", lambda: ledger.update(rows, logits, given[rows], epoch=epoch))  # noqa: B023
    chosen = torch.arange(0, num_rows, 20)  # as many as a warm-up holds out
    agreed = float((true[chosen] == given[chosen]).float().mean())
    held_out = HeldOut(epoch=EPOCHS, accuracy=agreed, rows=chosen.numpy())
    labels = given.numpy()
    evidence = timed("evidence", lambda: evidence_from_ledger(ledger, labels, held_out))
    verdict = timed("rate", lambda: judge(evidence, labels, num_classes))
    rate = timed("rate", lambda: verdict.rate)
    worst = timed("ranking", lambda: verdict.order)
    timed("ranking", lambda: verdict.is_label_issue)
    count = int(wrong.sum())
    found = float(wrong.numpy()[worst[:count]].mean())
    return {
        **spent,
        "total": sum(spent.values()),
        "gib": (peak_bytes() - before) / 2**30,
        "whole_gib": peak_bytes() / 2**30,
        "estimate": [rate.low, rate.value, rate.high],
        "truth": count / num_rows,
        "expected": verdict.expected_wrong(count).value / count,
        "found": found,
        "finite": bool(np.isfinite(verdict.label_score).all()),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="only the cases below 10⁶ rows")
    parser.add_argument("--output", type=Path, help="where to keep the figures, as JSON")
    parser.add_argument("--case", nargs=2, type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(run(*arguments.case)))
        return 0
    cases = [case for case in CASES if case[0] < 10**6] if arguments.small else CASES
    results = {}
    table = Table(
        "rows", "classes", "ledger s", "evidence s", "rate s", "ranking s", "GiB", "estimate"
    )
    for case in cases:
        command = [sys.executable, __file__, "--case", *map(str, case)]
        runs = [subprocess.run(command, check=True, capture_output=True, text=True) for _ in "ab"]
        found = [json.loads(done.stdout) for done in runs]
        got = results[case] = min(found, key=lambda one: one["total"])
        low, value, high = got["estimate"]
        times = [f"{got[name]:.2f}" for name in ("ledger", "evidence", "rate", "ranking")]
        table.add_row(
            f"{case[0]:,}",
            f"{case[1]:,}",
            *times,
            f"{got['gib']:.2f}",
            f"{value:.3f} [{low:.3f}, {high:.3f}] of {got['truth']:.3f}",
        )
    Console(width=110).print(table)
    if arguments.output:
        rows = [{"rows": n, "classes": m, **got} for (n, m), got in results.items()]
        arguments.output.write_text(json.dumps(rows, indent=1) + "\n")
    missed = []
    for (rows, classes), got in results.items():
        more = results.get((rows * 10, classes))
        if more is None:
            continue
        for name, unit in (("total", "time"), ("gib", "memory")):
            ratio = more[name] / got[name]
            print(f"{rows:,} → {rows * 10:,} × {classes:,}: {ratio:.1f} times the {unit}")
            if ratio > GROWTH:
                missed.append(f"{ratio:.1f} times the {unit} at {rows * 10:,} × {classes:,}")
    largest = results.get((10**7, 10))
    if largest and largest["whole_gib"] > LARGEST_GIB:
        missed.append(f"{largest['whole_gib']:.2f} GiB at 10⁷ × 10")
    print("missed: " + "; ".join(missed) if missed else "all aims are met")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
