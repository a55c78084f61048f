"""Measure the coverage of the interval of a checked sample, on cases with known errors.

    python bench/sampling.py --ledgers FOLDER

FOLDER is what `bench/cases.py` wrote; only cases with real errors are used. P(wrong) of a case is
that of an audit, by numbers learnt without its source. Each case is drawn from 2,000 times
for each sample size, as it is and made harder:

- constant, shuffled: P(wrong) carries no information;
- reversed: the labels with the most errors have the lowest P(wrong);
- rare: nine of ten errors are taken as right labels, with P(wrong) as it is, shuffled or reversed.

It writes `results/sampling.json`: coverage of the 95% interval and its mean width for each case and
size. Beside them is the mean width of the exact binomial interval of a plain random sample, without
and with the finite population correction (at the effective size n / (1 − n / N)).
"""

import argparse
import json
from pathlib import Path

import numpy as np
from cases import LEDGERS, ROOT, cases, source_of
from fit_verdict import left_out, stored
from scipy.special import betaincinv

from abstain.scores.sampling import STRATA, draw, strata, stratified_interval
from abstain.scores.verdict import judge

SIZES, DRAWS, CONFIDENCE = (100, 200, 400), 2_000, 0.95


def read(folder):
    """P(wrong) of each label, by numbers learnt without the source, and whether it is wrong."""
    found = {}
    for case in (x for x in cases() if x.noise == "real"):
        kept, by_kind, wrong = stored(case, folder)
        given, learnt = kept["given"].astype(np.int64), left_out(source_of(case.name))
        num_classes = int(max(given.max(), kept["true"].max())) + 1
        verdict = judge(by_kind["ledger"], given, num_classes, learnt=learnt)
        found[case.file.removesuffix(".npz")] = (verdict.wrong_probability, wrong)
    return found


def variants(p, wrong, rng):
    """P(wrong) and the errors, as they are and made harder."""
    ascending, rank = np.sort(p), np.argsort(np.argsort(p))
    reversed_p, shuffled = ascending[::-1][rank], rng.permutation(p)
    rare = wrong & (rng.random(len(p)) < 0.1)
    return {
        "real": (p, wrong),
        "constant": (np.full(len(p), 0.2), wrong),
        "shuffled": (shuffled, wrong),
        "reversed": (reversed_p, wrong),
        "rare": (p, rare),
        "rare shuffled": (shuffled, rare),
        "rare reversed": (reversed_p, rare),
    }


def measure(p, wrong, size, rng):
    """Coverage and mean width of the intervals over draws of one size.

    The answers are drawn as counts: within a stratum a draw is hypergeometric.
    """
    sample, rate = draw(p, size, rng), wrong.mean()
    answers = np.bincount(sample.stratum, minlength=STRATA)
    errors = np.bincount(strata(p)[wrong], minlength=STRATA)
    found = rng.hypergeometric(errors, sample.sizes - errors, answers, (DRAWS, STRATA))
    _, low, high = stratified_interval(answers, found, sample.sizes, CONFIDENCE)
    plain = rng.hypergeometric(wrong.sum(), (~wrong).sum(), size, DRAWS)
    share = 1 - size / len(p)
    return {
        "coverage": float(np.mean((low <= rate) & (rate <= high))),
        "width": _width(low, high),
        "binomial_width": _width(*_exact(plain, size)),
        "binomial_fpc_width": _width(*_exact(plain / share, size / share)),
    }


def _exact(errors, size):
    """Clopper and Pearson's interval."""
    tail = (1 - CONFIDENCE) / 2
    low = np.where(errors > 0, betaincinv(errors, size - errors + 1, tail), 0)
    high = np.where(errors < size, betaincinv(errors + 1, size - errors, 1 - tail), 1)
    return low, high


def _width(low, high):
    return round(float(np.mean(high - low)), 5)


def summary(records):
    """Over cases: least, median and most coverage, cases outside the target, and mean widths."""
    lines = []
    for variant in dict.fromkeys(x["variant"] for x in records):
        for size in SIZES:
            group = [x for x in records if x["variant"] == variant and x["size"] == size]
            coverage = np.array([x["coverage"] for x in group])
            names = ("width", "binomial_width", "binomial_fpc_width")
            widths = {k: round(float(np.mean([x[k] for x in group])), 4) for k in names}
            lines.append(
                {
                    "variant": variant,
                    "size": size,
                    "cases": len(group),
                    "coverage_least": float(coverage.min()),
                    "coverage_median": round(float(np.median(coverage)), 4),
                    "coverage_most": float(coverage.max()),
                    "below_0.935": int((coverage < 0.935).sum()),
                    "above_0.98": int((coverage > 0.98).sum()),
                    **widths,
                }
            )
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ledgers", type=Path, default=LEDGERS)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "sampling.json")
    options = parser.parse_args()
    records = []
    for name, (probability, wrong) in read(options.ledgers).items():
        rng = np.random.default_rng(0)
        for variant, (p, errors) in variants(probability, wrong, rng).items():
            for size in SIZES:
                about = {"case": name, "variant": variant, "labels": len(p), "size": size}
                rate = {"noise_rate": round(float(errors.mean()), 5)}
                records.append(about | rate | measure(p, errors, size, rng))
    lines = summary(records)
    for line in lines:
        print(*line.values())
    head = {"draws": DRAWS, "confidence": CONFIDENCE, "seed": 0, "columns": list(records[0])}
    parts = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in head.items()]
    for name, items in (("summary", lines), ("cases", [list(x.values()) for x in records])):
        parts.append(f'"{name}": [\n' + ",\n".join(map(json.dumps, items)) + "\n]")
    options.out.write_text("{\n" + ",\n".join(parts) + "\n}\n")


if __name__ == "__main__":
    main()
