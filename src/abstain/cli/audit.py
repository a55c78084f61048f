"""`abstain audit`: how many labels are wrong, which, and what they should be."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from abstain.cli.running import feature_option, new_folder, show_recipe, speaks_for_all, training
from abstain.errors import AbstainError

if TYPE_CHECKING:
    from abstain.audit import Audit

# Narrow enough for 80 columns; a blank line keeps examples apart in every release of typer.
EXAMPLES = """
[bold]Examples[/]

  abstain audit photos/                       a sub-folder for each class

  abstain audit reviews.csv --label stars     texts or numbers in a table

  abstain audit photos/ --features clip.npy   embeddings that you have

  abstain audit digits --flip 0.2             on errors planted to be found

  abstain audit --resume audits/photos-…      go on after Ctrl-C or a crash
"""

_DATA, _TRAINING, _RUN = "Data", "Training", "Run"


def audit(
    source: Annotated[
        str | None,
        typer.Argument(help="A built-in set, image folder, CSV/Parquet/JSONL, .npz, or hf:NAME."),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="The label column.", rich_help_panel=_DATA)
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(
            help="An .npy to train on instead of the inputs, a row per sample; or feature columns.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder of downloaded sets (mnist/train.parquet, …).",
            envvar="ABSTAIN_DATA",
            rich_help_panel=_DATA,
        ),
    ] = None,
    skip_bad: Annotated[
        bool,
        typer.Option(help="Leave unreadable images out, and record them.", rich_help_panel=_DATA),
    ] = False,
    image_size: Annotated[
        int | None, typer.Option(help="Scale images to this size.", rich_help_panel=_DATA)
    ] = None,
    flip: Annotated[
        float | None,
        typer.Option(
            help="Share of labels to flip on purpose, to see how well they are found.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    flip_kind: Annotated[
        str | None,
        typer.Option(help="symmetric, symmetric-any, pairflip or instance.", rich_help_panel=_DATA),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(help="As for abstain train; the best unless said.", rich_help_panel=_TRAINING),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            help="Share of wrong labels, which --method aes needs.", rich_help_panel=_TRAINING
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="mnist-cnn, cifar-cnn, resnet18, lstm, lstm-attention, mlp, or PATH.py:NAME.",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            help="Passes over the data; 15 to 100 unless said.", rich_help_panel=_TRAINING
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(help="Samples per step, on all processes.", rich_help_panel=_TRAINING),
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(
            "--learning-rate", "--lr", help="0.001 unless said.", rich_help_panel=_TRAINING
        ),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(help="auto (measured), fp32, bf16 or fp16.", rich_help_panel=_TRAINING),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="For noise, weights and order at once.", rich_help_panel=_RUN)
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder of the audit.", rich_help_panel=_RUN)
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="Go on with this audit; or audit this training.", rich_help_panel=_RUN),
    ] = None,
    save_every: Annotated[
        float, typer.Option(help="Seconds between checkpoints in an epoch.", rich_help_panel=_RUN)
    ] = 60.0,
    dry_run: Annotated[
        bool, typer.Option(help="Show the resolved recipe and stop.", rich_help_panel=_RUN)
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the verdict as JSON.", rich_help_panel=_RUN)
    ] = False,
) -> None:
    """Find the wrong labels of a data set by training on it once.

    Nothing needs to be known about the labels. The folder of the audit gets a report to read
    (report.html), every label with its score, the worst first (issues.csv, issues.parquet), and
    the model.
    """
    settings: dict[str, Any] = {
        "rate": rate, "model": model, "epochs": epochs, "batch": batch, "precision": precision,
        "learning_rate": learning_rate, "flip": flip, "flip_kind": flip_kind,
        "seed_noise": seed, "seed_init": seed, "seed_order": seed,
    }  # fmt: skip
    settings = {name: value for name, value in settings.items() if value is not None}
    options: dict[str, Any] = {
        "label": label, "features": feature_option(features), "data_dir": data_dir,
        "image_size": image_size, "skip_bad": skip_bad or None,
    }  # fmt: skip
    options = {name: value for name, value in options.items() if value is not None}
    if (source is None) == (resume is None):
        raise AbstainError("give one of SOURCE and --resume AUDIT; see abstain audit --help")
    if resume is not None:
        if settings or options or out or method or dry_run:
            raise AbstainError("--resume takes everything from its folder: leave the rest out")
        _audit(None, None, resume, resume=True, save_every=save_every, as_json=as_json)
        return
    from abstain.train.recipe import DEFAULT_METHOD, Recipe

    recipe = Recipe.of(method or DEFAULT_METHOD, **settings)
    if dry_run:
        show_recipe(source, recipe, options, as_json=as_json)
        return
    place = out or new_folder(source, "audit", "audits")
    _audit(source, recipe, place, save_every=save_every, as_json=as_json, **options)


def _audit(
    source: str | None,
    recipe: Any,  # noqa: ANN401
    place: Path,
    *,
    as_json: bool,
    **arguments: Any,  # noqa: ANN401
) -> None:
    with training("audit", place):
        from abstain.audit import audit as run
        from abstain.report import write_report

        verdict = run(source, recipe, folder=place, show=not as_json, **arguments)
        if not speaks_for_all():
            return
        report = place / "report.html"
        write_report(verdict, report)
    if as_json:
        typer.echo(json.dumps({**verdict.summary(), "folder": str(place)}))
        return
    _say(verdict, report)


def _say(verdict: "Audit", report: Path) -> None:
    from abstain.report.numbers import count, expectation, interval, many, percent

    console = Console(highlight=False)
    rate = verdict.noise_rate
    about = (
        f"At most [bold]{percent(rate.high)}"
        if rate.low <= 0
        else f"About [bold]{percent(rate.value)}"
    )
    console.print(
        f"{about}[/] of {many(len(verdict.data), 'label')} are wrong (95% interval "
        f"{interval(rate)}).",
        soft_wrap=True,
    )
    expected = verdict.estimate.expected_wrong(verdict.budget)
    lines = {
        "labels flagged": count(verdict.flagged),
        f"of the {count(verdict.budget)} worst, expected to be wrong": expectation(expected),
    }
    if len(verdict.duplicates):
        lines["identical samples with different labels, groups"] = count(len(verdict.duplicates))
    for name, value in lines.items():
        console.print(f"  {name:<48} {value}", soft_wrap=True)
    if verdict.detection is not None and verdict.planted is not None:
        found = verdict.detection
        worst = int(verdict.planted[verdict.order[: verdict.budget]].sum())
        console.print(
            f"{many(found.wrong, 'error')} had been planted, {percent(found.rate)} of the labels; "
            "of these it knew nothing:",
            soft_wrap=True,
        )
        truth = {
            "flagged labels that are wrong": percent(found.precision),
            "wrong labels that are flagged": percent(found.recall),
            f"of the {count(verdict.budget)} worst, really wrong": count(worst),
            "wrong ranked before right (AUROC)": f"{found.auroc:.4f}",
            "average precision": f"{found.average_precision:.4f}",
        }
        for name, value in truth.items():
            console.print(f"  {name:<48} {value}", soft_wrap=True)
    console.print(f"Report: {report}", soft_wrap=True, markup=False)
    console.print(
        f"Repair: abstain export {report.parent} --to cleaned --fix relabel",
        soft_wrap=True,
        markup=False,
    )
