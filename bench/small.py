"""Which evidence ranks the labels of a small set best: of the training, of folds, leave-one-out?

    python bench/small.py --data-dir DATA --kept FOLDER --jobs 2   # judge; goes on where it stopped
    python bench/small.py --kept FOLDER --report                   # results/small.json and the page

Of every set of bench/cases.py some samples are drawn: 100, 200, … 1,600. Texts are seen by their
words (WordLlama) and by MiniLM, photos by the main 128 components of EfficientNet-Lite0 and by
EfficientNet-Lite2, tables as they are. Errors are the real ones, or planted on the true labels. A
class with fewer than five labels is left out. Features are made once, and kept in FOLDER.

Each kind of evidence is judged by a line learnt without the source of the set. Beside them stands
cleanlab on five-fold probabilities of scikit-learn's logistic regression. Seconds are CPU time of
one thread.
"""

import argparse
import importlib.util
import json
import math
import os
import time
import warnings
import zlib
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from cases import PHOTOS, PLAIN, ROOT, TABLES, TEXTS, mean_vectors, read_photos, read_set, source_of
from fit_verdict import coefficients, load
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from verdict import figures, interval_figures, write

from abstain import Recipe, noise, train
from abstain.embed.folds import out_of_sample
from abstain.embed.leave_one_out import leave_one_out
from abstain.scores.curve import Learnt
from abstain.scores.evidence import Evidence, evidence_from_ledger, evidence_from_probabilities
from abstain.scores.verdict import judge

RESULTS = ROOT / "results/small.json"
DRAWS = {100: 2, 200: 1, 400: 1, 800: 1, 1600: 1}
"""Number of draws of each set, by the size of a draw."""
SIZES = {
    "real": (100, 200, 400, 800, 1600),
    "symmetric 0.2": (100, 200, 400, 800),
    "pairflip 0.2": (400,),
}
"""At which sizes there are such errors; planted ones are drawn once."""
MINILM = ("weak_agnews", "climate_fever", "convabuse")
"""Texts that are short enough for MiniLM on a CPU."""
POOL, SLOW_POOL = 5_000, 2_400
"""Samples of a set that are drawn from; fewer where a network makes the features."""
LEAST = 5
"""Labels of a class."""
STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""C of logistic regression, where it is chosen by the loss on held-out labels."""
HEADS_AT = (200, 800)
"""Sizes at which the five blind heads are trained: they take longer than all else together."""
FIGURES = ("auroc", "ap", "f1", "error", "covers", "width", "score", "proposals", "seconds")


# ── Sets ──────────────────────────────────────────────────────────────────────────────────────────


def sets():
    """Name and features of each set."""
    found = [(name, "words") for name in TEXTS] + [(name, "table") for name in (*TABLES, *PLAIN)]
    found += [(name, features) for name in PHOTOS for features in ("pca128", "lite2")]
    return found + [(name, "minilm") for name in MINILM]


def todo():
    """Every case, those of the first draw first."""
    cases = [
        (name, features, size, draw, errors)
        for size, draws in DRAWS.items()
        for draw in range(draws)
        for name, features in sets()
        for errors, sizes in SIZES.items()
        if size in sizes and not (errors == "real" and name in PLAIN)
        if draw == 0 or errors == "real"
    ]
    return sorted(cases, key=lambda x: x[3])


def keep_features(name, features, options):
    """Make the features of a set, unless they are there."""
    target = options.kept / f"{name}__{features}.npz"
    if target.exists():
        return
    inputs, given, true = read_set(name, options.data_dir)
    rows = np.random.default_rng(1).permutation(len(given))
    rows = np.sort(rows[: SLOW_POOL if features in ("lite2", "minilm") else POOL])
    if features == "words":
        numbers = mean_vectors(inputs[rows], options.wordllama)
    elif features == "minilm":
        numbers = embedded("small:minilm", "text", list(inputs[rows]))
    elif features == "lite2":
        photos = torch.as_tensor(read_photos(name, options.data_dir)[rows])
        numbers = embedded("small:efficientnet-lite2", "image", photos)
    else:
        numbers = inputs[rows]
    np.savez(target, rows=numbers.astype(np.float32), given=given[rows], true=true[rows])


def embedded(backbone, kind, inputs):
    from abstain.data import load
    from abstain.embed.backbones.names import backbone_named
    from abstain.embed.embedding import embed

    data = load((inputs, np.arange(len(inputs)) % 2))  # the labels play no part
    return np.asarray(embed(data, backbone_named(backbone, kind)).within(2**33))


def drawn(name, features, size, draw, errors, folder):
    """Standardised features, given and true labels of a draw; None where there are too few."""
    with np.load(folder / f"{name}__{features}.npz") as kept:
        rows, given, true = kept["rows"], kept["given"], kept["true"]
    if size > len(given):
        return None
    chosen = np.random.default_rng([draw, size, zlib.crc32(name.encode())]).permutation(len(given))
    rows, given, true = (x[np.sort(chosen[:size])] for x in (rows, given, true))
    if errors != "real":
        kind, rate = errors.split()
        present, true = np.unique(true, return_inverse=True)
        if kind == "pairflip" and len(present) == 2:
            return None  # the same as symmetric
        given = noise.plant(
            true, np.arange(size), kind, float(rate), draw, num_classes=len(present), features=rows
        ).given
    while not (frequent := np.bincount(given)[given] >= LEAST).all():
        rows, given, true = rows[frequent], given[frequent], true[frequent]
    classes = np.unique(given)
    if len(classes) < 2 or not (given != true).any():
        return None
    number = np.full(max(given.max(), true.max()) + 1, -1)  # of a class that is never given
    number[classes] = np.arange(len(classes))
    spread = np.maximum(rows.std(0), 1e-6)
    return ((rows - rows.mean(0)) / spread).astype(np.float32), number[given], number[true]


# ── Evidence ──────────────────────────────────────────────────────────────────────────────────────


def timed(make, *arguments):
    began = time.process_time()
    made = make(*arguments)
    return made, time.process_time() - began


def by_training(rows, given):
    """Evidence of a training, and the share of its epochs that agreed with each label."""
    trained = train((rows, given), Recipe.of("auto").plan().until_settled())
    ledger = trained.ledger.cpu()
    return evidence_from_ledger(ledger, given, trained.held_out), 1 - (ledger.wrong / ledger.visits)


def by_regression(rows, given, strength=1.0, folds=5):
    """Probabilities of logistic regression, cross-validated."""
    found = np.zeros((len(given), given.max() + 1))
    splits = StratifiedKFold(folds, shuffle=True, random_state=0).split(rows, given)
    for rest, fold in splits:
        model = LogisticRegression(C=strength, max_iter=400).fit(rows[rest], given[rest])
        found[np.ix_(fold, model.classes_)] = model.predict_proba(rows[fold])
    return found


def by_best_regression(rows, given, folds=5):
    """Probabilities at the strength with the lowest loss on held-out labels."""
    found = [by_regression(rows, given, x, folds) for x in STRENGTHS]
    losses = [-np.log(x[np.arange(len(given)), given] + 1e-12).mean() for x in found]
    return found[int(np.argmin(losses))]


def by_closed_form(rows, given, classes, one):
    return one(torch.from_numpy(rows), torch.from_numpy(given), classes).numpy().astype(float)


def of_agreement(ledger, agreed):
    """Evidence of how many epochs predicted the given label, with the rivals of the training."""
    share = np.nan_to_num(np.asarray(agreed, dtype=np.float64), nan=0.5)
    odds = np.log((share + 0.05) / (1 - share + 0.05)).astype(np.float32)
    return Evidence(log_odds=odds, rival=ledger.rival, rival_share=ledger.rival_share,
                    memorised=ledger.memorised, abstention=ledger.abstention)  # fmt: skip


def mean_of(one, other):
    """Half of each; the rival is that of the one which doubts a label more."""
    first = one.log_odds <= other.log_odds
    return Evidence(
        log_odds=((one.log_odds + other.log_odds) / 2).astype(np.float32),
        rival=np.where(first, one.rival, other.rival),
        rival_share=np.where(first, one.rival_share, other.rival_share),
        memorised=(one.memorised + other.memorised) / 2,
        abstention=one.abstention,
    )


@cache
def learnt_without(source):
    """The line that is learnt without a source; the spreads about it, of all sources."""
    line = coefficients([x for x in load() if x.source != source])
    of = {"intercept": float(line[0]), "log_slope": math.log(-line[1]), "memorised": float(line[2])}
    return replace(Learnt.load(), **of)


def judged(evidence, given, true, learnt, seconds):
    """The figures of a verdict on this evidence."""
    wrong, found = given != true, judge(evidence, given, given.max() + 1, learnt=learnt)
    shown = figures(wrong, found.rate.value, found.is_label_issue, found.logits)
    shown |= interval_figures(found.rate, float(wrong.mean()))
    shown["proposals"] = right_proposals(found.is_label_issue, found.predicted_label, given, true)
    return {**shown, "seconds": seconds}


def right_proposals(flags, proposed, given, true):
    """Among flagged errors for which another class is proposed, the share of right ones."""
    caught = flags & (given != true) & (proposed != given)
    return float((proposed[caught] == true[caught]).mean()) if caught.any() else None


def by_cleanlab(probabilities, given, true):
    from cleanlab.count import num_label_issues
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    flags = find_label_issues(given, probabilities, n_jobs=1)
    rate = num_label_issues(given, probabilities) / len(given)
    scores = get_label_quality_scores(given, probabilities, method="self_confidence")
    found = figures(given != true, rate, flags, -scores)
    found["proposals"] = right_proposals(flags, probabilities.argmax(1), given, true)
    return found


def row_of(name, features, size, draw, errors, folder):
    """All figures of a case, by method; None where it has no errors or too few samples."""
    data = drawn(name, features, size, draw, errors, folder)
    if data is None:
        return None
    rows, given, true = data
    classes, learnt = int(given.max()) + 1, learnt_without(source_of(name))
    (ledger, agreed), seconds = timed(by_training, rows, given)
    found = {"training": (ledger, seconds), "agreement": (of_agreement(ledger, agreed), seconds)}
    probabilities = {}
    for method, make, *arguments in (
        ("five folds", by_regression),
        ("loo", by_closed_form, classes, leave_one_out),
        ("ridge", by_best_regression),
        ("ten folds", by_best_regression, min(10, int(np.bincount(given).min()))),
        *([("heads", by_closed_form, classes, out_of_sample)] * (size in HEADS_AT)),
    ):
        probabilities[method], seconds = timed(make, rows, given, *arguments)
        found[method] = evidence_from_probabilities(probabilities[method], given), seconds
    for other in ("agreement", "five folds", "ridge", "loo"):
        evidence, seconds = found[other]
        both = found["training"][1] + seconds * (other != "agreement")
        found[f"training + {other}"] = mean_of(ledger, evidence), both
    row = {
        "case": [name, features, errors, size, draw], "source": source_of(name),
        "labels": len(given), "classes": classes, "columns": rows.shape[1],
        "truth": float((given != true).mean()),
    }  # fmt: skip
    row |= {
        method: judged(x, given, true, learnt, seconds) for method, (x, seconds) in found.items()
    }
    folds = probabilities["five folds"]
    row["cleanlab"], seconds = timed(by_cleanlab, folds, given, true)
    row["cleanlab"]["seconds"] = found["five folds"][1] + seconds
    return row


def keep(case, options):
    """Judge a case, unless that was done."""
    name, features, size, draw, errors = case
    target = options.kept / f"{name}__{features}__{errors}__{size}__{draw}.json"
    if target.exists() or not (options.kept / f"{name}__{features}.npz").exists():
        return
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    row = row_of(*case, options.kept)
    part = target.with_suffix(f".part{os.getpid()}")
    part.write_text(json.dumps(row), encoding="utf-8")
    part.replace(target)


def summarised(folder):
    """A line for each set, kind of errors and size: the means over its draws, by method."""
    of = {}
    for name, features, size, draw, errors in todo():
        path = folder / f"{name}__{features}__{errors}__{size}__{draw}.json"
        row = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
        if row:
            of.setdefault((name, features, errors, size), []).append(row)
    lines = []
    for case, rows in of.items():
        line = {"case": list(case), "source": rows[0]["source"], "draws": len(rows)}
        line |= {x: round(np.mean([row[x] for row in rows]), 3) for x in ("columns", "truth")}
        methods = [x for x in rows[0] if isinstance(rows[0][x], dict)]
        line["methods"] = {
            x: [mean([row[x].get(y) for row in rows]) for y in FIGURES] for x in methods
        }
        lines.append(line)
    return sorted(lines, key=lambda x: (x["case"][3], x["case"][:3]))


def mean(values):
    known = [x for x in values if x is not None]
    return round(float(np.mean(known)), 3) if known else None


def main():
    spec = importlib.util.find_spec("wordllama")
    where = None if spec is None else Path(spec.origin).parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("ABSTAIN_DATA"))
    parser.add_argument("--wordllama", type=Path, default=where)
    parser.add_argument("--kept", type=Path, default=ROOT / "ledgers/small")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--report", action="store_true", help="only the result and the page")
    options = parser.parse_args()
    options.kept.mkdir(parents=True, exist_ok=True)
    if not options.report:
        for name, features in sets():
            keep_features(name, features, options)
        with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
            list(pool.map(partial(keep, options=options), todo()))
    write({"figures": FIGURES, "sets": summarised(options.kept)}, RESULTS)
    import small_page

    small_page.PAGE.write_text(small_page.page(), encoding="utf-8")


if __name__ == "__main__":
    main()
