"""Measure how reviewed labels change P(wrong) of the other labels, and a new training.

    python bench/reviews.py --ledgers FOLDER --data-dir DATA

FOLDER is what bench/cases.py wrote, DATA what it read. Reviewers answer by the true labels. All by
the evidence of a training, on fixed features, and by numbers learnt without the source.

- Answers, on the cases with real errors and on one class confused with the next: 50 to 400 labels
  are reviewed, the worst first (ranked again after every 25), drawn at random (the mean over a few
  draws), or mixed: 30 at random, then the worst. Of the labels still open: how far the expected
  noise rate is off, whether the 90% interval covers and how wide it is, log loss and average
  precision. Besides, how many wrong labels were found, and whether the expected rate of the open
  labels moved against the answers: up though fewer were wrong than expected, or the reverse.
- Training again, on the cases with real errors and all columns: the 200 worst labels are corrected
  and the same recipe trains again. How well are the labels ranked that nobody reviewed, before and
  after?
- Speed: seconds to judge all labels again and to put those that are open into a new order, as the
  review page does: 1,000 decisions, 100 classes.

`confused 0.4` is noise of one class: 40% of it are labelled as the next class, all else is right.

It writes results/reviews.json; bench/verdict.py --report puts it into docs/audit-bench.md. The
entry `before` there has the same figures of the curve that this one replaced, which had a random
offset and slope; it is not made again.
"""

import argparse
import importlib.util
import json
import math
import os
import time
from pathlib import Path

import numpy as np
from cases import LEDGERS, ROOT, cases, features_of, labels_of, ledger_of, read_set, source_of
from fit_verdict import left_out, memorised, stored
from scipy.special import expit
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score
from verdict import write

from abstain.scores.evidence import Evidence
from abstain.scores.verdict import judge

RESULTS = ROOT / "results/reviews.json"
SIZES, STEP, DRAWS, FIRST, CORRECTED, DIGITS = (50, 100, 200, 400), 25, 3, 30, 200, 4
CONFUSED = 0.4
LABELS, CLASSES, DECISIONS, RUNS = (10**5, 10**6), 100, 1000, 5
FIGURES = ("found", "error", "bias", "covers", "width", "log_loss", "ap", "against")


# ── Answers ───────────────────────────────────────────────────────────────────────────────────────


def figures_of(before, after, wrong):
    """`FIGURES` of one verdict that knows some answers."""
    known = after.is_reviewed
    left, truth, unseen = int((~known).sum()), int(wrong[~known].sum()), after.unseen
    bias = (unseen.value - truth) / left
    covers = math.floor(unseen.low) <= truth <= math.ceil(unseen.high)  # labels are whole ones
    logits = after.logits[~known].astype(np.float64)
    loss = log_loss(wrong[~known], expit(logits), labels=[False, True])
    ap = average_precision_score(wrong[~known], logits) if 0 < truth < left else np.nan
    beyond = wrong[known].sum() - before.wrong_probability[known].sum()
    moved = unseen.value - before.expected_among(~known).value
    against = abs(moved) > 1e-3 and np.sign(moved) != np.sign(beyond)
    width = (unseen.high - unseen.low) / left
    return [wrong[known].sum(), abs(bias), bias, covers, width, loss, ap, against]


def lines_of(case, evidence, given, true):
    """A line for each way and number of reviews."""
    wrong, num_classes = given != true, int(max(given.max(), true.max())) + 1
    learnt, rng = left_out(source_of(case[0])), np.random.default_rng(0)
    if len(given) <= max(SIZES):
        return

    def after(rows):
        answers = dict(zip(rows.tolist(), true[rows].tolist(), strict=True))
        return judge(evidence, given, num_classes, answers, learnt)

    before = after(np.arange(0))
    draws = [rng.permutation(len(given)) for _ in range(DRAWS)]
    found = {
        ("random", size): [figures_of(before, after(rows[:size]), wrong) for rows in draws]
        for size in SIZES
    }
    for way, rows in (("worst", np.arange(0)), ("mixed", draws[0][:FIRST])):
        while len(rows) < max(SIZES):
            step = min(STEP, min(x for x in SIZES if x > len(rows)) - len(rows))
            rows = np.append(rows, after(rows).order[:step])
            if len(rows) in SIZES:
                found[way, len(rows)] = [figures_of(before, after(rows), wrong)]
    for (way, size), figures in found.items():
        means = np.mean(figures, 0).round(DIGITS).tolist()
        yield [*case, way, size, *(None if x != x else x for x in means)]


def confused(name, options):
    """Evidence, given and true labels of a set of which one class was confused with the next."""
    import torch

    from abstain import Recipe

    torch.set_num_threads(1)
    inputs, _, true = read_set(name, options.data_dir)
    rng = np.random.default_rng(0)
    given = np.where((true == 0) & (rng.random(len(true)) < CONFUSED), 1, true)
    features = features_of(name, inputs, "all", options.wordllama)
    kept = ledger_of((features, given), Recipe.of("auto").plan().until_settled())
    return evidence_of(kept), given, true


def answered(options):
    """The lines of all cases."""
    lines, many = [], []
    for case in (x for x in cases() if x.features != "network"):
        if case.noise == "real":
            kept, by_kind, _ = stored(case, options.ledgers)
            labels = kept["given"].astype(np.int64), kept["true"].astype(np.int64)
            lines += lines_of((case.name, case.features, case.noise), by_kind["ledger"], *labels)
            print(case.file, flush=True)
        elif case.noise == "clean 0" and case.features == "all":
            many += [case.name] if stored(case, options.ledgers)[0]["true"].max() > 1 else []
    for name in many:
        lines += lines_of((name, "all", f"confused {CONFUSED}"), *confused(name, options))
        print(name, "confused", flush=True)
    return lines


def seconds_to_rank(labels):
    """The median of a few runs: verdict, order and the figures that the page shows."""
    rng = np.random.default_rng(0)
    given = rng.integers(0, CLASSES, labels)
    rival = (given + rng.integers(1, CLASSES, labels)) % CLASSES
    odds = np.clip(rng.normal(2, 2, labels), -4, 4)
    evidence = evidence_of({"evidence": odds, "rival": rival, "accuracy": 0.8})
    rows, wrong = judge(evidence, given, CLASSES).order[:DECISIONS], rng.random(DECISIONS) < 0.7
    answers = np.where(wrong, rival[rows], given[rows]).tolist()
    reviewed, spent = dict(zip(rows.tolist(), answers, strict=True)), []
    for _ in range(RUNS):
        began = time.perf_counter()
        verdict = judge(evidence, given, CLASSES, reviewed)
        _ = verdict.order, verdict.is_label_issue, verdict.unseen, verdict.rate
        spent.append(time.perf_counter() - began)
    return round(float(np.median(spent)), 3)


# ── Training again ────────────────────────────────────────────────────────────────────────────────


def evidence_of(training):
    """The evidence of a training made here."""
    odds = training["evidence"].astype(np.float32)
    return Evidence(
        log_odds=odds, rival=training["rival"].astype(np.int32), rival_share=np.ones_like(odds),
        memorised=memorised(odds, training["accuracy"]), abstention=np.full_like(odds, np.nan),
    )  # fmt: skip


def retrained(case, options):
    """Measure ranking and rate of labels that nobody reviewed, before and after corrections."""
    import torch

    from abstain import Recipe

    torch.set_num_threads(1)
    inputs, given, true = read_set(case.name, options.data_dir)
    features = features_of(case.name, inputs, case.features, options.wordllama)
    given = labels_of(case, given, true, features)
    num_classes = int(max(given.max(), true.max())) + 1
    recipe, learnt = Recipe.of("auto").plan().until_settled(), left_out(source_of(case.name))
    first = evidence_of(ledger_of((features, given), recipe))
    worst = judge(first, given, num_classes, learnt=learnt).order[:CORRECTED]
    corrected = given.copy()
    corrected[worst] = true[worst]
    again = evidence_of(ledger_of((features, corrected), recipe))
    answers = dict(zip(worst.tolist(), true[worst].tolist(), strict=True))
    wrong, rest = given != true, np.ones(len(given), bool)
    rest[worst] = False
    figures = [int(wrong[worst].sum())]
    # The evidence on a corrected label is that of a right one: as an answer on the given label it
    # would show that labels with strong evidence are wrong. So after the training no answer counts.
    for evidence, labels, known in ((first, given, answers), (again, corrected, None)):
        found = judge(evidence, labels, num_classes, reviewed=known, learnt=learnt)
        expected, ranked = found.expected_among(rest), (wrong[rest], found.logits[rest])
        error = abs(expected.value - wrong[rest].sum()) / rest.sum()
        figures += [roc_auc_score(*ranked), average_precision_score(*ranked), error]
    counted = judge(again, corrected, num_classes, reviewed=answers, learnt=learnt).unseen.value
    figures += [abs(counted - wrong[rest].sum()) / rest.sum()]
    with np.load(options.ledgers / case.file) as kept:
        same = np.allclose(kept["evidence"].astype(np.float32), first.log_odds, atol=0.02)
    print(case.file, "as stored" if same else "differs from the stored ledger", flush=True)
    return [case.name, *np.round(figures, DIGITS).tolist()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ledgers", type=Path, default=LEDGERS)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("ABSTAIN_DATA"))
    parser.add_argument("--wordllama", type=Path)
    options = parser.parse_args()
    if options.wordllama is None and (spec := importlib.util.find_spec("wordllama")):
        options.wordllama = Path(spec.origin).parent
    kept = json.loads(RESULTS.read_text(encoding="utf-8"))
    lines = answered(options)
    again = [x for x in cases() if x.noise == "real" and x.features == "all"]
    both = [f"{x}_{when}" for when in ("before", "after") for x in ("auroc", "ap", "error")]
    speed = {"decisions": DECISIONS, "classes": CLASSES}
    write(
        {
            "corrected": CORRECTED,
            "draws": DRAWS,
            "step": STEP,
            "first": FIRST,
            "speed": speed | {"seconds": {str(x): seconds_to_rank(x) for x in LABELS}},
            "columns": ["name", "features", "noise", "way", "reviews", *FIGURES],
            "retrained_columns": ["name", "found_wrong", *both, "error_counted"],
            "retrained": [retrained(case, options) for case in again],
            "cases": lines,
            "before": kept["before"],
        },
        RESULTS,
    )


if __name__ == "__main__":
    main()
