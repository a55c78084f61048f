"""`abstain compare`: the labels of an audit before and after they were reviewed."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

EXAMPLES = """
[bold]Examples[/]

  abstain export audits/photos-… --to cleaned --fix reviewed --out clean.csv

  abstain audit clean.csv --out audits/clean

  abstain compare audits/photos-… audits/clean
"""


def compare(
    before: Annotated[Path, typer.Argument(help="Folder of an audit that was reviewed.")],
    after: Annotated[Path, typer.Argument(help="Folder of the audit of its corrected labels.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Page to write; AFTER/before-after.html by default."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Show what a review has gained: noise rate, agreement, accuracy, before and after.

    Writes a page that can be shown to others, with the decisions, how far people agree, and some of
    the corrected labels.
    """
    from abstain.report.numbers import count, percent, rough, rough_interval
    from abstain.review.before_after import PAGE, write_before_after
    from abstain.review.before_after import compare as compared
    from abstain.scores.interval import Interval

    found = compared(before, after)
    place = out or after / PAGE
    write_before_after(found, place)
    if as_json:
        lines = [asdict(line) for line in found.lines]
        people = {"people": found.people, "agreements": [asdict(x) for x in found.agreements]}
        figures = {"lines": lines, "decided": found.decided, **people, "caution": found.caution}
        typer.echo(json.dumps({"file": str(place), **figures}))
        return

    def cell(value: Interval | float | None, is_count: bool) -> str:
        if value is None:
            return "–"
        if isinstance(value, Interval):
            return f"{rough(value)} ({rough_interval(value)})"
        return count(value) if is_count else percent(value)

    table = Table(box=None, pad_edge=False)
    for name in ("", "before", "after"):
        table.add_column(name, justify="right" if name else "left")
    for line in found.lines:
        values = (cell(x, line.is_count) for x in (line.before, line.after))
        table.add_row(Text(line.what), *values)
    console = Console(highlight=False)
    console.print(table)
    done = ", ".join(f"{n:,} {what}" for what, n in found.decided.items() if n)
    by = f", by {', '.join(found.people)}" if found.people else ""
    console.print(f"Decided: {done}{by}", soft_wrap=True, markup=False)
    if found.caution:
        console.print(found.caution, soft_wrap=True, markup=False)
    console.print(f"Page: {place}", soft_wrap=True, markup=False)
