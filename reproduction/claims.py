"""The claims of the paper, and whether our runs confirm them: verdicts computed from results."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from reproduction.evidence import Evidence, Stat, summary_at_stop
from reproduction.published import published
from reproduction.recipes import NAMES

Verdict: TypeAlias = Literal["holds", "in part", "does not hold", "not run"]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, what our runs show, and the target that shows it."""

    statement: str
    ours: str
    verdict: Verdict
    target: str


def judge(share: float, wanted: float = 1.0) -> Verdict:
    """A claim on several rows holds in the wanted share of them, in part from one half on.

    >>> judge(1.0), judge(0.6), judge(0.4), judge(0.92, wanted=11 / 12)
    ('holds', 'in part', 'does not hold', 'holds')
    """
    if share >= wanted - 1e-9:
        return "holds"
    return "in part" if share >= 0.5 else "does not hold"


def table_claims(evidence: Evidence) -> list[Claim]:
    """List what the three tables should show."""
    symmetric = "table-symmetric"
    return [
        _better(
            evidence,
            symmetric,
            "schedule",
            "lq",
            "The schedule beats L_q in 11 of 12 rows",
            11 / 12,
        ),
        _margins(evidence),
        _better(
            evidence,
            symmetric,
            "schedule",
            "coteaching_plus",
            "The schedule beats Co-teaching+ in 8 of 12 rows, without knowing the rate",
            8 / 12,
            "coteaching_200",
        ),
        _extreme(evidence),
        _better(
            evidence,
            symmetric,
            "gamblers",
            "nll",
            "A fixed payoff improves on nll (in the paper's own table, in "
            f"{_published_wins('gamblers', 'nll')} of 12 rows)",
        ),
        _stops_better(evidence),
        _sooner(evidence),
        _ablation(evidence),
        _pairflip(evidence),
    ]


def _better(
    evidence: Evidence,
    target: str,
    ours: str,
    other: str,
    statement: str,
    wanted: float = 1.0,
    longer: str | None = None,
) -> Claim:
    """In how many rows one method has the higher accuracy, also if the other trains for longer."""
    pairs = _pairs(evidence, target, ours, other)
    if not pairs:
        return not_run(statement, target)
    share, findings = _won(pairs)
    outcome = findings + _unrun(evidence, target, len(pairs))
    if longer is not None and (others := _pairs(evidence, target, ours, longer)):
        outcome += f" (against its 200 epochs, which hurt it: {_won(others)[1]})"
    return Claim(statement, outcome, judge(share, wanted), target)


def _won(pairs: Sequence[tuple[Stat, Stat]]) -> tuple[float, str]:
    """The share of pairs in which the first is better, and in how many by how much, in words."""
    won = [(a, b) for a, b in pairs if a.mean > b.mean]
    findings = f"{len(won)} of {len(pairs)} rows"
    if all(min(a.n, b.n) > 1 for a, b in pairs):
        clear = sum(a.mean - b.mean > _noise(a, b) for a, b in won)
        findings += f", {clear} of them by more than the spread"
    return len(won) / len(pairs), findings


def _stops_better(evidence: Evidence) -> Claim:
    target = "table-stopping"
    statement = (
        "The analytical stop (AES) gives better accuracy than the validation stop (VES; the paper "
        "does not say which model it keeps)"
    )
    kept = _pairs(evidence, target, "analytical", "validation")
    if not kept:
        return not_run(statement, target)
    last = [
        (a, b)
        for row in evidence.rows(target)
        if (a := evidence.stat(target, row, "analytical")) is not None
        and (b := summary_at_stop(evidence.records(target, row, "validation"))) is not None
    ]
    found = {"VES keeps the model of its best epoch": kept, "it keeps the last": last}
    judged = {what: _won(pairs) for what, pairs in found.items() if pairs}
    ours = "; ".join(f"{findings}, if {what}" for what, (_, findings) in judged.items())
    # The model that suits the claim better.
    best = max(share for share, _ in judged.values())
    return Claim(statement, ours + _unrun(evidence, target, len(kept)), judge(best), target)


def _margins(evidence: Evidence) -> Claim:
    target, statement = "table-symmetric", "Its margin over L_q grows with the noise rate"
    grows, findings = [], []
    for data in dict.fromkeys(data for data, _ in evidence.rows(target)):
        pairs = [
            (a, b)
            for row in evidence.rows(target)
            if row[0] == data
            and (a := evidence.stat(target, row, "schedule")) is not None
            and (b := evidence.stat(target, row, "lq")) is not None
        ]
        if len(pairs) > 1:
            first, last = pairs[0], pairs[-1]
            margins = [a.mean - b.mean for a, b in (first, last)]
            grows.append(margins[1] - margins[0] > math.hypot(_noise(*first), _noise(*last)))
            clear = "" if grows[-1] else " (no more than the spread)"
            findings.append(f"{NAMES[data]} {margins[0]:+.1f} → {margins[1]:+.1f}{clear}")
    if not grows:
        return not_run(statement, target)
    return Claim(statement, "; ".join(findings), judge(sum(grows) / len(grows)), target)


def _extreme(evidence: Evidence) -> Claim:
    target = "table-symmetric"
    statement = "At r = 0.8 it beats Co-teaching+ by 30 points on MNIST and 15 on CIFAR-10"
    claimed = {("mnist", 0.8): 30.0, ("cifar10", 0.8): 15.0}
    shares, findings = [], []
    for row, points in claimed.items():
        ours = evidence.stat(target, row, "schedule")
        other = evidence.stat(target, row, "coteaching_plus")
        if ours and other:
            gain = ours.mean - other.mean
            # Half a point: the paper rounds.
            shares.append(1.0 if gain >= points - 0.5 else 0.5 if gain > 0 else 0.0)
            longer = evidence.stat(target, row, "coteaching_200")
            beside = "" if longer is None else f" (200 epochs: {ours.mean - longer.mean:+.1f})"
            findings.append(f"{NAMES[row[0]]} {gain:+.1f}{beside}")
    if not shares:
        return not_run(statement, target)
    return Claim(statement, "; ".join(findings), judge(sum(shares) / len(shares)), target)


def _sooner(evidence: Evidence) -> Claim:
    target = "table-stopping"
    statement = "AES also stops sooner (in the paper's own table, in 5 of 7 rows)"
    pairs = _pairs(evidence, target, "analytical", "validation")
    if not pairs:
        return not_run(statement, target)
    sooner = sum(a.epoch < b.epoch for a, b in pairs)
    ours = ", ".join(f"{a.epoch:.1f} against {b.epoch:.1f}" for a, b in pairs)
    return Claim(
        statement,
        f"{sooner} of {len(pairs)} rows; epochs: {ours}",
        judge(sooner / len(pairs)),
        target,
    )


def _ablation(evidence: Evidence) -> Claim:
    target = "table-stopping"
    statement = (
        "AES owes its accuracy to the gambler's loss: nll stopped at its own entropy is worse"
    )
    pairs = _pairs(evidence, target, "analytical", "nll_entropy")
    if not pairs:
        return not_run(statement, target)
    clear = sum(a.mean - b.mean > _noise(a, b) for a, b in pairs)
    # A zero added: no "-0.0".
    gains = ", ".join(f"{round(a.mean - b.mean, 1) + 0.0:+.1f}" for a, b in pairs)
    return Claim(
        statement,
        f"clearly worse in {clear} of {len(pairs)} rows (AES − nll: {gains} points)",
        judge(clear / len(pairs)),
        target,
    )


def _pairflip(evidence: Evidence) -> Claim:
    target = "table-pairflip"
    statement = "With pairflip noise the schedule is the best, or within the spread of the best"
    best = []
    methods = published("pairflip").columns
    for row in evidence.rows(target):
        ours = evidence.stat(target, row, "schedule")
        others = [evidence.stat(target, row, m) for m in methods if m != "schedule"]
        known = [stat for stat in others if stat is not None]
        if ours and known:
            rival = max(known, key=lambda stat: stat.mean)
            best.append(ours.mean >= rival.mean - _noise(ours, rival))
    if not best:
        return not_run(statement, target)
    outcome = f"{sum(best)} of {len(best)} rows" + _unrun(evidence, target, len(best))
    return Claim(statement, outcome, judge(sum(best) / len(best)), target)


def _pairs(evidence: Evidence, target: str, ours: str, other: str) -> list[tuple[Stat, Stat]]:
    return [
        (a, b)
        for row in evidence.rows(target)
        if (a := evidence.stat(target, row, ours)) is not None
        and (b := evidence.stat(target, row, other)) is not None
    ]


def _published_wins(ours: str, other: str) -> int:
    table = published("symmetric")
    return sum(
        a.mean > b.mean
        for data, rate in table.rows
        if (a := table.cell(data, rate, ours)) and (b := table.cell(data, rate, other))
    )


def _noise(a: Stat, b: Stat) -> float:
    """The spread of a difference; of single runs it is not known, and taken as half a point."""
    spread = math.hypot(a.spread, b.spread)
    return 0.5 if math.isnan(spread) else spread


def _unrun(evidence: Evidence, target: str, rows: int) -> str:
    total = len(evidence.rows(target))
    return "" if rows == total else f" ({total - rows} rows not run)"


def not_run(statement: str, target: str) -> Claim:
    """A claim that nothing is known of yet."""
    return Claim(statement, f"– (`python -m reproduction {target}`)", "not run", target)
