"""From a target to its page: what is missing, train it, write results, figures and the page."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from abstain.errors import AbstainError
from reproduction.cost import Cost
from reproduction.groups import make_groups
from reproduction.parquet import read_results, write_results
from reproduction.record import Record
from reproduction.runner import Budget, Execute, Load, Outcome, Report, run_target
from reproduction.runs import Run
from reproduction.store import RecordStore
from reproduction.targets import AUTO, TARGETS, Scale, Target

Known = dict[str, Record]

_DRAWN = [name for name in TARGETS if name.startswith("figure-") or name == AUTO]


@dataclass(frozen=True)
class Places:
    """Paths of the files written; by default, their places in the repository."""

    results: Path = Path("reproduction/results")
    """A Parquet file per target, to be committed."""
    docs: Path = Path("docs")

    @classmethod
    def below(cls, out: Path) -> "Places":
        """All in one folder."""
        return cls(out / "results", out / "docs")

    @property
    def runs(self) -> Path:
        """A file per run, not to be committed."""
        return self.results / "runs"

    @property
    def page(self) -> Path:
        """The page."""
        return self.docs / "reproduction.md"

    @property
    def auto_page(self) -> Path:
        """The page on the method `auto`."""
        return self.page.with_name("auto.md")

    @property
    def figures(self) -> Path:
        """The pictures of the pages."""
        return self.docs / "figures"


@dataclass(frozen=True, kw_only=True)
class TargetPlan:
    """The progress of a target; `seconds` is what its missing runs are expected to take here."""

    target: str
    runs: int
    missing: int
    seconds: float


def find_known(*folders: Path) -> Known:
    """All runs that were made before: results files, and files of single runs, in some folders."""
    found: Known = {}
    for folder in folders:
        found.update(read_results(folder))
        found.update(RecordStore(folder).all())
    return found


def missing_runs(targets: Sequence[Target], scale: Scale, known: Known) -> list[Run]:
    """The runs of some targets that were not made yet, each once, in the order of the targets."""
    records = list(known.values())
    runs = [run for target in targets for run in target.runs(scale, records)]
    return list({run.name: run for run in runs if run.name not in known}.values())


def make_plan(
    targets: Sequence[Target], scale: Scale, known: Known, cost: Cost, most: int
) -> list[TargetPlan]:
    """Plan the runs of each target. A run that several need counts for the first."""
    plans: list[TargetPlan] = []
    counted: set[str] = set()
    for target in targets:
        missing = [r for r in missing_runs([target], scale, known) if r.name not in counted]
        counted.update(run.name for run in missing)
        seconds = sum(cost.seconds(group.runs) for group in make_groups(missing, most))
        later = target.later_runs(scale, list(known.values()))
        if later:
            seconds += later * cost.seconds(missing[-1:])
        plan = TargetPlan(
            target=target.name,
            runs=target.most_runs(scale),
            missing=len(missing) + later,
            seconds=seconds,
        )
        plans.append(plan)
    return plans


@dataclass(frozen=True, kw_only=True)
class Means:
    """The outside needs of a training."""

    execute: Execute
    load: Load
    report: Report
    cost: Cost
    most: int


def train_missing(
    targets: Sequence[Target],
    scale: Scale,
    store: RecordStore,
    known: Known,
    budget: Budget,
    means: Means,
) -> Outcome:
    """Train what is missing, in rounds: each step of a bisection depends on the one before."""
    total = Outcome()
    while runs := missing_runs(targets, scale, known):
        store.check()
        outcome = run_target(
            runs,
            store,
            means.execute,
            budget,
            means.report,
            load=means.load,
            cost=means.cost,
            most=means.most,
        )
        known.update(store.all())
        total.done += outcome.done
        total.postponed, total.refused = outcome.postponed, outcome.refused
        if not outcome.done:
            break
    return total


@dataclass
class Written:
    """The files that `publish` wrote, and what it could not."""

    results: list[Path] = field(default_factory=list)
    figures: list[Path] = field(default_factory=list)
    page: Path | None = None
    auto_page: Path | None = None
    lacking: str | None = None
    """Why there are no pages: a package is not installed."""


def publish(
    targets: Sequence[Target],
    scale: Scale,
    known: Known,
    places: Places,
    source: Path | None = None,
) -> Written:
    """Write results, figures and the pages from what is known, without any training.

    Results are written for the targets that were asked for, and for those that have a file. What
    is shown as it was written, the small tables, is read in `source`, or else among the results.
    """
    try:
        return _publish(targets, scale, known, places, source or places.results)
    except OSError as error:
        raise AbstainError(
            f"must be a folder that can be written, got {places.docs.parent}: {error}",
            argument="out",
        ) from error


def _publish(
    targets: Sequence[Target], scale: Scale, known: Known, places: Places, source: Path
) -> Written:
    from reproduction.auto_page import make_auto_page
    from reproduction.evidence import Evidence
    from reproduction.figures import draw
    from reproduction.page import make_page

    written = Written()
    records = list(known.values())
    names = {target.name for target in targets}
    own = {target.name: target.records(scale, records) for target in TARGETS.values()}
    try:
        for name, rows in own.items():
            path = places.results / f"{name}.parquet"
            if rows and (name in names or path.exists()):
                write_results(path, rows)
                written.results.append(path)
        everything = Evidence(_each_once(own.values()), scale)
        drawn = []
        for name in _DRAWN:
            picture = places.figures / f"{name.removeprefix('figure-')}.png"
            if draw(everything, name, picture):
                drawn.append(name)
                written.figures.append(picture)
    except AbstainError as error:
        written.lacking = str(error)
        return written
    places.page.parent.mkdir(parents=True, exist_ok=True)
    of_paper = _each_once(rows for name, rows in own.items() if name != AUTO)
    places.page.write_text(make_page(Evidence(of_paper, scale), drawn), encoding="utf-8")
    tables = source / "auto-tabular.json"
    small = json.loads(tables.read_text(encoding="utf-8"))["rows"] if tables.exists() else []
    places.auto_page.write_text(make_auto_page(everything, AUTO in drawn, small), encoding="utf-8")
    written.page, written.auto_page = places.page, places.auto_page
    return written


def _each_once(records: Iterable[Iterable[Record]]) -> list[Record]:
    return list({record.name: record for part in records for record in part}.values())
