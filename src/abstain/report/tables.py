"""Tables of the report: review budgets, confused pairs, and the noise rate of each class."""

from dataclasses import dataclass

import numpy as np

from abstain.auditing.result import Audit
from abstain.scores.interval import Interval

_MAP_CLASSES = 16
_PAIRS = 8
_TABLE_ROWS = 60
_SHADES = 9


@dataclass(frozen=True)
class Budget:
    """The expected result of reviewing a number of labels, the worst first."""

    budget: int
    expected: Interval
    """Wrong labels among them."""
    share: Interval
    wrong: int | None
    """Number that really are wrong, where errors were planted."""


@dataclass(frozen=True)
class Cell:
    """Flagged labels of a class that are proposed to be of another; the deeper, the more."""

    count: int
    shade: str


@dataclass(frozen=True)
class ClassPairs:
    """Which class is taken for which among the flagged labels."""

    classes: list[int]
    """Those of the map."""
    cells: list[list[Cell]]
    """The map: given class, proposed class."""
    most_frequent: list[tuple[int, int, int]]
    """Given class, proposed class, labels."""


@dataclass(frozen=True)
class ClassRow:
    """A class and its noise rate."""

    index: int
    labels: int
    flagged: int
    rate: Interval
    taken_for: int | None
    """The class that its flagged labels are most often proposed to be of."""


@dataclass(frozen=True)
class ClassTable:
    """Classes, that of the highest noise rate first."""

    rows: list[ClassRow]
    left_out: int
    top: float
    """End of the scale of the noise rates."""


def review(audit: Audit) -> list[Budget]:
    """Compute the budgets of a review; none where all labels were reviewed."""
    if audit.is_known:
        return []
    planted = audit.planted
    wrong_so_far = None if planted is None else np.cumsum(planted[audit.order])

    def looked_at(budget: int) -> Budget:
        found = audit.findings.expected_wrong(budget)
        share = Interval(
            value=found.value / budget, low=found.low / budget, high=found.high / budget
        )
        wrong = None if wrong_so_far is None else int(wrong_so_far[budget - 1])
        return Budget(budget, found, share, wrong)

    return [looked_at(budget) for budget in audit.budgets]


def class_pairs(audit: Audit) -> ClassPairs | None:
    """Which class is taken for which, as a map and as a list of the most frequent."""
    columns = audit.pairs.given, audit.pairs.predicted, audit.pairs.count
    found = list(zip(*(column.tolist() for column in columns), strict=True))
    if not found:
        return None
    shown = list(range(audit.labels.num_classes))
    if len(shown) > _MAP_CLASSES:  # those of the most frequent pairs, which the list names
        met = dict.fromkeys(index for i, j, _ in found for index in (i, j))
        shown = sorted(list(met)[:_MAP_CLASSES])
    counts = {(i, j): n for i, j, n in found if i in shown and j in shown}
    top = max(counts.values(), default=1)

    def cell(i: int, j: int) -> Cell:
        n = counts.get((i, j), 0)
        return Cell(n, "same" if i == j else f"h{-(-n * _SHADES // top)}")

    cells = [[cell(i, j) for j in shown] for i in shown]
    return ClassPairs(classes=shown, cells=cells, most_frequent=found[:_PAIRS])


def per_class(audit: Audit, most: int = _TABLE_ROWS) -> ClassTable:
    """List the classes with their noise rates, the worst first, and no more than `most`."""
    rates, m = audit.findings.per_class, audit.labels.num_classes
    labels = np.bincount(audit.given, minlength=m).tolist()
    flagged = np.bincount(audit.given[audit.verdict.is_label_issue], minlength=m).tolist()
    taken_for: dict[int, int] = {}
    for i, j in zip(audit.pairs.given.tolist(), audit.pairs.predicted.tolist(), strict=True):
        taken_for.setdefault(i, j)
    present = [j for j in range(m) if labels[j]]
    worst = sorted(present, key=lambda j: -rates[j].value)[:most]
    return ClassTable(
        rows=[ClassRow(j, labels[j], flagged[j], rates[j], taken_for.get(j)) for j in worst],
        left_out=len(present) - len(worst),
        top=min(1.0, max([0.02, *(rates[j].high for j in present)])),
    )
