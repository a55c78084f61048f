"""Whether a printed number could be one run of ours, cell by cell, and of which setting.

The paper prints the mean and the spread of the last five epochs of *one* run. So the question is
whether that number is a plausible single run of ours, not whether two spreads overlap.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from reproduction.evidence import Evidence
from reproduction.published import Logged, Published, logged, published
from reproduction.record import Record
from reproduction.targets import DIFFERENCES
from reproduction.variants import PAIRFLIP, STOPPING, SYMMETRIC, VARIANTS, Variant

TABLES = {"table-symmetric": SYMMETRIC, "table-stopping": STOPPING, "table-pairflip": PAIRFLIP}
"""The targets that are tables, and what the paper's numbers are called."""

Verdict: TypeAlias = Literal["agrees", "as they ran it", "not in their log", "open"]

_EPOCHS = 5
_WIDE = 3.0
# The same runs under another name.
_ALIKE = {(SYMMETRIC, "gamblers_aes"): (STOPPING, "analytical")}
_LEAST = 0.1
# Of a run among split ones, its spread over epochs counts within these.
_LOW, _HIGH = 0.3, 1.0


@dataclass(frozen=True)
class Runs:
    """Accuracies in % of a cell, one per seed, each with its spread over its last five epochs."""

    accuracies: tuple[float, ...]
    within: tuple[float, ...]
    epoch: float
    """Mean epoch of the end."""

    @property
    def mean(self) -> float:
        """Over the seeds."""
        return float(np.mean(self.accuracies))

    @property
    def between(self) -> float:
        """Standard deviation over the seeds; 0 if there is but one."""
        return float(np.std(self.accuracies, ddof=1)) if len(self.accuracies) > 1 else 0.0

    @property
    def spread(self) -> float:
        """Standard deviation of a single run, over seeds and over the last five epochs."""
        return max(_LEAST, math.hypot(self.between, float(np.mean(self.within))))

    @property
    def is_split(self) -> bool:
        """Whether some runs collapse: a mean over these and others describes none of them."""
        return self.between > _WIDE

    def may_be(self, number: float) -> bool:
        """Whether a number is a plausible single run: within three of its standard deviations.

        Where runs are split, one of them has to be that near by itself, and within three points.

        >>> Runs((50.0, 51.0, 52.0), (0.5, 0.5, 0.5), 50).may_be(54.0)
        True
        >>> Runs((10.0, 98.0, 98.0), (0.1, 0.1, 0.1), 50).may_be(68.0)
        False
        """
        if self.is_split:
            pairs = zip(self.accuracies, self.within, strict=True)
            return any(abs(number - own) <= 3 * min(max(w, _LOW), _HIGH) for own, w in pairs)
        return abs(number - self.mean) <= 3 * self.spread


def runs_of(records: Sequence[Record], without_last: bool = False) -> Runs | None:
    """The accuracies of some records: the mean of the last five epochs, or that of a stop.

    Epochs before a stop are no repetitions of its model: there, seeds alone count.
    """
    if not records:
        return None
    name = "test_accuracy_without_last" if without_last else "test_accuracy"
    accuracies, within = [], []
    for record in records:
        last = [100 * x for x in record.history.get(name, [])[-_EPOCHS:] if not math.isnan(x)]
        ends = record.run.recipe.stop != "never" or not last
        accuracies.append(100 * record.test_accuracy if ends else float(np.mean(last)))
        within.append(0.0 if ends else float(np.std(last)))
    epoch = float(np.mean([record.stop_epoch for record in records]))
    return Runs(tuple(accuracies), tuple(within), epoch)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting of the authors in a cell, as far as it was run in the whole column."""

    what: str
    runs: Runs
    agrees: bool
    is_whole: bool
    """Whether every cell of the column was run with it: only then it may be a cause."""


@dataclass(frozen=True, kw_only=True)
class CellView:
    """A number of the paper beside the authors' log, ours, and ours as they ran it."""

    target: str
    data: str
    rate: float
    method: str
    paper: Published
    log: Logged | None
    ours: Runs
    settings: tuple[Setting, ...]
    chosen: str | None
    """The one setting of the column that is taken: it gives most of its numbers."""

    @property
    def as_run(self) -> Setting | None:
        """The cell with the setting that is taken."""
        return next((s for s in self.settings if s.what == self.chosen), None)

    @property
    def verdict(self) -> Verdict:
        """Whether ours or theirs may give the number, or else what stands against it."""
        if self.ours.may_be(self.paper.mean):
            return "agrees"
        own = self.as_run
        if own is not None and own.agrees:
            return "as they ran it"
        return "not in their log" if self._log_is_ours else "open"

    @property
    def _log_is_ours(self) -> bool:
        """Whether the number does not follow from the log, and the log's may be a run of ours."""
        if self.log is None or not self.log.differs(self.paper):
            return False
        tried = [self.ours, *(s.runs for s in self.settings if s.is_whole)]
        return any(runs.may_be(self.log.mean) for runs in tried)


def cell_views(evidence: Evidence, target: str) -> list[CellView]:
    """All numbers of a table that we have, column by column on each data set."""
    table = published(TABLES[target])
    found = []
    for data in dict.fromkeys(data for data, _ in evidence.rows(target)):
        for method in table.columns:
            found += _column(evidence, target, data, method)
    return found


def _column(evidence: Evidence, target: str, data: str, method: str) -> list[CellView]:
    table, name = published(TABLES[target]), TABLES[target]
    kind = "pairflip" if name == PAIRFLIP else "symmetric"
    rates = [rate for own, rate in evidence.rows(target) if own == data]
    own = _ALIKE.get((name, method)) if data == "mnist" else None
    variants = [
        v
        for v in VARIANTS
        if v.data == data and (v.table, v.method) in ((name, method), own) and v.rate in rates
    ]
    tried = {(v.what, v.rate): runs for v in variants if (runs := _runs(evidence, v)) is not None}
    whats = list(dict.fromkeys(v.what for v in variants))
    whole = {what for what in whats if all((what, rate) in tried for rate in rates)}
    views = []
    for rate in rates:
        paper = table.cell(data, rate, method)
        ours = runs_of(evidence.records(target, (data, rate), method))
        if paper is None or ours is None:
            continue
        settings = tuple(
            Setting(
                what=what,
                runs=tried[what, rate],
                agrees=what in whole and tried[what, rate].may_be(paper.mean),
                is_whole=what in whole,
            )
            for what in whats
            if (what, rate) in tried
        )
        log = None if name == STOPPING else logged(kind, data, rate, method)
        views.append((paper, rate, ours, settings, log))
    chosen = max(
        whats,
        key=lambda what: sum(s.agrees for v in views for s in v[3] if s.what == what),
        default=None,
    )
    return [
        CellView(
            target=target,
            data=data,
            rate=rate,
            method=method,
            paper=paper,
            log=log,
            ours=ours,
            settings=settings,
            chosen=chosen,
        )
        for paper, rate, ours, settings, log in views
    ]


def _runs(evidence: Evidence, variant: Variant) -> Runs | None:
    row = variant.data, variant.rate
    return runs_of(evidence.records(DIFFERENCES, row, variant.column), variant.without_last)
