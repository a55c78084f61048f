"""Run what is missing, group by group, within a budget; every run that ends is kept at once."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

from abstain.errors import AbstainError
from abstain.training.plan import Plan
from reproduction.cost import Cost
from reproduction.groups import Group, make_groups
from reproduction.record import Result, make_record
from reproduction.runs import Run
from reproduction.store import RecordStore
from reproduction.tasks import Task

Execute = Callable[[Task, Sequence[Plan]], Sequence[Result]]
"""Trains recipes that can be stacked; a result for each, in their order."""
Load = Callable[[str, str], Task]
"""The data set and network by their names, as tensors."""


class Report(Protocol):
    """Shows the progress of a grid."""

    def plan(self, runs: int, seconds: float) -> None:
        """So many runs are left, and will take about so long."""

    def begin(self, group: Group, seconds: float) -> None:
        """These begin now, and will take about so long."""

    def end(self, group: Group) -> None:
        """They are done."""


class Quiet:
    """A report that shows nothing."""

    def plan(self, runs: int, seconds: float) -> None:
        """Nothing."""

    def begin(self, group: Group, seconds: float) -> None:
        """Nothing."""

    def end(self, group: Group) -> None:
        """Nothing."""


class Budget:
    """Time that may be spent; it runs from when it is made.

    Args:
        minutes: How long; None for no end.
        reserve: Seconds of it that are kept for what follows, but no more than a quarter.

    >>> Budget(None).allows(1e9), Budget(1).allows(61)
    (True, False)
    >>> Budget(1).allows(50), Budget(1, reserve=20).allows(50), Budget(1, reserve=20).allows(44)
    (True, False, True)
    """

    def __init__(self, minutes: float | None, reserve: float = 0.0) -> None:
        if minutes is not None and not minutes >= 0:  # nor may it be no number
            raise AbstainError(f"must be at least 0 minutes, got {minutes:g}", argument="budget")
        self._end = None
        if minutes is not None:
            self._end = time.monotonic() + 60 * minutes - min(reserve, 60 * minutes / 4)

    def allows(self, seconds: float) -> bool:
        """Whether there is time for that much more."""
        return self._end is None or time.monotonic() + seconds <= self._end


@dataclass
class Outcome:
    """The outcome of a round: runs done, runs that there was no time for, runs that cannot be."""

    done: int = 0
    postponed: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    """Number of refused runs, by the reason."""


def run_target(
    runs: Sequence[Run],
    store: RecordStore,
    execute: Execute,
    budget: Budget,
    report: Report,
    *,
    load: Load,
    cost: Cost,
    most: int = 1,
) -> Outcome:
    """Train the runs that are asked for, and put a record of each into the store.

    Args:
        runs: Those that are missing; whoever asks looks first.
        store: Where records go, as soon as a group is done: an interrupt loses one group at most.
        execute: What trains.
        budget: No group is begun that it does not allow; of a group too long, whole cells are run.
        report: Hears of progress.
        load: Gives the tensors of a data set.
        cost: Says how long a group will take, and learns from how long it took.
        most: How many runs to stack.
    """
    outcome = Outcome()
    # Cheap runs first: that is how a budget covers most cells.
    waiting = sorted(make_groups(runs, most), key=lambda g: cost.seconds(g.runs) / len(g.runs))
    while waiting:
        report.plan(sum(len(g.runs) for g in waiting), sum(cost.seconds(g.runs) for g in waiting))
        group = waiting.pop(0)
        fitting = group.fitting(
            lambda part: budget.allows(cost.set_up(part.network) + cost.seconds(part.runs))
        )
        if fitting is None:
            outcome.postponed += len(group.runs)
            continue
        if rest := group.runs[len(fitting.runs) :]:
            waiting.insert(0, Group(rest))
        report.begin(fitting, cost.seconds(fitting.runs))
        try:
            task = load(fitting.data, fitting.network)
            began = time.monotonic()
            results = execute(task, [run.recipe for run in fitting.runs])
            seconds = time.monotonic() - began
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            if len(fitting.runs) > 1:
                waiting[:0] = fitting.halves()
                continue
            reason = f"{fitting.network} does not fit into the memory of the device"
            outcome.refused[reason] = outcome.refused.get(reason, 0) + 1
        except AbstainError as error:
            outcome.refused[str(error)] = outcome.refused.get(str(error), 0) + len(fitting.runs)
        else:
            # A store that fails now ends it all: whatever else is trained would be lost as well.
            for run, result in zip(fitting.runs, results, strict=True):
                store.put(make_record(run, result, task.true, seconds / len(fitting.runs)))
            cost.learn(fitting.runs, seconds)
            outcome.done += len(fitting.runs)
        report.end(fitting)
    report.plan(0, 0.0)
    return outcome
