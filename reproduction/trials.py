"""What explains a difference: what was tried on a column of a table, and what it gave.

A trial is a variant that was run for it, another column of ours, or an earlier epoch of the same
runs. One setting has to explain a whole column: a different one for each row explains nothing.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from reproduction.evidence import Evidence, Stat, curves, summary_at_stop
from reproduction.published import Published, published
from reproduction.targets import DIFFERENCES
from reproduction.variants import PAIRFLIP, STOPPING, SYMMETRIC, VARIANTS

TABLES = {"table-symmetric": SYMMETRIC, "table-stopping": STOPPING, "table-pairflip": PAIRFLIP}
"""The targets that are tables, and what the paper's numbers are called."""

# The published digits do not resolve less.
_LEAST_SPREAD = 0.1
# Of one row alone some epoch gives any number between its best and its last.
_FEWEST_ROWS = 2
# Other columns of ours that change one thing: target, column, and what it is.
_ELSEWHERE = {
    "schedule": ("", "schedule_released", "as released"),
    "coteaching_plus": ("", "coteaching_mlp", "the MLP of its own code"),
    "validation": ("table-symmetric", "gamblers", "no stop at all"),
}
# The same runs under another name.
_ALIKE = {(SYMMETRIC, "gamblers_aes"): (STOPPING, "analytical")}


@dataclass(frozen=True)
class Trial:
    """A column with something else than the table has, as far as it was run."""

    what: str
    stats: Mapping[float, Stat]
    """By rate."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """A method on a data set: the paper's numbers, ours, and what was tried."""

    target: str
    data: str
    method: str
    paper: Mapping[float, Published]
    ours: Mapping[float, Stat]
    trials: tuple[Trial, ...] = ()

    @property
    def differing(self) -> list[float]:
        """The rates at which ours is not the paper's."""
        return [rate for rate, ours in self.ours.items() if differ(ours, self.paper[rate])]

    def explained(self, trial: Trial) -> list[float]:
        """The rates of these at which a trial gives the paper's number."""
        return [
            rate
            for rate in self.differing
            if rate in trial.stats
            and explains(trial.stats[rate], self.ours[rate], self.paper[rate])
        ]

    def broken(self, trial: Trial) -> list[float]:
        """The rates at which ours is the paper's, and a trial is not."""
        return [
            rate
            for rate, ours in self.ours.items()
            if rate in trial.stats
            and not differ(ours, self.paper[rate])
            # By the spread of ours: a wider one of the trial is no agreement.
            and differ(replace(ours, mean=trial.stats[rate].mean), self.paper[rate])
        ]

    def settled_by(self, trial: Trial) -> bool:
        """Whether a trial gives the paper's number wherever ours does not, and breaks nothing."""
        differing = self.differing
        return bool(differing) and self.explained(trial) == differing and not self.broken(trial)


def differ(ours: Stat, theirs: Published) -> bool:
    """Whether the means are more than three spreads apart, the larger of ours and theirs.

    >>> differ(Stat(99.0, 0.1, 3, 50.0), Published(98.8, 0.1))
    False
    >>> differ(Stat(85.6, 0.5, 3, 50.0), Published(95.1, 0.2))
    True
    """
    spread = max(_known(ours.spread), theirs.spread, _LEAST_SPREAD)
    return abs(ours.mean - theirs.mean) > 3 * spread


def explains(tried: Stat, ours: Stat, theirs: Published) -> bool:
    """Whether a trial meets the paper's number, and not by its own spread.

    Within three spreads, while what is left of the difference, and the trial's own spread, are at
    most half of it.

    >>> ours, theirs = Stat(15.3, 0.6, 3, 100.0), Published(18.1, 0.2)
    >>> explains(Stat(17.5, 0.8, 3, 100.0), ours, theirs)
    True
    >>> explains(Stat(13.5, 6.1, 3, 100.0), ours, theirs)  # farther away, but spread wide
    False
    """
    half = abs(ours.mean - theirs.mean) / 2
    return meets(tried, ours, theirs) and _known(tried.spread) <= half


def meets(tried: Stat, ours: Stat, theirs: Published) -> bool:
    """Whether a trial meets the paper's number by its mean, however wide its spread is."""
    half = abs(ours.mean - theirs.mean) / 2
    return abs(tried.mean - theirs.mean) <= half and not differ(tried, theirs)


def columns(evidence: Evidence, target: str) -> list[Column]:
    """The columns of a table that differ from the paper's or on which something was tried."""
    return [c for c in all_columns(evidence, target) if c.differing or c.trials]


def all_columns(evidence: Evidence, target: str) -> list[Column]:
    """The columns of a table that the paper has, on each data set."""
    return [
        _column(evidence, target, data, method)
        for data in dict.fromkeys(data for data, _ in evidence.rows(target))
        for method in published(TABLES[target]).columns
    ]


def _column(evidence: Evidence, target: str, data: str, method: str) -> Column:
    paper, ours = {}, {}
    for row in evidence.rows(target):
        stat = evidence.stat(target, row, method)
        theirs = published(TABLES[target]).cell(*row, method)
        if row[0] == data and stat is not None and theirs is not None:
            paper[row[1]], ours[row[1]] = theirs, stat
    column = Column(target=target, data=data, method=method, paper=paper, ours=ours)
    trials = (
        *_variants(evidence, column),
        *_elsewhere(evidence, column),
        *_at_stop(evidence, column),
        *_earlier(evidence, column),
    )
    return Column(target=target, data=data, method=method, paper=paper, ours=ours, trials=trials)


def _variants(evidence: Evidence, column: Column) -> Iterable[Trial]:
    found: dict[str, dict[float, Stat]] = {}
    own = TABLES[column.target], column.method
    own = _ALIKE.get(own, own)
    for variant in VARIANTS:
        if (variant.data, variant.table, variant.method) != (column.data, *own):
            continue
        stat = evidence.stat(DIFFERENCES, (variant.data, variant.rate), variant.column)
        if stat is not None and variant.rate in column.ours:
            found.setdefault(variant.what, {})[variant.rate] = stat
    return [Trial(what, stats) for what, stats in found.items()]


def _elsewhere(evidence: Evidence, column: Column) -> Iterable[Trial]:
    if column.method not in _ELSEWHERE or not column.differing:
        return []
    target, method, what = _ELSEWHERE[column.method]
    stats = {
        rate: stat
        for rate in column.ours
        if (stat := evidence.stat(target or column.target, (column.data, rate), method))
    }
    return [Trial(what, stats)] if stats else []


def _at_stop(evidence: Evidence, column: Column) -> Iterable[Trial]:
    """The last model of a stop that keeps an earlier one."""
    if column.method != "validation" or not column.differing:
        return []
    stats = {
        rate: stat
        for rate in column.ours
        if (
            stat := summary_at_stop(
                evidence.records(column.target, (column.data, rate), "validation")
            )
        )
    }
    return [Trial("the model at the stop, not of the best epoch", stats)] if stats else []


def _earlier(evidence: Evidence, column: Column) -> Iterable[Trial]:
    """The one epoch after the best ones that explains most rows, if it explains some together."""
    runs = {
        rate: evidence.records(column.target, (column.data, rate), column.method)
        for rate in column.ours
    }
    if any(r.run.recipe.stop != "never" for records in runs.values() for r in records):
        return []
    tables = {rate: 100 * curves(records, "test_accuracy") for rate, records in runs.items()}
    length = min((table.shape[1] for table in tables.values()), default=0)
    first = max((_best(tables[rate]) for rate in column.differing), default=length) + 1
    found = [_at(tables, epoch, length) for epoch in range(first, length - 1)]
    whole = [trial for trial in found if not any(math.isnan(s.mean) for s in trial.stats.values())]
    most = max(whole, key=lambda trial: _merit(column, trial), default=None)
    if most is None or len(column.explained(most)) < _FEWEST_ROWS:
        return []
    return [most]


def _best(table: np.ndarray) -> int:
    means = table.mean(0)
    return int(np.nanargmax(means)) if not np.isnan(means).all() else table.shape[1]


def _at(tables: Mapping[float, np.ndarray], epoch: int, length: int) -> Trial:
    stats = {}
    for rate, table in tables.items():
        accuracy = table[:, epoch]
        spread = float(accuracy.std(ddof=1)) if len(accuracy) > 1 else math.nan
        stats[rate] = Stat(float(accuracy.mean()), spread, len(accuracy), epoch + 1)
    return Trial(f"epoch {epoch + 1} of {length}", stats)


def _merit(column: Column, trial: Trial) -> tuple[int, float]:
    """How many rows it explains; among equals, the nearest."""
    left = sum(abs(trial.stats[r].mean - column.paper[r].mean) for r in column.differing)
    return len(column.explained(trial)), -left


def _known(spread: float) -> float:
    """A spread; that of a single run is not known, and counts for nothing."""
    return 0.0 if math.isnan(spread) else spread
