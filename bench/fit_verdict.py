"""Fit the numbers of `src/abstain/scores/verdict.toml` to cases whose wrong labels are known.

    python bench/fit_verdict.py                    # from results/verdict-cases.npz, in seconds
    python bench/fit_verdict.py --ledgers FOLDER   # from ledgers that bench/cases.py made, first

Of each case the fit needs only how many right and wrong labels have which evidence, by class: these
counts are kept in results/verdict-cases.npz. Both kinds of evidence are there, that of a training
and that of out-of-sample probabilities; one mapping serves both.

- Intercept, slope and memorised: a logistic regression of being wrong on the evidence, over all
  cases together. Every source of data weighs the same, and within it every case.
- Spreads of offset and slope: how far the curve of a case with real errors lies from the one fitted
  to the other sources; of classes, how far their offsets lie from that of their case; of the shape,
  how far log odds lie from the curve of their case. Root mean squares, every source alike.
"""

import argparse
import math
from collections import Counter
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import numpy as np
from cases import LEDGERS, Case, cases, source_of
from scipy.optimize import brentq, minimize
from scipy.special import expit, logit

from abstain.scores.curve import Learnt, fit_curve
from abstain.scores.evidence import Evidence, evidence_from_probabilities, memorised

ROOT = Path(__file__).resolve().parents[1]
COUNTS = ROOT / "results/verdict-cases.npz"
TOML = ROOT / "src/abstain/scores/verdict.toml"
KINDS = ("ledger", "probabilities")
_EDGE = math.log(1.01 / 0.01)  # evidence has a floor of 0.01
_BINS = 64
_CENTRES = (np.arange(_BINS) + 0.5) / _BINS * 2 * _EDGE - _EDGE
# Of the curve of a single case, which has enough labels to speak for itself.
_WEAK = Learnt(
    intercept=0.0, log_slope=0.0, memorised=0.0, offset_spread=5.0, slope_spread=1.5,
    class_spread=0.0,
    shape_spread=0.0,
)  # fmt: skip
_LABELS_OF_A_CLASS, _LABELS_OF_A_UNIT = 100, 30  # fewer say too little by themselves


@dataclass(frozen=True)
class Counts:
    """What the fit needs of a case."""

    case: Case
    kind: str
    memorised: float
    by_class: np.ndarray
    """(m, 2, bins): right and wrong labels by evidence, of each given class."""

    @property
    def source(self):
        return source_of(self.case.name)

    @property
    def is_real(self):
        return self.case.noise == "real"

    @property
    def total(self):
        """(2, bins): of all classes."""
        return self.by_class.sum(0).astype(np.float64)


def centres():
    """The evidence that the bins of `Counts` stand for."""
    return _CENTRES.copy()


# ── Stored ledgers and their counts ───────────────────────────────────────────────────────────────


def stored(case, folder):
    """What bench/cases.py kept of a case: arrays, evidence by kind, and which labels are wrong."""
    with np.load(Path(folder) / case.file) as file:
        kept = {name: file[name] for name in file.files}
    given = kept["given"].astype(np.int64)
    probabilities = kept["probabilities"].astype(np.float64)
    kept["probabilities"] = probabilities / probabilities.sum(1, keepdims=True)
    odds = kept["evidence"].astype(np.float32)
    by_kind = {
        "ledger": Evidence(
            log_odds=odds,
            rival=kept["rival"].astype(np.int32),
            rival_share=np.ones_like(odds),
            memorised=memorised(odds, float(kept["accuracy"])),
            abstention=np.full_like(odds, np.nan),
        ),
        "probabilities": evidence_from_probabilities(kept["probabilities"], given),
    }
    return kept, by_kind, given != kept["true"]


def count(case, kind, evidence, given, wrong):
    """The counts of a case."""
    known = ~np.isnan(evidence.log_odds)
    place = np.floor((evidence.log_odds[known] + _EDGE) / (2 * _EDGE) * _BINS)
    place = np.clip(place, 0, _BINS - 1).astype(np.int64)
    by_class = np.zeros((int(given.max()) + 1, 2, _BINS), np.uint16)
    np.add.at(by_class, (given[known], wrong[known].astype(np.int64), place), 1)
    return Counts(case=case, kind=kind, memorised=evidence.memorised, by_class=by_class)


def count_all(folder):
    """The counts of all stored cases."""
    found = []
    for case in cases():
        if not (Path(folder) / case.file).exists():
            raise SystemExit(f"{folder} must hold {case.file}: make it by bench/cases.py")
        kept, by_kind, wrong = stored(case, folder)
        given = kept["given"].astype(np.int64)
        found += [count(case, kind, by_kind[kind], given, wrong) for kind in KINDS]
    return found


def save(found, path=COUNTS):
    np.savez_compressed(
        path,
        case=np.array([[x.case.name, x.case.features, x.case.noise, x.kind] for x in found]),
        memorised=np.array([x.memorised for x in found]),
        classes=np.array([len(x.by_class) for x in found]),
        counts=np.concatenate([x.by_class for x in found]),
    )


@cache
def load(path=COUNTS):
    with np.load(path) as file:
        ends = np.cumsum(file["classes"])
        parts = np.split(file["counts"], ends[:-1])
        return tuple(
            Counts(Case(name, features, noise), kind, float(memorised), part)
            for (name, features, noise, kind), memorised, part in zip(
                file["case"].tolist(), file["memorised"], parts, strict=True
            )
        )


# ── The fit ───────────────────────────────────────────────────────────────────────────────────────


def coefficients(found):
    """Intercept, slope and memorised: a logistic regression, every source weighing the same."""
    cases_of = Counter(x.source for x in found)
    total = np.stack([x.total for x in found])
    weights = np.array([1 / cases_of[x.source] for x in found]) / total.sum((1, 2))
    total *= weights[:, None, None] / len(cases_of)
    memorised = np.array([x.memorised for x in found])[:, None]

    def cost(place):
        z = place[0] + place[1] * _CENTRES + place[2] * memorised
        error = total.sum(1) * expit(z) - total[:, 1]
        slopes = error.sum(), (error * _CENTRES).sum(), (error * memorised).sum()
        return (total.sum(1) * np.logaddexp(0, z) - total[:, 1] * z).sum(), np.array(slopes)

    return minimize(cost, np.array([-1.0, -1.0, 1.0]), jac=True, method="BFGS").x


def learnt_from(found):
    """All the numbers, from these cases alone."""
    residuals, of_classes, of_shapes = [], [], []
    for source in sorted({x.source for x in found if x.is_real}):
        fitted = coefficients([x for x in found if x.source != source])
        for one in (x for x in found if x.is_real and x.source == source):
            curve = own_curve(one)
            away = curve.offset - fitted[0] - fitted[2] * one.memorised
            residuals.append((source, away, curve.log_slope - math.log(-fitted[1])))
            of_classes += [(source, x**2) for x in class_offsets(one, curve)]
            of_shapes += [(source, x) for x in squared_misfits(one, curve)]
    intercept, slope, of_memorised = coefficients(found)
    return Learnt(
        intercept=float(intercept),
        log_slope=math.log(-slope),
        memorised=float(of_memorised),
        offset_spread=_rms([(source, x**2) for source, x, _ in residuals]),
        slope_spread=_rms([(source, x**2) for source, _, x in residuals]),
        class_spread=_rms(of_classes),
        shape_spread=_rms(of_shapes),
    )


@cache
def left_out(source, path=COUNTS):
    """The numbers learnt without a source."""
    return learnt_from([x for x in load(path) if x.source != source])


def own_curve(one):
    right, wrong = (np.repeat(_CENTRES, part.astype(int)) for part in one.total)
    labels = np.concatenate([np.zeros(len(right)), np.ones(len(wrong))])
    return fit_curve(_WEAK, 0.0, np.concatenate([right, wrong]), labels, slips=0.0)


def class_offsets(one, curve):
    """How far the offsets of classes lie from that of the case."""
    z = curve.logits(_CENTRES)
    for right, wrong in one.by_class.astype(np.float64):
        labels = right + wrong
        if labels.sum() < _LABELS_OF_A_CLASS:
            continue
        share = (wrong.sum() + 0.5) / (labels.sum() + 1)
        yield brentq(lambda x: labels @ expit(z + x) / labels.sum() - share, -20, 20)  # noqa: B023


def squared_misfits(one, curve):
    """Squares of how far log odds lie from the curve, by units of evidence, less their chance."""
    p, units = expit(curve.logits(_CENTRES)), np.floor(_CENTRES)
    right, wrong = one.total
    for unit in np.unique(units):
        labels = (right + wrong) * (units == unit)
        count = labels.sum()
        if count < _LABELS_OF_A_UNIT:
            continue
        share = (wrong[units == unit].sum() + 0.5) / (count + 1)
        expected = float(labels @ p) / count
        chance = 1 / max(count * expected * (1 - expected), 1.0)
        yield float(logit(share) - logit(expected)) ** 2 - chance


def _rms(pairs):
    """The root mean of squares, every source weighing the same."""
    values_of = Counter(source for source, _ in pairs)
    squares = sum(value / values_of[source] for source, value in pairs)
    return float(math.sqrt(squares / len(values_of)))


def write(learnt, found, path=TOML):
    sources, real = {x.source for x in found}, {x.case for x in found if x.is_real}
    comments = {x.name: Learnt.__dataclass_fields__[x.name] for x in fields(Learnt)}
    lines = [
        "# Learnt by bench/fit_verdict.py; not edited by hand. "
        "`Learnt` in verdict.py documents each number.",
        f"# {len({x.case for x in found})} cases ({len(real)} with real errors) of "
        f"{len(sources)} sources, each by a training and by a cross-validation.",
        "[learnt]",
        *(f"{name} = {getattr(learnt, name):.4f}" for name in comments),
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ledgers", type=Path, nargs="?", const=LEDGERS)
    options = parser.parse_args()
    if options.ledgers:
        save(count_all(options.ledgers))
    found = load()
    learnt = learnt_from(found)
    write(learnt, found)
    print(TOML.read_text())


if __name__ == "__main__":
    main()
