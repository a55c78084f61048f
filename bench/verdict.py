"""Measure the verdict on data sets that its numbers were not learnt from.

    python bench/verdict.py --ledgers FOLDER   # judge all cases that bench/cases.py kept, minutes
    python bench/verdict.py --ledgers FOLDER --again   # after a change of the mapping alone
    python bench/verdict.py --report           # the page alone, from results/verdict.json

Every case is judged by numbers learnt without its source, from either kind of evidence: that of one
training, and that of out-of-sample probabilities. Beside it on the same features:

- cleanlab on the same probabilities: `find_label_issues` flags, `num_label_issues` counts, and
  `get_label_quality_scores` (self-confidence) ranks;
- argmax ≠ given: a label is wrong if the likeliest class is another, by the same probabilities;
- evidence < 0: a label is wrong if the training disagreed with it; nothing is learnt or tuned;
- AUM: the mean margin of logits over the same training; it only ranks.

It writes results/verdict.json, a line per case, and docs/audit-bench.md by bench/verdict_page.py.
"""

import argparse
import json
import math
import platform
from dataclasses import fields, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
from cases import LEDGERS, ROOT, cases, source_of
from fit_verdict import centres, left_out, load, stored
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

from abstain.scores.curve import Learnt
from abstain.scores.evidence import Evidence
from abstain.scores.verdict import CONFIDENCE, judge

RESULTS = ROOT / "results/verdict.json"
BUDGETS = 10
DIGITS = 4
MOVED_BY = 0.2
REVIEWS = 200
_LABELS_OF_A_CLASS = 100


# ── One case ──────────────────────────────────────────────────────────────────────────────────────


def figures(wrong, rate=None, flags=None, badness=None):
    """Measure a rate, flags and a ranking, where the wrong labels are known.

    >>> wrong = np.array([True, False, False, True])
    >>> figures(wrong, rate=0.3, flags=wrong, badness=wrong.astype(float))["error"]
    0.2
    """
    found = {}
    if rate is not None:
        found |= {"rate": rate, "error": abs(rate - wrong.mean())}
    if flags is not None:
        found["flagged"] = flags.mean()
        if wrong.any():
            found["f1"] = f1_score(wrong, flags, zero_division=0.0)
    if badness is not None and wrong.any():
        found["auroc"] = roc_auc_score(wrong, badness)
        found["ap"] = average_precision_score(wrong, badness)
    return {name: round(float(x), DIGITS) for name, x in found.items()}


def interval_figures(interval, truth):
    """Whether an interval covers, its width, and its score (Gneiting and Raftery 2007).

    The score is the width plus 2/α times how far the truth lies outside: lower is better.

    >>> from abstain.scores.interval import Interval
    >>> interval_figures(Interval(value=0.2, low=0.1, high=0.3), 0.31)["score"]
    0.4
    """
    width = interval.high - interval.low
    outside = max(interval.low - truth, truth - interval.high, 0.0)
    return {
        "low": round(interval.low, DIGITS),
        "high": round(interval.high, DIGITS),
        "covers": int(truth in interval),
        "width": round(width, DIGITS),
        "score": round(width + 2 / (1 - CONFIDENCE) * outside, DIGITS),
    }


def budget_figures(found, wrong):
    """Count the wrong among the k worst, against what was expected, for ten k up to all flags."""
    flagged = max(int(found.is_label_issue.sum()), 1)
    true = np.cumsum(wrong[found.order])
    errors, covered = [], []
    for budget in sorted({math.ceil(flagged * x / BUDGETS) for x in range(1, BUDGETS + 1)}):
        expected = found.expected_wrong(budget)
        errors.append(abs(expected.value - true[budget - 1]) / budget)
        # Labels are whole ones: an interval between two counts would have neither.
        low, high = math.floor(expected.low), math.ceil(expected.high)
        covered.append(low <= true[budget - 1] <= high)
    named = {"budget_mean": errors, "budget_max": [max(errors)], "budget_covers": covered}
    return {name: round(float(np.mean(x)), DIGITS) for name, x in named.items()}


def by_verdict(evidence, given, num_classes, wrong, learnt):
    found = judge(evidence, given, num_classes, learnt=learnt)
    return (
        figures(wrong, found.rate.value, found.is_label_issue, found.logits)
        | interval_figures(found.rate, float(wrong.mean()))
        | budget_figures(found, wrong)
    )


def by_cleanlab(probabilities, given, wrong):
    from cleanlab.count import num_label_issues
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    flags = find_label_issues(given, probabilities, n_jobs=1)
    rate = num_label_issues(given, probabilities) / len(given)
    scores = get_label_quality_scores(given, probabilities, method="self_confidence")
    return figures(wrong, rate, flags, -scores)


def judged_again(case, folder, rows):
    """The row of a case with verdicts by the mapping of today; all other figures stay.

    Without its ledger the evidence is that of the bins of `results/verdict-cases.npz`, which have
    no rivals. Rankings do not depend on the mapping.
    """
    row = next(x for x in rows if tuple(x["case"]) == (case.name, case.features, case.noise))
    learnt = left_out(source_of(case.name))
    for counts in (x for x in load() if x.case == case):
        evidence, given, wrong = labels_from_counts(counts)
        if (folder / case.file).exists():
            kept, by_kind, wrong = stored(case, folder)
            evidence, given = by_kind[counts.kind], kept["given"].astype(np.int64)
        ranking = {x: row[counts.kind][x] for x in ("auroc", "ap") if x in row[counts.kind]}
        found = by_verdict(evidence, given, max(row["classes"], 2), wrong, learnt)
        row[counts.kind] = found | ranking
    return row


def row_of(case, folder):
    """All figures of a case."""
    kept, by_kind, wrong = stored(case, folder)
    given, probabilities = kept["given"].astype(np.int64), kept["probabilities"]
    num_classes = int(max(given.max(), kept["true"].max())) + 1
    learnt = left_out(source_of(case.name))
    odds = by_kind["ledger"].log_odds
    other, disagreed = probabilities.argmax(1) != given, odds < 0
    row = {
        "case": [case.name, case.features, case.noise],
        "source": source_of(case.name),
        "labels": len(given),
        "classes": num_classes,
        "truth": round(float(wrong.mean()), DIGITS),
        "held_out_disagreement": round(1 - float(kept["accuracy"]), DIGITS),
        "memorised": round(by_kind["ledger"].memorised, DIGITS),
    }
    if case.features != "network":
        row["seconds"] = [round(float(kept[x]), 2) for x in ("seconds", "cv_seconds")]
    for kind, evidence in by_kind.items():
        row[kind] = by_verdict(evidence, given, num_classes, wrong, learnt)
    row["cleanlab"] = by_cleanlab(probabilities, given, wrong)
    row["argmax"] = figures(wrong, other.mean(), other)
    row["raw"] = figures(wrong, disagreed.mean(), disagreed, -odds)
    row["aum"] = figures(wrong, badness=-kept["margin"].astype(np.float64))
    return row


# ── What each learnt number does ──────────────────────────────────────────────────────────────────


def labels_from_counts(counts):
    """Evidence, given labels and which are wrong, as the stored counts of a case have them."""
    of_class, is_wrong, place = np.nonzero(counts.by_class)
    times = counts.by_class[of_class, is_wrong, place]
    order = np.random.default_rng(0).permutation(int(times.sum()))  # no order within equals
    given, wrong, odds = (
        np.repeat(x, times)[order] for x in (of_class, is_wrong, centres()[place])
    )
    blank = np.full(len(order), np.nan, np.float32)
    evidence = Evidence(
        log_odds=odds.astype(np.float32), rival=np.zeros(len(order), np.int32),
        rival_share=blank, memorised=counts.memorised, abstention=blank,
    )  # fmt: skip
    return evidence, given.astype(np.int64), wrong.astype(bool)


def moved(learnt, name, by):
    """A number moved by a share of itself; the slope itself, where its log is kept."""
    value = getattr(learnt, name)
    return replace(
        learnt, **{name: value + math.log1p(by) if name == "log_slope" else value * (1 + by)}
    )


def effect(learnt):
    """Figures over the real cases.

    Error of the rate, F1, coverage, coverage for single classes, and error of the rate of the
    labels that are left after worst-first reviews.
    """
    rows = []
    for counts in (x for x in load() if x.is_real and x.kind == "ledger"):
        evidence, given, wrong = labels_from_counts(counts)
        found = judge(evidence, given, len(counts.by_class), learnt=learnt)
        known = figures(wrong, found.rate.value, found.is_label_issue)
        of_classes = [
            wrong[given == k].mean() in interval
            for k, interval in enumerate(found.per_class)
            if (given == k).sum() >= _LABELS_OF_A_CLASS
        ]
        covers = wrong.mean() in found.rate
        after = error_after_reviews(evidence, given, wrong, found.order[:REVIEWS], learnt)
        rows.append([known["error"], known["f1"], covers, np.mean(of_classes), after])
    return [round(float(x), DIGITS) for x in np.mean(rows, 0)]


def error_after_reviews(evidence, given, wrong, worst, learnt):
    """Error of the expected noise rate of the labels that nobody reviewed, once the worst were."""
    # Which class a wrong label should have is not in the counts, and does not matter here.
    other = int(given.max()) + 1
    answers = {int(k): other if wrong[k] else int(given[k]) for k in worst}
    found = judge(evidence, given, other + 1, answers, learnt)
    rest = ~found.is_reviewed
    return abs(found.unseen.value - wrong[rest].sum()) / rest.sum()


def sensitivity(learnt):
    """Move each number: name, share moved by, and the figures of `effect`."""
    ways = [(x.name, by) for x in fields(Learnt) for by in (-MOVED_BY, MOVED_BY)]
    lines = [[name, by, *effect(moved(learnt, name, by))] for name, by in ways]
    return [["none", 0.0, *effect(learnt)], *lines]


def without_each_source():
    """For each number, the least and the most that is learnt without a source, and which."""
    found = {source: left_out(source) for source in sorted({x.source for x in load()})}
    lines = []
    for name in (x.name for x in fields(Learnt)):
        values = {source: round(getattr(x, name), DIGITS) for source, x in found.items()}
        least, most = min(values, key=values.get), max(values, key=values.get)
        lines.append([name, values[least], least, values[most], most])
    return lines


# ── All of it ─────────────────────────────────────────────────────────────────────────────────────


def write(result, path):
    """JSON with a line for each entry of each list."""
    parts = []
    for name, value in result.items():
        text = json.dumps(value)
        if isinstance(value, list):
            text = "[\n" + ",\n".join(json.dumps(x) for x in value) + "\n]"
        parts.append(f"{json.dumps(name)}: {text}")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ledgers", type=Path, default=LEDGERS)
    parser.add_argument("--report", action="store_true", help="only make the page")
    parser.add_argument("--again", action="store_true", help="only judge again, keep all else")
    options = parser.parse_args()
    if not options.report:
        found, before = [], json.loads(RESULTS.read_text(encoding="utf-8"))
        for number, case in enumerate(cases(), 1):
            if options.again:
                found.append(judged_again(case, options.ledgers, before["cases"]))
            else:
                found.append(row_of(case, options.ledgers))
            print(f"{number} {case.file}", flush=True)
        packages = ("cleanlab", "numpy", "scikit-learn", "torch")
        versions = before["versions"]
        if not options.again:
            versions = {x: version(x) for x in packages}
            versions = {"python": platform.python_version()} | versions
        write(
            {
                "versions": versions,
                "learnt": {x.name: getattr(Learnt.load(), x.name) for x in fields(Learnt)},
                "left_out": without_each_source(),
                "sensitivity": sensitivity(Learnt.load()),
                "cases": found,
            },
            RESULTS,
        )
    import verdict_page

    verdict_page.write()


if __name__ == "__main__":
    main()
