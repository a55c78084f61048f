"""How reviewed labels change P(wrong) of the other labels, and a new training.

    python bench/reviews.py --ledgers FOLDER --data-dir DATA

FOLDER is what bench/cases.py wrote, DATA what it read. Reviewers answer by the true labels.

- Calibration, on all cases with fixed features, by the evidence of a training and numbers learnt
  without the source: 0 to 400 labels are reviewed, the worst first or drawn at random (the mean
  over ten draws). Of the labels not reviewed: how far the expected noise rate is off, whether the
  90% interval covers, and the log loss of P(wrong).
- Training again, on the cases with real errors and all columns: the 200 worst labels are corrected
  and the same recipe trains again. How well are the labels ranked that nobody reviewed, before and
  after?

It writes results/reviews.json; bench/verdict.py --report puts it into docs/audit-bench.md.
"""

import argparse
import importlib.util
import math
import os
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
SIZES, DRAWS, CORRECTED, DIGITS = (0, 50, 100, 200, 400), 10, 200, 4


# ── Calibration ───────────────────────────────────────────────────────────────────────────────────


def rest_figures(found, wrong):
    """Of the labels not reviewed: error of the noise rate, signed; coverage; log loss."""
    rest = ~found.is_reviewed
    left, truth, unseen = int(rest.sum()), int(wrong[rest].sum()), found.unseen
    bias = (unseen.value - truth) / left
    covers = math.floor(unseen.low) <= truth <= math.ceil(unseen.high)  # labels are whole ones
    loss = log_loss(wrong[rest], expit(found.logits[rest].astype(np.float64)), labels=[False, True])
    return [abs(bias), bias, covers, loss]


def calibration_of(case, folder):
    """A row for each way and number of reviews."""
    kept, by_kind, wrong = stored(case, folder)
    given, true = kept["given"].astype(np.int64), kept["true"].astype(np.int64)
    num_classes = int(max(given.max(), true.max())) + 1
    learnt = left_out(source_of(case.name))

    def after(rows):
        answers = dict(zip(rows.tolist(), true[rows].tolist(), strict=True))
        return judge(by_kind["ledger"], given, num_classes, reviewed=answers, learnt=learnt)

    before, rng = after(np.arange(0)), np.random.default_rng(0)
    for size in (x for x in SIZES if x < len(given)):
        drawn = [rng.choice(len(given), size, replace=False) for _ in range(DRAWS if size else 1)]
        for way, chosen in (("worst", [before.order[:size]]), ("random", drawn)):
            mean = np.mean([rest_figures(after(rows), wrong) for rows in chosen], 0)
            yield [case.name, case.features, case.noise, way, size, *mean.round(DIGITS).tolist()]


# ── Training again ────────────────────────────────────────────────────────────────────────────────


def evidence_of(training):
    """The evidence of a training made here."""
    odds = training["evidence"].astype(np.float32)
    return Evidence(
        log_odds=odds, rival=training["rival"].astype(np.int32), rival_share=np.ones_like(odds),
        memorised=memorised(odds, training["accuracy"]), abstention=np.full_like(odds, np.nan),
    )  # fmt: skip


def retrained(case, options):
    """How labels that nobody reviewed are ranked before and after corrections, and their rate."""
    import torch

    from abstain import Recipe

    torch.set_num_threads(1)
    inputs, given, true = read_set(case.name, options.data_dir)
    features = features_of(case.name, inputs, case.features, options.wordllama)
    given = labels_of(case, given, true, features)
    num_classes = int(max(given.max(), true.max())) + 1
    recipe, learnt = Recipe.of("auto").until_settled(), left_out(source_of(case.name))
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
    fixed = [x for x in cases() if x.features != "network"]
    calibration = [row for case in fixed for row in calibration_of(case, options.ledgers)]
    print(f"{len(calibration)} rows of calibration", flush=True)
    again = [x for x in cases() if x.noise == "real" and x.features == "all"]
    of_the_rest = ["error", "bias", "covers", "log_loss"]
    both = [f"{x}_{when}" for when in ("before", "after") for x in ("auroc", "ap", "error")]
    write(
        {
            "corrected": CORRECTED,
            "draws": DRAWS,
            "calibration_columns": ["name", "features", "noise", "way", "reviews", *of_the_rest],
            "retrained_columns": ["name", "found_wrong", *both, "error_counted"],
            "retrained": [retrained(case, options) for case in again],
            "calibration": calibration,
        },
        RESULTS,
    )


if __name__ == "__main__":
    main()
