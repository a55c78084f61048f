"""Fit the numbers of `src/abstain/scores/verdict.toml` to cases whose wrong labels are known.

    python bench/fit_verdict.py                    # from results/verdict-cases.npz, in seconds
    python bench/fit_verdict.py --ledgers FOLDER   # from ledgers that bench/cases.py made, first

Of each case the fit needs only how many right and wrong labels have which evidence, by class: these
counts are kept in results/verdict-cases.npz. Both kinds of evidence are there, that of a training
and that of out-of-sample probabilities; one mapping serves both.

- Intercept, slope and memorised: a logistic regression of being wrong on the evidence, over all
  cases together. Every source of data weighs the same, and within it every case.
- Level and wander: how far cases with errors, real or planted, deviate from the line fitted to the
  other sources, by the marginal likelihood of their counts (Laplace), every source alike.
- Spread of classes: how far their levels lie from the curve of their case, with real errors, a root
  mean square.
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
from scipy.special import expit

from abstain.scores.curve import NODES, Learnt, nearest, precision
from abstain.scores.evidence import Evidence, evidence_from_probabilities, memorised

ROOT = Path(__file__).resolve().parents[1]
COUNTS = ROOT / "results/verdict-cases.npz"
TOML = ROOT / "src/abstain/scores/verdict.toml"
KINDS = ("ledger", "probabilities")
_EDGE = math.log(1.01 / 0.01)  # evidence has a floor of 0.01
_BINS = 64
_STEPS, _FINELY = 100, {"xatol": 1e-4, "fatol": 1e-4}
_CENTRES = (np.arange(_BINS) + 0.5) / _BINS * 2 * _EDGE - _EDGE
_LABELS_OF_A_CLASS = 100  # fewer say too little by themselves


@dataclass(frozen=True)
class Counts:
    """The figures of a case that the fit needs."""

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
    """Read what bench/cases.py kept of a case: arrays, evidence by kind, which labels are wrong."""
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
    noisy = [x for x in found if not x.case.noise.startswith("clean")]
    lines = {}
    for source in sorted({x.source for x in noisy}):
        lines[source] = line_of(coefficients([x for x in found if x.source != source]))
    lines = np.stack([lines[x.source](NODES, x.memorised) for x in noisy])
    cases_of = Counter(x.source for x in noisy)
    weights = np.array([1 / cases_of[x.source] for x in noisy]) / len(cases_of)
    counts = np.stack([at_nodes(x.total) for x in noisy])

    deviations = np.zeros_like(lines)

    def cost(logs):  # each search of the modes begins at the last ones
        return -float(weights @ walks(lines, counts, *np.exp(logs), deviations)[1])

    found_at = minimize(cost, [-0.2, -0.2], method="Nelder-Mead", options=_FINELY).x
    of_classes = [
        (one.source, offset**2)
        for one, line, deviation in zip(noisy, lines, deviations, strict=True)
        if one.is_real
        for offset in class_offsets(one, line + deviation)
    ]
    intercept, slope, of_memorised = coefficients(found)
    return Learnt(
        intercept=float(intercept),
        log_slope=math.log(-slope),
        memorised=float(of_memorised),
        level_spread=float(np.exp(found_at[0])),
        wander=float(np.exp(found_at[1])),
        class_spread=_rms(of_classes),
    )


@cache
def left_out(source, path=COUNTS):
    """The numbers learnt without a source."""
    return learnt_from([x for x in load(path) if x.source != source])


def line_of(fitted):
    """Log odds by evidence and by how far labels were memorised."""
    return lambda evidence, memorised: fitted[0] + fitted[1] * evidence + fitted[2] * memorised


def at_nodes(total):
    """(2, nodes): counts of right and wrong labels at the nodes of the curve."""
    place = nearest(_CENTRES)
    return np.stack([np.bincount(place, part, len(NODES)) for part in total])


def walks(lines, counts, level, wander, mode):
    """Modes of the deviations of cases from their lines, and log marginal likelihoods (Laplace).

    The search begins at `mode`, which is overwritten.
    """
    prior = precision(level, wander)
    right, wrong = counts[:, 0], counts[:, 1]
    for _ in range(_STEPS):  # Newton's, by steps of at most 2
        p = expit(lines + mode)
        hessian = prior + ((right + wrong) * p * (1 - p))[:, :, None] * np.eye(len(prior))
        pull = wrong - (right + wrong) * p - mode @ prior
        step = np.linalg.solve(hessian, pull[..., None])[..., 0]
        largest = np.abs(step).max(1, keepdims=True)
        mode += step / np.maximum(largest / 2, 1)
        if largest.max() < 1e-6:
            break
    z = lines + mode
    fit = -(wrong * np.logaddexp(0, -z) + right * np.logaddexp(0, z)).sum(1)
    determinants = np.linalg.slogdet(prior)[1] - np.linalg.slogdet(hessian)[1]
    return mode, fit + (determinants - ((mode @ prior) * mode).sum(1)) / 2


def class_offsets(one, logits):
    """Measure how far the levels of classes lie from the curve of their case."""
    for counts in one.by_class.astype(np.float64):
        right, wrong = at_nodes(counts)
        labels = right + wrong
        if labels.sum() < _LABELS_OF_A_CLASS:
            continue
        share = (wrong.sum() + 0.5) / (labels.sum() + 1)
        yield brentq(lambda x: labels @ expit(logits + x) / labels.sum() - share, -20, 20)  # noqa: B023


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
