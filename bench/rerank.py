"""What shifts of pairs gain: labels that are still open, ranked by the decisions on others.

    python bench/rerank.py --ledgers FOLDER --data-dir DATA

FOLDER is what bench/cases.py wrote, DATA what it read. On all cases with fixed features, by the
evidence of a training and numbers learnt without the source, two verdicts are compared: by the
curve alone (`class_spread` = 0: the order is that of the evidence, whatever was decided), and with
shifts of pairs. Reviewers answer by the true labels.

- Found: wrong labels among those reviewed, worst first, ranked again after every 25 answers.
- The same answers, the worst by evidence or drawn at random (the mean over five draws): how well
  the labels that are still open are ranked, and their noise rate, interval and log loss.

- Speed: seconds to judge all labels again and to put those that are open into a new order, as the
  review page does: 1,000 decisions, 100 classes.

`confused 0.4` is noise of one class: 40% of it are labelled as the next class, all else is right.
It is trained on here, for sets of three classes or more.

It writes results/rerank.json; bench/verdict.py --report puts it into docs/audit-bench.md.
"""

import argparse
import importlib.util
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from cases import LEDGERS, ROOT, cases, features_of, ledger_of, read_set, source_of
from fit_verdict import left_out, stored
from reviews import DIGITS, evidence_of, rest_figures
from sklearn.metrics import average_precision_score, roc_auc_score
from verdict import write

from abstain.review.queue import Queue
from abstain.scores.verdict import judge

RESULTS = ROOT / "results/rerank.json"
SIZES, STEP, DRAWS, RANDOM = (50, 100, 200, 400), 25, 5, 200
CONFUSED = 0.4
LABELS, CLASSES, DECISIONS, RUNS = (10**5, 10**6), 100, 1000, 5
COLUMNS = ("found", "auroc", "ap", "error", "log_loss", "covers", "width")


def open_figures(found, wrong):
    """Of the labels not reviewed, in the order of `COLUMNS`, without the first."""
    rest, unseen = ~found.is_reviewed, found.unseen
    error, _, covers, loss = rest_figures(found, wrong)
    ranked = [np.nan, np.nan]
    if 0 < wrong[rest].sum() < rest.sum():
        labels = wrong[rest], found.logits[rest]
        ranked = [roc_auc_score(*labels), average_precision_score(*labels)]
    return [*ranked, error, loss, covers, (unseen.high - unseen.low) / rest.sum()]


def found_in_steps(after, wrong):
    """How many labels are found to be wrong, by how many were reviewed, worst first."""
    rows, counts = np.arange(0), {}
    while len(rows) < max(SIZES):
        rows = np.append(rows, after(rows).order[:STEP])
        counts[len(rows)] = int(wrong[rows].sum())
    return counts


def lines_of(case, evidence, given, true):
    """A line for each way and number of reviews: figures by the curve alone, then with shifts."""
    wrong, num_classes = given != true, int(max(given.max(), true.max())) + 1
    learnt = left_out(source_of(case[0]))
    sizes = [x for x in SIZES if x < len(given)]
    if len(sizes) < len(SIZES):
        return
    order, rng = judge(evidence, given, num_classes, learnt=learnt).order, np.random.default_rng(0)
    chosen = {("worst", size): [order[:size]] for size in sizes}
    chosen["random", RANDOM] = [rng.choice(len(given), RANDOM, replace=False) for _ in range(DRAWS)]
    by_verdict = []
    for numbers in (replace(learnt, class_spread=0.0), learnt):

        def after(rows, numbers=numbers):
            answers = dict(zip(rows.tolist(), true[rows].tolist(), strict=True))
            return judge(evidence, given, num_classes, answers, numbers)

        found = found_in_steps(after, wrong)
        by_verdict.append(
            {
                key: [
                    found[key[1]] if key[0] == "worst" else None,
                    *np.mean([open_figures(after(rows), wrong) for rows in draws], 0)
                    .round(DIGITS)
                    .tolist(),
                ]
                for key, draws in chosen.items()
            }
        )
    for way, size in chosen:
        figures = [x for one in by_verdict for x in one[way, size]]
        yield [*case, way, size, *(None if x != x else x for x in figures)]


def confused(name, options):
    """Evidence, given and true labels of a set of which one class was confused with the next."""
    import torch

    from abstain import Recipe

    torch.set_num_threads(1)
    inputs, _, true = read_set(name, options.data_dir)
    rng = np.random.default_rng(0)
    given = np.where((true == 0) & (rng.random(len(true)) < CONFUSED), 1, true)
    features = features_of(name, inputs, "all", options.wordllama)
    kept = ledger_of((features, given), Recipe.of("auto").until_settled())
    return evidence_of(kept), given, true


def seconds_to_rank(labels):
    """The median of a few runs: verdict, order and figures that the page shows."""
    rng = np.random.default_rng(0)
    given = rng.integers(0, CLASSES, labels)
    rival = (given + rng.integers(1, CLASSES, labels)) % CLASSES
    odds = np.clip(rng.normal(2, 2, labels), -4, 4)
    queue = Queue(
        evidence_of({"evidence": odds, "rival": rival, "accuracy": 0.8}), given, CLASSES, {}
    )
    rows, wrong = queue.order[:DECISIONS], rng.random(DECISIONS) < 0.7
    answers = np.where(wrong, rival[rows], given[rows]).tolist()
    reviewed, spent = dict(zip(rows.tolist(), answers, strict=True)), []
    for _ in range(RUNS):
        began = time.perf_counter()
        verdict = queue.judged(reviewed)
        queue.rank(verdict)
        queue.figures(verdict, [], None, None)
        spent.append(time.perf_counter() - began)
    return round(float(np.median(spent)), 3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ledgers", type=Path, default=LEDGERS)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("ABSTAIN_DATA"))
    parser.add_argument("--wordllama", type=Path)
    options = parser.parse_args()
    if options.wordllama is None and (spec := importlib.util.find_spec("wordllama")):
        options.wordllama = Path(spec.origin).parent
    lines, many = [], []
    for case in (x for x in cases() if x.features != "network"):
        kept, by_kind, _ = stored(case, options.ledgers)
        given, true = kept["given"].astype(np.int64), kept["true"].astype(np.int64)
        lines += lines_of((case.name, case.features, case.noise), by_kind["ledger"], given, true)
        if case.noise == "clean 0" and case.features == "all" and true.max() > 1:
            many.append(case.name)
    for name in many:
        case = (name, "all", f"confused {CONFUSED}")
        lines += lines_of(case, *confused(name, options))
        print(*case, flush=True)
    both = [f"{x}_{how}" for how in ("alone", "shifted") for x in COLUMNS]
    columns = ["name", "features", "noise", "way", "reviews", *both]
    speed = {"decisions": DECISIONS, "classes": CLASSES}
    speed["seconds"] = {str(x): seconds_to_rank(x) for x in LABELS}
    counts = {"step": STEP, "draws": DRAWS, "speed": speed}
    write({**counts, "columns": columns, "cases": lines}, RESULTS)


if __name__ == "__main__":
    main()
