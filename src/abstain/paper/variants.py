"""Settings on which the paper is silent, tried one at a time where ours differs from it."""

from dataclasses import dataclass
from typing import Any

from abstain.paper.recipes import make_run
from abstain.paper.runs import Run

SYMMETRIC, STOPPING, PAIRFLIP = "symmetric", "early_stopping", "pairflip"


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A cell of a table of the paper with something else than it has there."""

    table: str
    data: str
    rate: float
    method: str
    what: str
    """What is changed, in words."""
    changes: tuple[tuple[str, Any], ...]

    @property
    def column(self) -> str:
        """Its name among the variants of a row.

        >>> VARIANTS[0].column
        'symmetric gamblers: payoff 9.9'
        """
        return f"{self.table} {self.method}: {self.what}"

    def run(self) -> Run:
        """At seed 0."""
        kind = "pairflip" if self.table == PAIRFLIP else "symmetric"
        return make_run(self.data, self.method, self.rate, kind, **dict(self.changes))


def _of(
    table: str, data: str, rates: tuple[float, ...], method: str, what: str, **changes: object
) -> list[Variant]:
    return [
        Variant(
            table=table,
            data=data,
            rate=rate,
            method=method,
            what=what,
            changes=tuple(changes.items()),
        )
        for rate in rates
    ]


def _payoffs(
    table: str, data: str, rates: tuple[float, ...], payoffs: tuple[float, ...]
) -> list[Variant]:
    return [
        variant
        for payoff in payoffs
        for variant in _of(table, data, rates, "gamblers", f"payoff {payoff:g}", payoff=payoff)
    ]


_AFTER = "after 10 epochs of cross-entropy"
_AT_ONCE = "no cross-entropy first"
_PLAIN = "LSTM without attention"
_HIGH = (0.5, 0.65, 0.8)
VARIANTS = [
    *_payoffs(SYMMETRIC, "mnist", _HIGH, (9.9, 9.8)),
    *_payoffs(SYMMETRIC, "cifar10", _HIGH, (9.9, 9.5, 9.0)),
    *_payoffs(PAIRFLIP, "cifar10", (0.45,), (9.9, 9.5, 9.0)),
    *_of(SYMMETRIC, "cifar10", _HIGH, "gamblers", _AT_ONCE, warm_up=0),
    *_of(PAIRFLIP, "cifar10", (0.45,), "gamblers", _AT_ONCE, warm_up=0),
    *_of(SYMMETRIC, "cifar10", (0.2, 0.5, 0.65), "lq", _AFTER, warm_up=10),
    *_of(SYMMETRIC, "cifar10", (0.2, 0.5, 0.65), "lq", "truncated at 0.5", truncate=0.5),
    *_of(PAIRFLIP, "cifar10", (0.2, 0.3), "lq", _AFTER, warm_up=10),
    *_of(PAIRFLIP, "cifar10", (0.2, 0.3), "lq", "truncated at 0.5", truncate=0.5),
    *_of(SYMMETRIC, "imdb", (0.2, 0.3), "nll", _PLAIN, network="lstm"),
    *_of(SYMMETRIC, "imdb", (0.2, 0.3), "lq", _PLAIN, network="lstm"),
    *_of(SYMMETRIC, "imdb", (0.2, 0.3), "schedule", _PLAIN, network="lstm"),
    *_of(STOPPING, "imdb", (0.1, 0.2, 0.3), "validation", _PLAIN, network="lstm"),
    *_of(STOPPING, "imdb", (0.1, 0.2, 0.3), "analytical", _PLAIN, network="lstm"),
]
"""What is tried. A reason that nothing of this gives is not known."""
