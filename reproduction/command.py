"""`python -m reproduction`: the paper's tables and figures from our own runs."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from abstain.cli.spelling import Command
from abstain.errors import AbstainError

if TYPE_CHECKING:
    from reproduction.reproduce import Known, TargetPlan, Written
    from reproduction.runner import Budget, Outcome
    from reproduction.store import RecordStore
    from reproduction.targets import Scale, Target

EXAMPLES = """
[bold]Examples[/]

  python -m reproduction all --quick                  a try-out, in a minute

  python -m reproduction all --dry-run                what is missing

  python -m reproduction table-stopping --budget 30   half an hour of it

  python -m reproduction --from reproduction/results  pages and figures again
"""

_HELP = (
    "Run the paper's experiments again, and put ours beside what it publishes.\n\n"
    "What was run once is never run again: runs are kept one by one, and an interrupted or "
    "budgeted call is taken up by the next."
)

app = typer.Typer(
    name="reproduction",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# As many as a GPU trains in hardly more time than one; a CPU has nothing to gain.
_STACKED_ON_GPU = 64
# Seconds of a budget for results, figures and pages: what those of the whole paper take.
_PAGES = 15.0


@app.command(cls=Command, help=_HELP, epilog=EXAMPLES)
def reproduce(
    target: Annotated[
        str | None,
        typer.Argument(
            help="all, table-symmetric, table-stopping, table-pairflip, or figure- followed by"
            " learnability, rejection, robustness, stages, stopping, schedules or critical;"
            " differences, what may explain where ours are not the paper's;"
            " or auto, our own method in every row of the tables.",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="Repetitions of every run.", show_default="3; quick: 1"),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="A try-out, all targets in about a minute: a perceptron on mnist-5k, 5 epochs,"
            " one row per table, one seed. Its page says nothing about the paper.",
        ),
    ] = False,
    budget: Annotated[
        float | None,
        typer.Option(metavar="MINUTES", help="Stop in time; the next call goes on from there."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what is missing and how long it will take.")
    ] = False,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="DIR", help="Make pages and figures from results, and train nothing."
        ),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="A file per run; such folders merge by copying.",
            show_default="runs beside the results",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where results/ and docs/ are written.",
            show_default="reproduction/results and docs; quick: both in reproduction-quick",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder of downloaded sets (mnist/train.parquet, …) instead of $ABSTAIN_DATA."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run the paper's experiments again, and put ours beside what it publishes."""
    from reproduction.cost import Cost
    from reproduction.reproduce import Places, find_known, make_plan, publish
    from reproduction.runner import Budget
    from reproduction.targets import Scale, chosen

    if target is None and source is None and not dry_run:
        raise AbstainError(
            "must be given, for example table-symmetric or all, got none", argument="target"
        )
    targets = chosen(target or "all")
    scale = Scale(seeds=seeds or (1 if quick else 3), quick=quick)
    limit = Budget(budget, reserve=_PAGES)
    folder = out or (Path("reproduction-quick") if quick else None)
    places = Places() if folder is None else Places.below(folder)
    kept = store or places.runs
    folders = [places.results, kept]
    if source is not None:
        if not source.is_dir():
            raise AbstainError(f"must be a folder with results, got {source}", argument="source")
        folders = [source, source / "runs", kept]
    known = find_known(*folders)
    if source is not None:
        _check_source(source, known, scale)
    most = _stacked()
    if dry_run:
        _show_plan(make_plan(targets, scale, known, Cost(known.values()), most), as_json)
        return
    outcome = None
    if source is None:
        from reproduction.store import RecordStore

        outcome = _train(targets, scale, RecordStore(kept), known, limit, data_dir, most)
    written = publish(targets, scale, known, places, source)
    _show_end(outcome, written, known, scale, kept, as_json)


def _check_source(source: Path, known: "Known", scale: "Scale") -> None:
    """Refuse results of which no page could show anything."""
    from reproduction.targets import TARGETS

    if not known:
        raise AbstainError(
            f"must be a folder with results, got {source}, which has none", argument="source"
        )
    if not any(target.records(scale, list(known.values())) for target in TARGETS.values()):
        of = "of a try-out, or leave --quick out" if scale.quick else "of full runs, or add --quick"
        raise AbstainError(
            f"must be a folder with results {of}, got {source}, which has others",
            argument="source",
        )


def _stacked() -> int:
    import torch

    return _STACKED_ON_GPU if torch.cuda.is_available() else 1


def _train(
    targets: "list[Target]",
    scale: "Scale",
    store: "RecordStore",
    known: "Known",
    budget: "Budget",
    data_dir: Path | None,
    most: int,
) -> "Outcome":
    from abstain.training.processes import Interrupted
    from reproduction.cost import Cost
    from reproduction.display import GridDisplay
    from reproduction.executors import Executor
    from reproduction.reproduce import Means, train_missing
    from reproduction.tasks import task_loader

    try:
        with GridDisplay() as display:
            means = Means(
                execute=Executor(data_dir, display.epoch),
                load=task_loader(data_dir),
                report=display,
                cost=Cost(known.values()),
                most=most,
            )
            return train_missing(targets, scale, store, known, budget, means)
    except (KeyboardInterrupt, Interrupted):
        Console(stderr=True).print(
            f"Interrupted. What was done is kept in {store.folder}; the same command goes on.",
            highlight=False,
            soft_wrap=True,
            markup=False,
        )
        sys.exit(130)


def _show_plan(plans: "list[TargetPlan]", as_json: bool) -> None:
    from reproduction.display import duration

    if as_json:
        typer.echo(json.dumps([asdict(plan) for plan in plans], indent=2))
        return
    table = Table("target", box=None, pad_edge=False)
    for name in ("runs", "missing", "about"):
        table.add_column(name, justify="right")
    for plan in plans:
        about = duration(plan.seconds) if plan.missing else ""
        table.add_row(plan.target, str(plan.runs), str(plan.missing), about)
    if len(plans) > 1:
        missing, seconds = sum(p.missing for p in plans), sum(p.seconds for p in plans)
        table.add_row("together", "", str(missing), duration(seconds), style="bold")
    console = Console(highlight=False)
    console.print(table)
    console.print("A run that several targets need is counted as missing once.", style="dim")


def _show_end(
    outcome: "Outcome | None",
    written: "Written",
    known: "Known",
    scale: "Scale",
    kept: Path,
    as_json: bool,
) -> None:
    if as_json:
        typer.echo(json.dumps(_as_json(outcome, written, known, scale, kept), indent=2))
        return
    from abstain.support.wording import many

    console = Console(highlight=False, soft_wrap=True)
    if outcome is not None:
        console.print(f"{many(outcome.done, 'run')} done; {len(known)} known in all.")
        if outcome.postponed:
            console.print(
                f"{many(outcome.postponed, 'run')} did not fit the budget; run this again."
            )
        for reason, number in outcome.refused.items():
            console.print(
                f"{many(number, 'run')} cannot be made here: {reason}", style="yellow", markup=False
            )
    for page in (written.page, written.auto_page):
        if page is not None:
            console.print(f"Page: {page}", markup=False)
    if written.lacking is not None:
        console.print(
            f"No page: {written.lacking}. The runs are in {kept}; copy that folder elsewhere and "
            "use --from on it.",
            markup=False,
        )


def _as_json(
    outcome: "Outcome | None", written: "Written", known: "Known", scale: "Scale", kept: Path
) -> dict[str, Any]:
    from reproduction.evidence import Evidence
    from reproduction.page import all_claims

    evidence = Evidence(list(known.values()), scale)
    return {
        "outcome": None if outcome is None else asdict(outcome),
        "known": len(known),
        "store": str(kept),
        "page": None if written.page is None else str(written.page),
        "auto_page": None if written.auto_page is None else str(written.auto_page),
        "results": [str(path) for path in written.results],
        "figures": [str(path) for path in written.figures],
        "lacking": written.lacking,
        "claims": [asdict(claim) for claim in all_claims(evidence)],
    }
