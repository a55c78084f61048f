"""The claims of the paper on the speed of learning, computed from our histories."""

from itertools import combinations, pairwise

import numpy as np

from reproduction.claims import Claim, judge, not_run
from reproduction.evidence import Evidence, curves
from reproduction.figure_claims import learnt
from reproduction.recipes import NAMES
from reproduction.record import Record
from reproduction.targets import DIFFERENCES
from reproduction.variants import OPTIMIZERS, SYMMETRIC

_SOON = 3
"""Epochs after its warm-up at which a rule is looked at."""
_FIRST = 10
"""Epochs over which optimisers are compared."""


def speed_claims(evidence: Evidence) -> list[Claim]:
    """Claims about the time that learning takes."""
    return [
        _payoffs(evidence),
        _rules(evidence),
        _co_teaching(evidence),
        _optimizers(evidence),
    ]


def _payoffs(evidence: Evidence) -> Claim:
    target = "figure-robustness"
    statement = "A lower payoff learns more slowly (r = 0.5)"
    row = evidence.rows(target)[0]
    payoffs = [column for column in evidence.columns(target) if column != "nll"]
    found = {column: learnt(evidence.records(target, row, column)) for column in payoffs}
    found = {column: records for column, records in found.items() if records}
    if len(found) < 2:
        return not_run(statement, target)
    # After one epoch the noise of a seed matters more than the payoff: the same ones for all.
    seeds = set.intersection(*({r.run.seed for r in records} for records in found.values()))
    if not seeds:
        return not_run(statement, target)
    reached = {
        column: 100
        * np.mean([r.history["train_accuracy"][0] for r in records if r.run.seed in seeds])
        for column, records in found.items()
    }
    slower = [a < b for a, b in combinations(reached.values(), 2)]
    findings = ", ".join(f"{column}: {accuracy:.2f}" for column, accuracy in reached.items())
    ours = f"training accuracy after one epoch {findings}"
    return Claim(statement, ours, judge(sum(slower) / len(slower)), target)


def _rules(evidence: Evidence) -> Claim:
    target = "figure-schedules"
    statement = "The rule euc learns more slowly than mid and exp"
    row = evidence.rows(target)[0]
    reached = {}
    for column, name in {"schedule": "euc", "mid": "mid", "exp": "exp"}.items():
        records = evidence.records(target, row, column)
        table = 100 * curves(records, "test_accuracy")
        at = (records[0].run.recipe.warm_up or 0) + _SOON if records else 0
        if records and table.shape[1] >= at:
            reached[name] = float(table[:, at - 1].mean())
    if len(reached) < 3:
        return not_run(statement, target)
    findings = ", ".join(f"{name} {accuracy:.1f}" for name, accuracy in reached.items())
    slower = [reached["euc"] < reached[name] for name in ("mid", "exp")]
    ours = f"test accuracy {_SOON} epochs after the warm-up: {findings}"
    return Claim(statement, ours, judge(sum(slower) / len(slower)), target)


def _co_teaching(evidence: Evidence) -> Claim:
    target = "table-symmetric"
    statement = "The schedule takes half the training time of Co-teaching+"
    findings, within = [], []
    for data in dict.fromkeys(data for data, _ in evidence.rows(target)):
        rows = [row for row in evidence.rows(target) if row[0] == data]
        timed = {
            method: [
                record
                for row in rows
                for record in evidence.records(target, row, method)
                if not record.machine.get("processes")  # several at once tell nothing of time
            ]
            for method in ("schedule", "coteaching_plus", "coteaching_200")
        }
        single, pair = timed["schedule"], timed["coteaching_plus"] or timed["coteaching_200"]
        devices = {str(record.machine.get("device")) for record in (*single, *pair)}
        if single and pair and len(devices) == 1:
            share = _seconds_an_epoch(single) / _seconds_an_epoch(pair)
            within.append(share <= 0.5)
            findings.append(f"{NAMES[data]} {share:.2f}")
    if not findings:
        return not_run(statement, target)
    ours = f"time of an epoch, as a share of that of two networks: {', '.join(findings)}"
    return Claim(statement, ours, judge(sum(within) / len(within)), target)


def _optimizers(evidence: Evidence) -> Claim:
    statement = "On IMDB, LaProp is faster and stabler than Adam"
    pairs = [
        (own, tried)
        for v in OPTIMIZERS
        if v.table == SYMMETRIC
        and (own := evidence.records("table-symmetric", (v.data, v.rate), v.method))
        and (tried := evidence.records(DIFFERENCES, (v.data, v.rate), v.column))
    ]
    if not pairs:
        return not_run(statement, DIFFERENCES)
    faster = [_early_loss(own) < _early_loss(tried) for own, tried in pairs]
    rises = [(_rise(own), _rise(tried)) for own, tried in pairs]
    stabler = [own < tried for own, tried in rises]
    laprop, adam = np.mean(rises, axis=0)
    ours = (
        f"training loss over the first {_FIRST} epochs is lower in {sum(faster)} of {len(pairs)} "
        f"cells; its rises from one epoch to the next add up to {laprop:.2f} with LaProp and "
        f"{adam:.2f} with Adam, and to less in {sum(stabler)} of {len(pairs)}"
    )
    return Claim(statement, ours, judge(float(np.mean([*faster, *stabler]))), DIFFERENCES)


def _seconds_an_epoch(records: list[Record]) -> float:
    return float(np.mean([record.seconds / record.stop_epoch for record in records]))


def _early_loss(records: list[Record]) -> float:
    return float(np.nanmean(curves(records, "loss")[:, :_FIRST]))


def _rise(records: list[Record]) -> float:
    """Measure the rise of a loss over a run, where it should fall; mean over seeds."""
    return float(
        np.mean([sum(max(0.0, b - a) for a, b in pairwise(r.history["loss"])) for r in records])
    )
