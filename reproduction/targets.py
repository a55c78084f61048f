"""Each table and figure of the paper as cells, and each cell as runs over seeds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from abstain.errors import AbstainError
from reproduction import critical
from reproduction.published import published
from reproduction.recipes import make_run
from reproduction.record import Record
from reproduction.runs import Run
from reproduction.searched import candidates
from reproduction.variants import CONTROLS, OPTIMIZERS, VARIANTS

LEARNABILITY_PAYOFFS = (9.8, 9.9, 9.99)
ROBUSTNESS_PAYOFFS = (8.8, 9.0, 9.5, 9.9, 9.99)
REJECTION_RATES = (0.2, 0.5, 0.8)
RESNET_EPOCHS = 50
# From the first step on, most of its runs freeze; so the figure has it after cross-entropy, too.
WARMED, WARMED_EPOCHS = "gamblers after 2 epochs of nll", 30
QUICK_DATA, QUICK_RATE = "mnist-5k", 0.5
CLEAN = ("mnist", "fashion-mnist", "cifar10")
"""Data sets on which `auto` is run with labels that are all right."""
ABLATIONS = ("auto_untrusting", "auto_unaveraged", "auto_fixed")
ABLATED = (
    ("mnist", 0.8, "symmetric"),
    ("mnist", 0.45, "pairflip"),
    ("cifar10", 0.5, "symmetric"),
    ("cifar10", 0.8, "symmetric"),
    ("cifar10", 0.45, "pairflip"),
)
"""Rows in which each part of `auto` is left out in turn."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The scale of a run: the paper's settings over seeds, or a try-out."""

    seeds: int = 3
    quick: bool = False

    @property
    def digits(self) -> str:
        """The data set that stands where the paper has MNIST."""
        return QUICK_DATA if self.quick else "mnist"

    def rate(self, rate: float) -> float:
        """A rate of the paper; a try-out has but one, so that its targets share runs."""
        return QUICK_RATE if self.quick else rate


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A place in a table, or a line in a figure."""

    row: tuple[str, float]
    """Data set and rate."""
    column: str
    """A method of `recipes.METHODS`, or what distinguishes the lines of a figure."""
    base: Run
    """At seed 0."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A table or figure of the paper."""

    name: str
    title: str
    cells: Callable[[Scale], list[Cell]]
    bisects: bool = False
    """Whether what is run next depends on what came out."""
    first_seed: int = 0

    def runs(self, scale: Scale, known: Sequence[Record] = ()) -> list[Run]:
        """All runs that it needs, as far as the `known` ones decide that."""
        seeds = range(self.first_seed, self.first_seed + scale.seeds)
        runs = [cell.base.with_seed(seed) for cell in self.cells(scale) for seed in seeds]
        if self.bisects:
            runs += critical.next_runs(scale.digits, scale.seeds, scale.quick, known)
        return list({run.name: run for run in runs}.values())

    def records(self, scale: Scale, known: Sequence[Record]) -> list[Record]:
        """Those of the known records that belong to it, at any seed."""
        cells = {cell.base.cell for cell in self.cells(scale)}
        found = [record for record in known if record.run.cell in cells]
        if self.bisects:
            found += [r for r in known if critical.belongs(r.run, scale.digits, scale.quick)]
        return sorted({r.name: r for r in found}.values(), key=lambda record: record.name)

    def most_runs(self, scale: Scale) -> int:
        """Count the runs that it takes, all in all."""
        return len(self.runs(scale)) + self.later_runs(scale, ())

    def later_runs(self, scale: Scale, known: Sequence[Record]) -> int:
        """Count the runs that a bisection needs beyond those that `runs` can name already."""
        if not self.bisects:
            return 0
        return critical.later_runs(scale.digits, scale.seeds, scale.quick, known)


def _table(table: str, kind: str, extra: tuple[str, ...]) -> Callable[[Scale], list[Cell]]:
    def cells(scale: Scale) -> list[Cell]:
        paper = published(table)
        rows = [(QUICK_DATA, QUICK_RATE)] if scale.quick else list(paper.rows)
        if scale.quick and kind == "pairflip":
            rows = [(QUICK_DATA, 0.3)]
        return [
            Cell(row=row, column=method, base=make_run(row[0], method, row[1], kind))
            for row in rows
            for method in (*paper.columns, *extra)
            # On IMDB it has as few epochs as the others in any case.
            if method != "coteaching_200" or row[0] in ("mnist", "cifar10")
        ]

    return cells


def _learnability(scale: Scale) -> list[Cell]:
    payoffs = LEARNABILITY_PAYOFFS[-1:] if scale.quick else LEARNABILITY_PAYOFFS
    return _lines(scale, 0.8, payoffs)


def _robustness(scale: Scale) -> list[Cell]:
    payoffs = (9.0, 9.99) if scale.quick else ROBUSTNESS_PAYOFFS
    return _lines(scale, 0.5, payoffs)


def _lines(scale: Scale, rate: float, payoffs: Sequence[float]) -> list[Cell]:
    """The method nll beside some payoffs."""
    data, rate = scale.digits, scale.rate(rate)
    return [
        Cell(row=(data, rate), column="nll", base=make_run(data, "nll", rate)),
        *(
            Cell(
                row=(data, rate),
                column=f"{payoff:g}",
                base=make_run(data, "gamblers", rate, payoff=payoff),
            )
            for payoff in payoffs
        ),
    ]


def _rejection(scale: Scale) -> list[Cell]:
    rates = [QUICK_RATE] if scale.quick else REJECTION_RATES
    return [
        Cell(row=(scale.digits, rate), column=method, base=make_run(scale.digits, method, rate))
        for rate in rates
        for method in ("gamblers", "gamblers_aes")
    ]


def _stages(scale: Scale) -> list[Cell]:
    data, rate = scale.digits, 0.5
    return [Cell(row=(data, rate), column="gamblers", base=make_run(data, "gamblers", rate))]


def _stopping(scale: Scale) -> list[Cell]:
    data, rate = scale.digits, scale.rate(0.8)
    cells = [Cell(row=(data, rate), column="gamblers", base=make_run(data, "gamblers", rate))]
    if not scale.quick:
        cells += [_resnet("gamblers", RESNET_EPOCHS, 0), _resnet(WARMED, WARMED_EPOCHS, 2)]
    return cells


def _resnet(column: str, epochs: int, warm_up: int) -> Cell:
    base = make_run("cifar10", "gamblers", 0.85, network="resnet18", epochs=epochs, warm_up=warm_up)
    return Cell(row=("cifar10", 0.85), column=column, base=base)


def _schedules(scale: Scale) -> list[Cell]:
    data, rate = scale.digits, 0.5
    methods = ("nll", "schedule", "mid", "exp")
    return [Cell(row=(data, rate), column=m, base=make_run(data, m, rate)) for m in methods]


def _critical(scale: Scale) -> list[Cell]:
    payoffs = () if scale.quick else critical.DRAWN_PAYOFFS
    return [cell for cell in _lines(scale, 0.5, payoffs) if cell.column != "nll"]


def auto_column(method: str, kind: str) -> str:
    """The column of `auto` in which a kind of noise stands.

    >>> auto_column("auto", "pairflip")
    'auto pairflip'
    """
    return method if kind == "symmetric" else f"{method} {kind}"


def _auto(scale: Scale) -> list[Cell]:
    """Ours in every row of the paper's tables and on clean labels, and with its parts left out."""

    def cell(data: str, rate: float, kind: str, method: str) -> Cell:
        return Cell(
            row=(data, rate),
            column=auto_column(method, kind),
            base=make_run(data, method, rate, kind),
        )

    if scale.quick:
        return [cell(QUICK_DATA, QUICK_RATE, "symmetric", "auto")]
    tables = {"symmetric": "symmetric", "early_stopping": "symmetric", "pairflip": "pairflip"}
    rows = [(data, rate, kind) for t, kind in tables.items() for data, rate in published(t).rows]
    cells = [cell(*row, "auto") for row in dict.fromkeys(rows)]
    cells += [cell(d, 0.0, "symmetric", m) for d in CLEAN for m in ("nll", "auto")]
    return cells + [cell(*row, method) for row in ABLATED for method in ABLATIONS]


def _differences(scale: Scale) -> list[Cell]:
    if scale.quick:  # nothing to differ from
        return []
    variants = (*VARIANTS, *CONTROLS, *OPTIMIZERS)
    return [Cell(row=(v.data, v.rate), column=v.column, base=v.run()) for v in variants]


def _searched(scale: Scale) -> list[Cell]:
    found = () if scale.quick else candidates()
    return [Cell(row=(c.data, c.rate), column=c.column, base=c.run()) for c in found]


AUTO, DIFFERENCES = "auto", "differences"
SEARCHED = "searched"
TARGETS = {
    target.name: target
    for target in (
        Target(
            name="table-symmetric",
            title="Robustness to symmetric noise",
            cells=_table("symmetric", "symmetric", ("schedule_released", "coteaching_200")),
        ),
        Target(
            name="table-stopping",
            title="Early stopping",
            cells=_table("early_stopping", "symmetric", ("nll_entropy",)),
        ),
        Target(
            name="table-pairflip",
            title="Robustness to pairflip noise",
            cells=_table("pairflip", "pairflip", ("schedule_released", "coteaching_200")),
        ),
        Target(
            name="figure-learnability",
            title="What is learnt of labels that are mostly wrong",
            cells=_learnability,
        ),
        Target(
            name="figure-rejection",
            title="The rejection score of right and of wrong labels",
            cells=_rejection,
        ),
        Target(
            name="figure-robustness",
            title="Test accuracy for several payoffs",
            cells=_robustness,
        ),
        Target(name="figure-stages", title="The stages of training", cells=_stages),
        Target(name="figure-stopping", title="Where the stop is predicted", cells=_stopping),
        Target(name="figure-schedules", title="The payoff rules", cells=_schedules),
        Target(name="figure-critical", title="The critical payoff", cells=_critical, bisects=True),
        Target(
            name=DIFFERENCES,
            title="Cell by cell",
            cells=_differences,
        ),
        Target(
            name=SEARCHED,
            title="Baselines at their best settings",
            cells=_searched,
        ),
        Target(
            name=AUTO,
            title="One rule that knows nothing of the noise",
            cells=_auto,
            # The rule was changed for the last time after others had been seen.
            first_seed=5,
        ),
    )
}
"""Every table and figure by the name that the command line gives it, and our own method."""


def chosen(name: str) -> list[Target]:
    """The targets that a name means: one, or all."""
    if name == "all":
        return list(TARGETS.values())
    if name not in TARGETS:
        from difflib import get_close_matches

        near = get_close_matches(name, TARGETS, 1)
        raise AbstainError(
            f"must be all or one of {', '.join(TARGETS)}, got {name!r}"
            + (f"; did you mean {near[0]}?" if near else ""),
            argument="target",
        )
    return [TARGETS[name]]
