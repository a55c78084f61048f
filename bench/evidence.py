"""Which evidence the verdict should count: of the training, of blind heads, or of both?

    python bench/evidence.py --data-dir DATA --ledgers FOLDER --jobs 2

The cases are those of bench/cases.py on fixed features; FOLDER has what it kept of each. Five
linear heads, each blind to a fold (`abstain.embed.folds`), learn the same features and labels.
Their probabilities are kept beside the ledgers. Each kind of evidence is a sum of log odds:

    share · (of the training) + (1 − share) · (of the heads)

with a share of 1, 0, ½, or the one that a logistic regression of being wrong learns from the other
sources. To each kind alone a mapping of its own is fitted without the source of a case, and judges
it. The heads memorised no label that they judge, so only the training's share of the evidence is
corrected for what it memorised. It writes results/evidence.json, a line per case.
"""

import argparse
import importlib.util
import os
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
from cases import LEDGERS, ROOT, Case, cases, features_of, read_set, source_of
from fit_verdict import count, learnt_from, stored
from sklearn.linear_model import LogisticRegression
from verdict import DIGITS, by_verdict, write

from abstain.scores.evidence import Evidence, evidence_from_probabilities

RESULTS = ROOT / "results/evidence.json"
SHARES = {"ledger": 1.0, "heads": 0.0, "mean": 0.5, "weighted": None}
"""Weight of the training's evidence; None is learnt."""
FIGURES = ("error", "covers", "score", "f1", "auroc", "ap")


@dataclass(frozen=True)
class Judged:
    """A case, and the evidence of the training and of the heads on each of its labels."""

    case: Case
    given: np.ndarray
    wrong: np.ndarray
    num_classes: int
    ledger: Evidence
    heads: Evidence

    @property
    def source(self):
        return source_of(self.case.name)


def read(case, folder):
    kept, by_kind, wrong = stored(case, folder)
    given = kept["given"].astype(np.int64)
    return Judged(
        case=case,
        given=given,
        wrong=wrong,
        num_classes=int(max(given.max(), kept["true"].max())) + 1,
        ledger=by_kind["ledger"],
        heads=evidence_from_probabilities(np.load(file_of_heads(case, folder)), given),
    )


def file_of_heads(case, folder):
    return (folder / case.file).with_suffix(".heads.npy")


def keep_heads(case, options):
    """Out-of-sample probabilities by the five heads, unless they are there."""
    import torch

    from abstain.embed.folds import out_of_sample

    target = file_of_heads(case, options.ledgers)
    if target.exists():
        return
    torch.set_num_threads(1)
    inputs, _, _ = read_set(case.name, options.data_dir)
    rows = torch.from_numpy(features_of(case.name, inputs, case.features, options.wordllama))
    with np.load(options.ledgers / case.file) as kept:
        given = torch.from_numpy(kept["given"].astype(np.int64))
    probabilities = out_of_sample(rows, given, int(given.max()) + 1)
    part = target.with_suffix(f".part{os.getpid()}")
    with part.open("wb") as file:
        np.save(file, probabilities.numpy())
    part.replace(target)
    print(target.name, flush=True)


def evidence(one, share):
    """The sum of both; of the rivals, no figure here depends on them."""
    log_odds = share * one.ledger.log_odds + (1 - share) * one.heads.log_odds
    memorised = share * one.ledger.memorised
    return replace(one.ledger, log_odds=log_odds.astype(np.float32), memorised=memorised)


def learnt_share(found):
    """The share of the training where both have a slope of their own, every source alike."""
    cases_of, labels = Counter(x.source for x in found), [len(x.given) for x in found]
    numbers = [np.concatenate([getattr(x, y).log_odds for x in found]) for y in ("ledger", "heads")]
    numbers.append(np.repeat([x.ledger.memorised for x in found], labels))
    weights = np.repeat([1 / cases_of[x.source] / len(x.given) for x in found], labels)
    wrong = np.concatenate([x.wrong for x in found])
    fit = LogisticRegression(C=np.inf, tol=1e-6)
    fit.fit(np.stack(numbers, 1), wrong, sample_weight=weights / weights.mean())
    of_ledger, of_heads, _ = fit.coef_[0]
    return float(of_ledger / (of_ledger + of_heads))


def judged_without(source, found):
    """The cases of a source by numbers learnt from all others, and the share that was learnt."""
    others = [x for x in found if x.source != source]
    learnt_of_it = learnt_share(others)
    rows = {
        x.case: {"case": [x.case.name, x.case.features, x.case.noise], "source": source,
                 "classes": x.num_classes}
        for x in found if x.source == source
    }  # fmt: skip
    for kind, share in SHARES.items():
        counted = partial(evidence, share=learnt_of_it if share is None else share)
        learnt = learnt_from([count(x.case, kind, counted(x), x.given, x.wrong) for x in others])
        for one in (x for x in found if x.source == source):
            figures = by_verdict(counted(one), one.given, one.num_classes, one.wrong, learnt)
            rows[one.case][kind] = {name: figures[name] for name in FIGURES if name in figures}
    return rows, round(learnt_of_it, DIGITS)


def main():
    spec = importlib.util.find_spec("wordllama")
    where = None if spec is None else Path(spec.origin).parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("ABSTAIN_DATA"))
    parser.add_argument("--ledgers", type=Path, default=LEDGERS)
    parser.add_argument("--wordllama", type=Path, default=where)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    todo = [x for x in cases() if x.features != "network"]
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        list(pool.map(partial(keep_heads, options=options), todo))
        found = [read(x, options.ledgers) for x in todo]
        sources = sorted({x.source for x in found})
        judged = list(pool.map(partial(judged_without, found=found), sources))
    rows = {case: row for of_source, _ in judged for case, row in of_source.items()}
    shares = {source: share for source, (_, share) in zip(sources, judged, strict=True)}
    write({"shares": shares, "cases": [rows[x.case] for x in found]}, RESULTS)


if __name__ == "__main__":
    main()
