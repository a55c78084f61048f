"""`abstain predict`: use the model of a run."""

import json
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console

EXAMPLES = """
[bold]Examples[/]

  abstain predict runs/photos-… new-photos/ --output predictions.csv

  abstain predict runs/reviews-… reviews.csv --coverage 0.9     answer the easiest 90%

  abstain predict runs/digits-… digits --split test --label label --max-risk 0.02
"""


def predict(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    source: Annotated[str, typer.Argument(help="As for abstain train; labels are not needed.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write, .csv or .parquet.")
    ] = Path("predictions.csv"),
    coverage: Annotated[
        float | None, typer.Option(help="Share of samples to answer; it abstains from the rest.")
    ] = None,
    max_risk: Annotated[
        float | None,
        typer.Option(help="Answer as many as keep the expected share of errors at or below this."),
    ] = None,
    score: Annotated[
        str, typer.Option(help="Willingness by: abstention, softmax or margin.")
    ] = "abstention",
    split: Annotated[str, typer.Option(help="Split of the source.")] = "train",
    label: Annotated[
        str | None, typer.Option(help="Label column, to compare the answers with.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of downloaded sets.", envvar="ABSTAIN_DATA")
    ] = None,
    skip_bad: Annotated[bool, typer.Option(help="Leave unreadable images out.")] = False,
    image_size: Annotated[int | None, typer.Option(help="Scale images to this size.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
) -> None:
    """Predict the classes of new data with a trained model, and abstain where asked to.

    Writes a row per sample: id, predicted_label (empty where it abstains), confidence, margin,
    abstention, answered.
    """
    from abstain.train.predict import check_output, predict_from

    check_output(output)
    options: dict[str, Any] = {
        "split": split, "label": label, "data_dir": data_dir, "image_size": image_size,
        "skip_bad": skip_bad or None, "labelled": True if label is not None else None,
    }  # fmt: skip
    options = {name: value for name, value in options.items() if value is not None}
    predictions = predict_from(
        run, source, coverage=coverage, max_risk=max_risk, score=cast("Any", score), **options
    )
    predictions.write(output)
    summary = {
        "samples": len(predictions.ids),
        "answered": int(predictions.answered.sum()),
        "coverage": predictions.coverage,
        "expected_risk": predictions.expected_risk,
        "accuracy": predictions.accuracy,
        "output": str(output),
    }
    if as_json:
        typer.echo(json.dumps(summary))
        return
    console = Console(highlight=False)
    console.print(
        f"{summary['answered']} of {summary['samples']} samples answered "
        f"({predictions.coverage:.1%}); expected share of errors {predictions.expected_risk:.1%}"
    )
    if predictions.accuracy is not None:
        console.print(f"agreement with the labels of the source: {predictions.accuracy:.1%}")
    console.print(f"written: {output}", soft_wrap=True)
