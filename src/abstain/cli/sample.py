"""`abstain sample`: labels to check at random, which measure the noise rate."""

import json
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer
from rich.console import Console

from abstain.errors import AbstainError

EXAMPLES = """
[bold]Examples[/]

  abstain sample audits/photos-… --size 200 --out to-check.csv

  abstain audit --resume audits/photos-… --reviewed to-check.csv
"""


def sample(
    audit: Annotated[Path, typer.Argument(help="Folder of a finished audit.")],
    size: Annotated[int, typer.Option(help="Number of labels to check.")] = 200,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write, .csv or .parquet; a new name by default."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was written as JSON.")
    ] = False,
) -> None:
    """Draw labels at random for somebody to check, which measures the noise rate.

    Write the right class of each into the column checked_label, or unsure or drop into
    unsure_or_drop, from the top and without gaps: answers to the easy labels only are not a random
    sample. Add no other labels to the file. 200 checked labels measure the rate to within about 5
    points, whatever the noise; an estimate from the labels alone cannot promise that. A larger
    --size later continues the same sample.
    """
    from abstain.auditing.folder import AuditFolder
    from abstain.exporting.to_check import export_sample
    from abstain.support.wording import many

    saved = AuditFolder.open(audit)
    place = out or Path(f"{saved.folder.resolve().name}-to-check.csv")
    if out is None and place.exists():
        raise AbstainError(f"{place} exists already", remedy="name another file by {out}", out=None)
    written = export_sample(saved, place, size)
    if as_json:
        typer.echo(json.dumps({"file": str(place), "rows": written.rows}))
        return
    console = Console(highlight=False)
    then = f"abstain audit --resume {quote(str(audit))} --reviewed {quote(str(place))}"
    console.print(
        f"{place}: {many(written.rows, 'label')} to check, drawn at random. Fill in checked_label, "
        f"then: {then}",
        soft_wrap=True,
        markup=False,
    )
