"""The baselines at their best settings, chosen by held-out labels as given: no label is clean.

A tenth of the labels is held out; each run keeps the epoch that is best on them, and each row the
setting. Our own rule has one setting in all rows.
"""

from dataclasses import dataclass
from typing import Any

from reproduction.published import published
from reproduction.recipes import make_run
from reproduction.runs import Run

_SETTINGS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("nll", "", {}),
    *(("lq", f"q = {q}", {"q": q}) for q in (0.3, 0.5, 0.7, 0.9)),
    *(("gamblers", f"payoff {payoff:g}", {"payoff": payoff}) for payoff in (9.9, 9.5, 9.0)),
    *(("schedule", f"guard {guard:g}", {"guard": guard}) for guard in (1e-10, 1e-8, 1e-6)),
)
_DATA = ("mnist", "cifar10")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A baseline with a setting, in a row of a table."""

    data: str
    rate: float
    kind: str
    method: str
    what: str
    changes: tuple[tuple[str, Any], ...]

    @property
    def column(self) -> str:
        """Its name among the candidates of a row."""
        return f"{self.kind} {self.method} {self.what}".rstrip()

    def run(self) -> Run:
        """At seed 0."""
        held_out = {"stop": "validation", "patience": 10}
        changes = {**held_out, **dict(self.changes)}
        return make_run(self.data, self.method, self.rate, self.kind, **changes)


def candidates() -> list[Candidate]:
    """All that are compared, in every row with images of the tables without stops.

    >>> len(candidates()), candidates()[1].column
    (154, 'symmetric lq q = 0.3')
    """
    return [
        Candidate(
            data=data,
            rate=rate,
            kind=kind,
            method=method,
            what=what,
            changes=tuple(changes.items()),
        )
        for kind in ("symmetric", "pairflip")
        for data, rate in published(kind).rows
        if data in _DATA
        for method, what, changes in _SETTINGS
    ]
