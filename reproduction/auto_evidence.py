"""The evidence on `auto`: each row beside the paper's best and our own, and its warm-ups."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from abstain.training.objective.warm_up import WarmUp
from reproduction.evidence import Evidence, Stat
from reproduction.published import published
from reproduction.recipes import METHODS
from reproduction.record import Record
from reproduction.targets import AUTO, auto_column

KINDS = {"symmetric": "table-symmetric", "pairflip": "table-pairflip"}
"""The tables whose rows are counted, by the kind of noise; the published ones have its name."""
GIVEN_THE_RATE = frozenset(
    {"coteaching_plus", "coteaching_200", "gamblers_aes", "analytical", "nll_entropy"}
)


class Place(NamedTuple):
    """A row of a table."""

    data: str
    rate: float
    kind: str = "symmetric"


DEVELOPMENT = (
    Place("mnist", 0.2),
    Place("mnist", 0.5),
    Place("mnist", 0.8),
    Place("mnist", 0.45, "pairflip"),
    Place("imdb", 0.2),
    Place("cifar10", 0.0),
    Place("cifar10", 0.5),
    Place("cifar10", 0.8),
    Place("cifar10", 0.45, "pairflip"),
)
"""The rows by which `auto` was chosen, with other seeds; the others were not used."""


@dataclass(frozen=True)
class Best:
    """The highest accuracy of some methods in a row, and which reach it."""

    mean: float
    methods: tuple[str, ...]
    stat: Stat | None = None
    """Mean and spread of our own runs."""


@dataclass(frozen=True, kw_only=True)
class AutoRow:
    """A row that counts; None stands for what was not run, or is not in the paper."""

    place: Place
    auto: Stat | None
    paper: Best | None
    own: Best | None
    """The best of the baselines that we ran; which it is can be seen from the test set only."""

    @property
    def margin(self) -> float | None:
        """Points above the best number that the paper prints."""
        return _difference(self.auto, self.paper)

    @property
    def own_margin(self) -> float | None:
        """Points above the best of our own runs of the baselines."""
        return _difference(self.auto, self.own)


def auto_records(evidence: Evidence, place: Place, method: str = AUTO) -> list[Record]:
    """The runs of `auto`, or of it with a part left out."""
    return evidence.records(AUTO, place[:2], auto_column(method, place.kind))


def auto_stat(evidence: Evidence, place: Place, method: str = AUTO) -> Stat | None:
    """Accuracy over the seeds of the same."""
    return evidence.stat(AUTO, place[:2], auto_column(method, place.kind))


def auto_rows(evidence: Evidence) -> list[AutoRow]:
    """All rows that count, in the order of the tables."""
    places = [Place(*row, kind) for kind, table in KINDS.items() for row in evidence.rows(table)]
    return [
        AutoRow(
            place=place,
            auto=auto_stat(evidence, place),
            paper=best_published(place),
            own=_best_own(evidence, place),
        )
        for place in places
    ]


def best_published(place: Place) -> Best | None:
    """The best number that the paper prints in a row.

    >>> best_published(Place("mnist", 0.8))
    Best(mean=95.0, methods=('gamblers_aes', 'schedule'), stat=None)
    """
    paper = published(place.kind)
    cells = {c: cell for c in paper.columns if (cell := paper.cell(*place[:2], c)) is not None}
    if not cells:
        return None
    most = max(cell.mean for cell in cells.values())
    return Best(most, tuple(c for c, cell in cells.items() if cell.mean == most))


def _best_own(evidence: Evidence, place: Place) -> Best | None:
    table = KINDS[place.kind]
    # At as many epochs as ours.
    columns = [c for c in evidence.columns(table) if c != "coteaching_200"]
    stats = {c: s for c in columns if (s := evidence.stat(table, place[:2], c)) is not None}
    if not stats:
        return None
    method = max(stats, key=lambda column: stats[column].mean)
    return Best(stats[method].mean, (method,), stats[method])


def unrun_baselines(evidence: Evidence) -> Counter[str]:
    """In how many rows a baseline was not run, as the page writes it."""
    return Counter(
        METHODS[cell.column]
        for table in KINDS.values()
        for cell in evidence.cells(table)
        if cell.column != "coteaching_200" and evidence.stat(table, cell.row, cell.column) is None
    )


@dataclass(frozen=True)
class Course:
    """The course of a run of `auto`."""

    best: int
    """The epoch of the lowest held-out loss."""
    kept: int
    """The last that was as good up to chance, from which the training went on."""
    switched: int | None
    """Epochs of cross-entropy, the last ones in vain; None: it never ended."""
    cut_short: bool
    """Whether two thirds of the training were over before the held-out loss had turned for good."""
    collapsed: bool


def course(record: Record) -> Course | None:
    """Read from the history of a run; None where the warm-up held out no labels."""
    losses = record.history.get("validation_loss", [])
    judged = [loss for loss in losses if not math.isnan(loss)]
    if not judged:
        return None
    best = judged.index(min(judged)) + 1
    kept = re.search(r"(?:until|kept is its) epoch (\d+)", record.outcome)
    ended = len(judged) < len(losses)
    patience = WarmUp(record.run.recipe.epochs or 1, untaught=math.inf, held_out=1).patience
    return Course(
        best=best,
        kept=int(kept[1]) if kept else best,
        switched=len(judged) if ended else None,
        cut_short=ended and len(judged) - best < patience,
        collapsed="collapsed" in record.outcome,
    )


def courses(records: Sequence[Record]) -> list[Course]:
    """Read the courses of all runs that have one."""
    return [found for record in records if (found := course(record)) is not None]


def _difference(ours: Stat | None, other: Best | None) -> float | None:
    if ours is None or other is None:
        return None
    # A mean that equals the published number must not lose to how either is rounded.
    return round(ours.mean - other.mean, 9) + 0.0
