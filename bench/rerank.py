"""What shifts of pairs gain: labels that are still open, ranked by the decisions on others.

    python bench/rerank.py --ledgers FOLDER --data-dir DATA

FOLDER is what bench/cases.py wrote, DATA what it read. On all cases with fixed features, by the
evidence of a training and numbers learnt without the source, two verdicts are compared: by the
curve alone (all labels one pair without a shift: the order is that of the evidence, whatever was
decided), and with shifts of pairs. Reviewers answer by the true labels.

- Worst first, ranked again after every 25 answers: how many wrong labels are found, and noise rate,
  interval and log loss of the labels that are still open.
- The same answers for both, the worst by evidence: how well open labels are ranked.
- Answers on labels drawn at random, the mean over five draws: all figures but the first.
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

from abstain.auditing.findings import Findings
from abstain.review.queue import Queue
from abstain.scores.verdict import judge

RESULTS = ROOT / "results/rerank.json"
SIZES, STEP, DRAWS, RANDOM = (50, 100, 200, 400), 25, 5, 200
CONFUSED = 0.4
LABELS, CLASSES, DECISIONS, RUNS = (10**5, 10**6), 100, 1000, 5
COLUMNS = ("found", "auroc", "ap", "error", "log_loss", "covers", "width")


def ranking(found, wrong):
    """AUROC and average precision of the labels not reviewed, where some but not all are wrong."""
    labels = wrong[~found.is_reviewed], found.logits[~found.is_reviewed]
    if labels[0].all() or not labels[0].any():
        return [np.nan, np.nan]
    return [roc_auc_score(*labels), average_precision_score(*labels)]


def calibration(found, wrong):
    """Of the labels not reviewed: error of the noise rate, log loss, coverage and width."""
    error, _, covers, loss = rest_figures(found, wrong)
    return [
        error,
        loss,
        covers,
        (found.unseen.high - found.unseen.low) / (~found.is_reviewed).sum(),
    ]


def figures_of(after, wrong, order, drawn):
    """By way and number of reviews: `COLUMNS`, of the verdicts that `after` gives."""
    rows, found = np.arange(0), {}
    while len(rows) < max(SIZES):
        rows = np.append(rows, after(rows).order[:STEP])
        if len(rows) in SIZES:
            ranked = ranking(after(order[: len(rows)]), wrong)
            found["worst", len(rows)] = [
                int(wrong[rows].sum()), *ranked, *calibration(after(rows), wrong)
            ]  # fmt: skip
    verdicts = [after(rows) for rows in drawn]
    means = np.mean([[*ranking(x, wrong), *calibration(x, wrong)] for x in verdicts], 0)
    return {**found, ("random", RANDOM): [np.nan, *means]}


def lines_of(case, evidence, given, true):
    """A line for each way and number of reviews: figures by the curve alone, then with shifts."""
    wrong, num_classes = given != true, int(max(given.max(), true.max())) + 1
    learnt, rng = left_out(source_of(case[0])), np.random.default_rng(0)
    if len(given) <= max(SIZES):
        return

    def alone(rows):
        answers = dict(zip(rows.tolist(), wrong[rows].astype(int).tolist(), strict=True))
        one_pair = replace(evidence, rival=np.ones_like(evidence.rival))
        numbers = replace(learnt, class_spread=0.0)
        return judge(one_pair, np.zeros_like(given), 2, answers, numbers)

    def shifted(rows):
        answers = dict(zip(rows.tolist(), true[rows].tolist(), strict=True))
        return judge(evidence, given, num_classes, answers, learnt)

    order = alone(np.arange(0)).order
    drawn = [rng.choice(len(given), RANDOM, replace=False) for _ in range(DRAWS)]
    both = [figures_of(after, wrong, order, drawn) for after in (alone, shifted)]
    for way, size in both[0]:
        figures = np.round([*both[0][way, size], *both[1][way, size]], DIGITS).tolist()
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
    evidence = evidence_of({"evidence": odds, "rival": rival, "accuracy": 0.8})
    queue = Queue(judge(evidence, given, CLASSES))
    rows, wrong = queue.order[:DECISIONS], rng.random(DECISIONS) < 0.7
    answers = np.where(wrong, rival[rows], given[rows]).tolist()
    reviewed, spent = dict(zip(rows.tolist(), answers, strict=True)), []
    for _ in range(RUNS):
        began = time.perf_counter()
        findings = Findings(verdict=judge(evidence, given, CLASSES, reviewed))
        queue.rank(findings.verdict)
        findings.as_json()
        queue.ahead(findings.verdict, [])
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
