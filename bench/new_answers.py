"""Seconds for new answers to a finished audit, from its folder to its folder.

The audit is one of given probabilities, on a table in a file. 1,000 answers in a CSV, worst first,
a tenth of them unsure and a tenth dropped, are taken in as `abstain audit --resume --reviewed` does
it; then the report is written. Times are CPU seconds of one core, the median of a few runs, without
imports.

    OMP_NUM_THREADS=1 python bench/new_answers.py [--labels 100000] [--output FILE]
"""

import argparse
import csv
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from abstain.auditing.audit import audit
from abstain.report import write_report

CLASSES, COLUMNS, ANSWERS, RUNS, RATE = 10, 8, 1_000, 5, 0.1


def make_audit(place, labels):
    """A finished audit, and a file of answers to it."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, CLASSES, labels)
    wrong = rng.random(labels) < RATE
    given = np.where(wrong, (true + rng.integers(1, CLASSES, labels)) % CLASSES, true)
    logits = rng.normal(size=(labels, CLASSES)) + 5 * np.eye(CLASSES)[true]
    p = np.exp(logits - logits.max(1, keepdims=True))
    np.savez(place / "rows.npz", x=rng.normal(size=(labels, COLUMNS)), y=given)
    probabilities = p / p.sum(1, keepdims=True)
    found = audit(place / "rows.npz", probabilities=probabilities, folder=place / "audit")
    with (place / "checked.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "checked_label", "unsure_or_drop"])
        for k, row in enumerate(found.order[:ANSWERS].tolist()):
            word = {0: "unsure", 1: "drop"}.get(k % 10, "")
            writer.writerow([found.data.ids[row], "" if word else int(true[row]), word])
    return place / "audit", place / "checked.csv"


def timed(do, *args, **options):
    began = time.process_time()
    done = do(*args, **options)
    return time.process_time() - began, done


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--labels", type=int, nargs="+", default=[10**5, 10**6])
    parser.add_argument("--output", type=Path, default=Path("results/new-answers.json"))
    options = parser.parse_args()
    rows = []
    for labels in options.labels:
        with tempfile.TemporaryDirectory() as name:
            folder, answers = make_audit(Path(name), labels)
            seconds, report = [], []
            for _ in range(RUNS):
                spent, found = timed(audit, folder=folder, resume=True, reviewed=answers)
                seconds.append(spent)
                report.append(timed(write_report, found, folder / "report.html")[0])
        row = {
            "labels": labels,
            "answers": ANSWERS,
            "seconds": round(float(np.median(seconds)), 3),
            "report_seconds": round(float(np.median(report)), 3),
        }
        rows.append(row)
        print(json.dumps(row), flush=True)
    options.output.write_text(json.dumps({"rows": rows}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
