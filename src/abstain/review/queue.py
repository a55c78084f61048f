"""The order in which labels are shown: which one comes next, and for whom.

Everything is by row, in the order of the source, so that a million labels are no trouble.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from abstain.review.leases import Leases
from abstain.scores.evidence import UNKNOWN
from abstain.scores.verdict import Verdict, ascending

Rows: TypeAlias = npt.NDArray[np.int64]
State: TypeAlias = Literal["open", "decided", "unsure", "drop", "skip", "any"]
OPEN, DECIDED, UNSURE, DROPPED, SKIPPED = range(5)
STATES: Mapping[str, int] = {
    "open": OPEN,
    "decided": DECIDED,
    "unsure": UNSURE,
    "drop": DROPPED,
    "skip": SKIPPED,
}
LAST = 50
"""Decisions over which the rate of wrong labels found is shown, and looked ahead."""
WORTH = 0.1
"""Share of wrong labels below which looking at the worst ones is hardly worth the time."""
_CHUNK = 65_536
_FILTERS = 32  # whose labels are kept in their order, which takes 8 bytes a label


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Which labels to look at."""

    given: int | None = None
    proposed: int | None = None
    least: float = 0.0
    """P(wrong) from here on …"""
    most: float = 1.0
    """… to here."""
    state: State = "open"
    fault: str | None = None
    """Only samples with this fault, the worst first."""
    rows: tuple[int, ...] | None = None
    """Only these, such as those that a person answered, or that are disputed."""


@dataclass(frozen=True, kw_only=True)
class Ahead:
    """Whether going on pays: wrong labels among the last decisions, and among the next labels."""

    last: int
    """Number of newest decisions that `last_wrong` is out of."""
    last_wrong: int
    next_wrong: float
    """Expected number of wrong labels among the next 50."""

    @property
    def pays(self) -> bool:
        """Whether going on, worst first, still finds enough wrong labels."""
        finds = self.last_wrong >= WORTH * self.last if self.last == LAST else False
        return finds or self.next_wrong >= WORTH * LAST


class Queue:
    """The labels of an audit, worst first, with what was decided of them."""

    def __init__(self, verdict: Verdict) -> None:
        self.faults: Mapping[str, Rows] = {}
        """Rows with each fault that was found besides wrong labels, the worst first."""
        self.evidence, self.given = verdict.evidence, verdict.given
        self.num_classes = verdict.num_classes
        self.state = np.zeros(len(verdict), np.uint8)
        self.leases = Leases()
        doubted = (self.evidence.log_odds < 0) & (self.evidence.rival != UNKNOWN)
        self._proposed = np.where(doubted, self.evidence.rival, self.given)
        self.rank(verdict)

    def __len__(self) -> int:
        return len(self.given)

    def rank(self, verdict: Verdict) -> None:
        """Go by this verdict from now on: the order changes only here, not with each decision."""
        self.verdict = verdict
        self._doubts = expit(verdict.doubts)
        # Decided labels keep a place by their evidence, for those who look back.
        self.order = ascending(-verdict.doubts)
        self._filtered: dict[Filter, Rows] = {}
        self.__dict__.pop("_rivals", None)

    def proposed(self, row: int) -> int:
        """The class that is believed most, which may be the given one."""
        return int(self._proposed[row])

    def proposals(self, row: int, most: int) -> list[tuple[int, float]]:
        """Classes by how probable they are. Beyond the rival, as others with this label go."""
        p = self.doubt(row)
        given, rival = int(self.given[row]), int(self.evidence.rival[row])
        if rival == UNKNOWN:
            return [(given, 1 - p)]
        share = float(np.nan_to_num(self.evidence.rival_share[row], nan=1.0))
        found = self._rivals[given].copy()
        found[[given, rival]] = 0
        others = max(self.num_classes - 2, 1)
        found = (found + 1 / others) / (found.sum() + 1) * p * (1 - share)
        found[given], found[rival] = 1 - p, p * share
        order = np.argsort(-found, kind="stable")[:most].tolist()
        return [(k, float(found[k])) for k in order]

    def doubt(self, row: int) -> float:
        """P(wrong) of a label by its evidence, whatever was decided of it since."""
        return float(self._doubts[row])

    @cached_property
    def by_frequency(self) -> list[int]:
        """Classes by how many labels there are of each as given, the most frequent first."""
        counts = np.bincount(self.given, minlength=self.num_classes)
        return [int(k) for k in np.argsort(-counts, kind="stable")]

    @cached_property
    def _rivals(self) -> npt.NDArray[np.float64]:
        """Count how often each class is the rival of labels of each, weighted by P(wrong)."""
        m = self.num_classes
        seen = self.evidence.rival != UNKNOWN
        place = self.given[seen] * m + self.evidence.rival[seen]
        weights = self._doubts[seen]
        counts = np.bincount(place, weights, minlength=m * m).astype(np.float64)
        return counts.reshape(m, m)

    def next(
        self, wanted: Filter, who: str, count: int, without: Sequence[int] = ()
    ) -> tuple[list[int], int]:
        """The next labels for a person, worst first, which nobody else has; and how many match.

        Args:
            wanted: Which labels.
            who: The person, who holds them from now on.
            count: How many.
            without: Rows that the person has already.
        """
        base, skip = self._matching(wanted), set(without)
        found: list[int] = []
        left = 0
        for begin in range(0, len(base), _CHUNK):
            part = base[begin : begin + _CHUNK]
            if wanted.state != "any":
                part = part[self.state[part] == STATES[wanted.state]]
            left += len(part)
            if len(found) < count:
                free = (
                    row
                    for row in part.tolist()
                    if row not in skip and not self.leases.taken(row, who)
                )
                found += islice(free, count - len(found))
        if wanted.state == "open":
            self.leases.take(found, who)
        return found, left

    def held(self, wanted: Filter, who: str) -> int:
        """Count the open labels that match and that others have before them."""
        rows = np.array([row for row in self.leases.rows if self.leases.taken(row, who)], np.int64)
        rows = rows[self.state[rows] == OPEN]
        return int(np.isin(rows, self._matching(wanted)).sum())

    def _matching(self, wanted: Filter) -> Rows:
        """All rows that match but for their state, worst first."""
        key = Filter(**{**vars(wanted), "state": "any"})
        if key not in self._filtered:
            order = self.order
            if wanted.fault is not None:
                order = self.faults.get(wanted.fault, order[:0])
            if wanted.rows is not None:
                chosen = np.zeros(len(self), bool)
                chosen[list(wanted.rows)] = True
                order = order[chosen[order]]
            if wanted.given is not None:
                order = order[self.given[order] == wanted.given]
            if wanted.proposed is not None:
                order = order[self._proposed[order] == wanted.proposed]
            if wanted.least > 0 or wanted.most < 1:
                p = self._doubts[order]
                order = order[(p >= wanted.least) & (p <= wanted.most)]
            if wanted.rows is not None:
                return order  # these change with every decision
            self._filtered[key] = order
            if len(self._filtered) > _FILTERS:
                del self._filtered[next(iter(self._filtered))]
            return order
        return self._filtered[key]

    def pairs(self, most: int = 30) -> list[tuple[int, int, int]]:
        """Given and proposed class of open flagged labels, and how many; the most first."""
        rows = np.flatnonzero(self.verdict.is_label_issue & (self.state == OPEN))
        m = self.num_classes
        counts = np.bincount(self.given[rows] * m + self._proposed[rows], minlength=m * m)
        order = np.argsort(-counts, kind="stable")[:most].tolist()
        return [(k // m, k % m, int(counts[k])) for k in order if counts[k] and k // m != k % m]

    def ahead(self, verdict: Verdict, last: Sequence[bool]) -> Ahead:
        """Whether going on pays.

        Args:
            verdict: One that knows the decisions.
            last: Of the newest decisions, whether each found a wrong label.
        """
        rows = self._open_ahead(LAST)
        expected = float(verdict.wrong_probability[rows].sum())
        return Ahead(last=len(last), last_wrong=sum(last), next_wrong=expected)

    def _open_ahead(self, count: int) -> list[int]:
        found: list[int] = []
        order = self.order
        for begin in range(0, len(order), _CHUNK):
            part = order[begin : begin + _CHUNK]
            found += part[self.state[part] == OPEN][: count - len(found)].tolist()
            if len(found) == count:
                break
        return found
