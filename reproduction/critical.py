"""The critical payoff, below which a network abstains from everything and never learns.

It is found by bisection, each seed on its own: a payoff either learns or freezes, and the next one
to try lies half-way between the highest that froze and the lowest that learnt.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from reproduction.recipes import make_run
from reproduction.record import Record
from reproduction.runs import Run

RATES = (0.2, 0.5, 0.8)
DRAWN_PAYOFFS = (8.0, 8.2, 8.4, 8.6, 9.0)
"""The payoffs whose whole trajectories the figure shows."""
_EPOCHS = 10
_WIDTH, _QUICK_WIDTH = 0.01, 1.25
"""Width of the bracket at the end: as in the paper, and for a try-out."""
_LOW, _HIGH = 5.0, 10.0
_LEARNT = 0.5
"""A frozen network guesses; one that learns is far above this after a few epochs."""


@dataclass(frozen=True)
class Bracket:
    """For one seed: the highest payoff that froze, and the lowest that learnt."""

    rate: float
    seed: int
    low: float
    high: float
    width: float
    """Width that it is to reach."""

    @property
    def closed(self) -> bool:
        """Whether it is as narrow as was asked for."""
        return self.steps == 0

    @property
    def steps(self) -> int:
        """Number of halvings left."""
        return max(0, math.ceil(math.log2((self.high - self.low) / self.width) - 1e-3))

    @property
    def middle(self) -> float:
        """The payoff to try next."""
        return round((self.low + self.high) / 2, 6)


def brackets(data: str, seeds: int, quick: bool, known: Sequence[Record]) -> list[Bracket]:
    """Bracket the critical payoff by what is known, for each rate and seed."""
    learnt: dict[tuple[str, int], list[tuple[float, bool]]] = {}
    for record in known:
        if belongs(record.run, data, quick):
            payoff = float(record.run.recipe.payoff)  # type: ignore[arg-type]
            key = _family(record.run), record.run.seed
            learnt.setdefault(key, []).append((payoff, record.test_accuracy > _LEARNT))
    found = []
    for rate in _rates(quick):
        family = _family(_base(data, rate, quick))
        for seed in range(seeds):
            bracket = Bracket(rate, seed, _LOW, _HIGH, _QUICK_WIDTH if quick else _WIDTH)
            found.append(_follow(bracket, dict(learnt.get((family, seed), []))))
    return found


def next_runs(data: str, seeds: int, quick: bool, known: Sequence[Record]) -> list[Run]:
    """The runs that narrow the brackets which are still too wide, one for each."""
    return [
        _base(data, bracket.rate, quick).with_payoff(bracket.middle).with_seed(bracket.seed)
        for bracket in brackets(data, seeds, quick, known)
        if not bracket.closed
    ]


def later_runs(data: str, seeds: int, quick: bool, known: Sequence[Record]) -> int:
    """Count the runs that are needed after the next ones."""
    return sum(max(0, b.steps - 1) for b in brackets(data, seeds, quick, known))


def belongs(run: Run, data: str, quick: bool) -> bool:
    """Whether a run is one of the bisection, at whatever payoff."""
    if not isinstance(run.recipe.payoff, int | float):
        return False
    return any(_family(run) == _family(_base(data, rate, quick)) for rate in _rates(quick))


def _follow(bracket: Bracket, learnt: dict[float, bool]) -> Bracket:
    """Go through the bisection as far as its steps were tried; other payoffs do not count."""
    while not bracket.closed and bracket.middle in learnt:
        middle = bracket.middle
        bracket = replace(bracket, high=middle) if learnt[middle] else replace(bracket, low=middle)
    return bracket


def _rates(quick: bool) -> tuple[float, ...]:
    return (0.5,) if quick else RATES


def _base(data: str, rate: float, quick: bool) -> Run:
    return make_run(data, "gamblers", rate, epochs=3 if quick else _EPOCHS)


def _family(run: Run) -> str:
    return run.with_payoff(_LOW).cell
