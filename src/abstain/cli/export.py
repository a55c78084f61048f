"""`abstain export`: an audit for other programs, or the data set with corrected labels."""

import json
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from abstain.errors import AbstainError

if TYPE_CHECKING:
    from abstain.auditing.folder import AuditFolder

EXAMPLES = """
[bold]Examples[/]

  abstain export audits/photos-… --to csv --flagged --out queue.csv

  abstain export audits/photos-… --to label-studio --out tasks.json

  abstain export audits/photos-… --to corrected --out corrected.csv

  abstain export audits/photos-… --to cleaned --fix drop --out clean.csv

  abstain export audits/photos-… --to cleaned --fix relabel --unsure drop
"""

_NOTHING: dict[str, int] = {}
_TARGETS = ("csv", "parquet", "label-studio", "cleaned", "corrected")


def export(
    audit: Annotated[Path, typer.Argument(help="Folder of a finished audit.")],
    to: Annotated[
        str,
        typer.Option(
            help="csv or parquet: the table of labels; label-studio: tasks to review there; "
            "cleaned: the data set with corrected labels; corrected: only what was reviewed, as "
            "a new column."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write; a new name by default.")
    ] = None,
    flagged: Annotated[
        bool | None,
        typer.Option(
            "--flagged/--all",
            help="Which labels to write; by default all to csv and parquet, and flagged ones to "
            "label-studio.",
        ),
    ] = None,
    fix: Annotated[
        str | None,
        typer.Option(
            help="For cleaned: drop flagged samples, relabel them where the model is confident "
            "(default), weight every sample by the probability that its label is right, or take "
            "only reviewed labels."
        ),
    ] = None,
    min_confidence: Annotated[
        float | None,
        typer.Option(help="For relabel: least confidence in the proposed label; 0.5 by default."),
    ] = None,
    unsure: Annotated[
        str | None,
        typer.Option(
            help="For relabel: keep (default) or drop flagged samples below --min-confidence."
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(help="For label-studio: address of the image folder, put before each path."),
    ] = None,
    copies: Annotated[
        bool,
        typer.Option("--copies", help="For corrected, into a folder of images: copies, no links."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was written as JSON.")
    ] = False,
) -> None:
    """Write the labels of an audit for other programs, or the data set with corrected labels.

    A cleaned data set keeps the form of its source, so that abstain train can read it. An image
    folder becomes a CSV of paths and labels; --fix weight adds a column for --weights weight. A
    corrected one has the decisions of a review, and no other change: all rows with the new column
    corrected_label, or, of images, a folder, with the log of decisions beside.
    """
    if to not in _TARGETS:
        raise AbstainError(f"must be one of {', '.join(_TARGETS)}, got {to!r}", argument="to")
    _check(
        to,
        {"cleaned": {"fix": fix, "min_confidence": min_confidence, "unsure": unsure},
         "label-studio": {"url": url}, "corrected": {"copies": copies or None}},
    )  # fmt: skip
    if to in ("cleaned", "corrected") and flagged is not None:
        raise AbstainError(f"--flagged and --all are not for {to}, which is the whole data set")
    for name, value in (("min_confidence", min_confidence), ("unsure", unsure)):
        if value is not None and fix not in (None, "relabel"):
            raise AbstainError(
                f"is not for {fix}", argument=name, remedy="use it with {fix}", fix="relabel"
            )
    from abstain.auditing.folder import AuditFolder
    from abstain.exporting.cleaned import SURE_ENOUGH
    from abstain.support.wording import many

    saved = AuditFolder.open(audit)
    from abstain.review.export import export_corrected
    from abstain.review.sharing import share_decisions
    from abstain.review.unchanged import check_for_export

    if to in ("cleaned", "label-studio"):  # which put decisions beside samples
        check_for_export(saved)
    elif to != "corrected":
        share_decisions(saved.folder)
    sure = SURE_ENOUGH if min_confidence is None else min_confidence
    place = out or _new_file(saved, to)
    if to == "label-studio":
        from abstain.exporting.label_studio import export_label_studio

        only = True if flagged is None else flagged
        rows, done = export_label_studio(saved, place, flagged=only, url=url), _NOTHING
        after = f"Import it into a project with the labelling interface {place.with_suffix('.xml')}"
    elif to == "cleaned":
        from abstain.exporting.cleaned import command, export_cleaned
        from abstain.exporting.corrected import WEIGHT

        written = export_cleaned(
            saved,
            place,
            fix or "relabel",  # type: ignore[arg-type]
            min_confidence=sure,
            unsure=unsure or "keep",  # type: ignore[arg-type]
        )
        rows = written.rows
        done = {
            "dropped": written.dropped,
            "relabelled": written.relabelled,
            "unsure": written.unsure,
        }
        weights = {"weights": WEIGHT} if fix == "weight" else {}
        after = "Train on it: " + command("train", place, {**written.reading, **weights})
        if fix == "reviewed":
            again = command("audit", place, {**written.reading, "out": "AFTER"})
            after += f"\nWhat was gained: {again}, then: abstain compare {quote(str(audit))} AFTER"
    elif to == "corrected":
        written = export_corrected(saved, place, copies=copies)
        rows, after = written.rows, ""
        done = {"corrected": written.relabelled, "dropped": written.dropped}
    else:
        from abstain.exporting.issues import export_issues

        if place.suffix.lower() != f".{to}":
            raise AbstainError(f"must end in .{to}, got {place}", argument="out")
        rows, done, after = export_issues(saved, place, flagged=bool(flagged)).rows, _NOTHING, ""
    if as_json:
        typer.echo(json.dumps({"file": str(place), "rows": rows, **done}))
        return
    console = Console(highlight=False)
    words = {"unsure": f"flagged but left as given: confidence below {sure:g} (--unsure drop)"}
    if done.get("dropped"):
        done.pop("unsure", None)  # they were dropped
    changes = "".join(f", {n} {words.get(name, name)}" for name, n in done.items() if n)
    console.print(f"{place}: {many(rows, 'row')}{changes}", soft_wrap=True, markup=False)
    if after:
        console.print(after, soft_wrap=True, markup=False)


def _check(to: str, meant_for: dict[str, dict[str, object]]) -> None:
    """Refuse options that have no effect on what is written."""
    for target, options in meant_for.items():
        for name, value in options.items():
            if value is not None and to != target:
                raise AbstainError(
                    f"is not for {to}", argument=name, remedy="use it with {to}", to=target
                )


def _new_file(saved: "AuditFolder", to: str) -> Path:
    """A name that is not taken: without --out, nothing is written over."""
    from abstain.exporting.cleaned import default_suffix

    endings = {"csv": ".csv", "parquet": ".parquet", "label-studio": ".json", "corrected": ".csv"}
    suffix = endings.get(to)
    if suffix is None:
        source = str(saved.summary["sources"]["train"])
        suffix = default_suffix(source, saved.summary["inputs"])
    place = Path(f"{saved.folder.resolve().name}-{to}{suffix}")
    if place.exists():
        raise AbstainError(f"{place} exists already", remedy="name another file by {out}", out=None)
    return place
