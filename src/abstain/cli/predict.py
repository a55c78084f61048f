"""`abstain predict`: use the model of a run."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console

from abstain.cli import options
from abstain.cli.options import DATA, options_given
from abstain.errors import AbstainError
from abstain.support.wording import many

if TYPE_CHECKING:
    from abstain.predicting.predictions import Predictions

# A blank line between two examples keeps them apart in every release of typer.
EXAMPLES = """
[bold]Examples[/]

  abstain predict runs/photos new-photos/                 an answer for each

  abstain predict runs/photos new-photos/ --coverage 0.9  the easiest 90%

  abstain predict runs/reviews new.csv --max-risk 0.05    by its own estimate

  abstain predict runs/reviews new.csv --max-risk 0.05 --calibrate checked.csv

  abstain predict runs/digits digits --split test --compare -o answers.parquet

With --calibrate, a source whose labels you trust and that was not trained on,
--max-risk is a bound that holds with --confidence. Without it, --max-risk
rests on what the model expects, which is often too confident.
"""

_DEFAULT = Path("predictions.csv")
_CONFIDENCE = 0.95
_ABSTAINING, _OUTPUT = "Abstaining", "Output"


def predict(
    run: Annotated[
        Path,
        typer.Argument(
            help="Folder of a finished training or audit.", show_default=False, metavar="RUN"
        ),
    ],
    source: Annotated[
        str,
        typer.Argument(
            help="As for abstain train, with or without labels.",
            show_default=False,
            metavar="SOURCE",
        ),
    ],
    coverage: Annotated[
        float | None,
        typer.Option(
            help="Share of samples to answer, the most confident first.",
            rich_help_panel=_ABSTAINING,
        ),
    ] = None,
    max_risk: Annotated[
        float | None,
        typer.Option(
            help="Largest share of wrong answers: answer as many samples as it allows.",
            rich_help_panel=_ABSTAINING,
        ),
    ] = None,
    calibrate: Annotated[
        str | None,
        typer.Option(
            help="A source with right labels, not trained on, which makes --max-risk a bound.",
            metavar="SOURCE",
            rich_help_panel=_ABSTAINING,
        ),
    ] = None,
    calibrate_split: Annotated[
        str | None,
        typer.Option(
            help="Split of --calibrate; that of SOURCE by default.", rich_help_panel=_ABSTAINING
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(
            help=f"Probability with which the bound holds; {_CONFIDENCE:g} by default.",
            rich_help_panel=_ABSTAINING,
        ),
    ] = None,
    score: Annotated[
        str,
        typer.Option(
            help="Measure of confidence: softmax, margin or abstention.",
            rich_help_panel=_ABSTAINING,
        ),
    ] = "softmax",
    split: Annotated[
        str, typer.Option(help="Split of SOURCE, such as test.", rich_help_panel=DATA)
    ] = "train",
    compare: Annotated[
        bool | None,
        typer.Option(
            "--compare/--no-compare",
            help="Read the labels of SOURCE too, and print how many answers agree.",
            rich_help_panel=DATA,
            show_default=False,
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            help="Label column, if another than in training; implies --compare.",
            rich_help_panel=DATA,
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="Embeddings of SOURCE, a row for each sample, for a model trained on such.",
            metavar="FILE.npy",
            rich_help_panel=DATA,
        ),
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option(
            help="The backbone of RUN, where its weights lie elsewhere than in training, such as "
            "hf:/models/dinov2-base; they must be the same.",
            rich_help_panel=DATA,
        ),
    ] = None,
    data_dir: options.DataDir = None,
    skip_bad: options.SkipBad = False,
    image_size: Annotated[
        int | None,
        typer.Option(
            help="Scale images to this size, if another than in training.", rich_help_panel=DATA
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "--out",
            "-o",
            help=f"File to write, .csv or .parquet; {_DEFAULT} by default.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help=f"Replace {_DEFAULT}.", rich_help_panel=_OUTPUT)
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a summary as JSON.", rich_help_panel=_OUTPUT)
    ] = False,
) -> None:
    """Predict the classes of new data, and abstain where the model is not confident enough.

    Writes a row per sample: id, predicted_label (empty where it abstains), confidence, margin,
    abstention, answered; given_label with --compare.
    """
    from abstain.data.features import is_feature_file
    from abstain.predicting.predict import predict_from
    from abstain.predicting.predictions import check_output

    place = _place(output, force, source, calibrate)
    check_output(place)
    if features is not None and not is_feature_file(features):
        raise AbstainError(f"must name an .npy, got {features}", argument="features")
    if confidence is not None and calibrate is None:
        raise AbstainError(
            f"needs a source whose labels you trust, got {confidence:g} alone",
            argument="confidence",
            remedy="name one by {calibrate}",
            calibrate=None,
        )
    sure = _CONFIDENCE if confidence is None else confidence
    reading = options_given(
        split=split, label=label, features=features, data_dir=data_dir, image_size=image_size,
        skip_bad=skip_bad or None,
    )  # fmt: skip
    predictions = predict_from(
        run,
        source,
        coverage=coverage,
        max_risk=max_risk,
        score=cast("Any", score),
        calibrate=calibrate,
        calibrate_split=calibrate_split,
        confidence=sure,
        compare=label is not None if compare is None else compare,
        backbone=backbone,
        show=not as_json,
        **reading,
    )
    predictions.write(place)
    notes = Console(stderr=True, highlight=False, soft_wrap=True)
    for note in _notes(predictions, max_risk, sure):
        notes.print(note, markup=False)
    if as_json:
        typer.echo(json.dumps({**_summary(predictions), "file": str(place)}))
        return
    console = Console(highlight=False, soft_wrap=True)
    for line in _lines(predictions, sure):
        console.print(line, markup=False)
    console.print(f"written: {place}", markup=False)


def _place(output: Path | None, force: bool, source: str, calibrate: str | None) -> Path:
    """Choose the file to write; one that nobody named is not replaced, and no source ever is."""
    place = output or _DEFAULT
    if output is None and place.exists() and not force:
        raise AbstainError(
            f"{place} exists already",
            remedy="name another file by {output}, or replace it with {force}",
            output=None,
            force=True,
        )
    for name, read in (("SOURCE", source), ("the source of trusted labels", calibrate)):
        if read is not None and place.exists() and Path(read).exists() and place.samefile(read):
            raise AbstainError(
                f"must not be {name} itself, got {place} for both", argument="output"
            )
    return place


def _summary(predictions: "Predictions") -> dict[str, Any]:
    held = predictions.calibration
    return {
        "samples": len(predictions),
        "skipped": len(predictions.skipped),
        "answered": int(predictions.answered.sum()),
        "coverage": predictions.coverage,
        "score": predictions.score,
        "expected_risk": predictions.expected_risk,
        "agreement": predictions.agreement,
        "aurc": predictions.aurc,
        "calibration": held
        and {
            # JSON has no infinity: null is the threshold that all or none of the samples pass.
            "threshold": held.threshold if math.isfinite(held.threshold) else None,
            "risk_bound": held.bound,
            "samples": held.samples,
            "answered": held.answered,
            "wrong": held.wrong,
        },
    }


def _lines(predictions: "Predictions", confidence: float) -> list[str]:
    """Summarise the predictions for a person."""
    held = predictions.calibration
    line = (
        f"{int(predictions.answered.sum()):,} of {many(len(predictions), 'sample')} answered "
        f"({predictions.coverage:.1%})"
    )
    if predictions.expected_risk is not None:
        risk = f"{predictions.expected_risk:.1%}"
        # Robust training makes probabilities sharp, not calibrated.
        line += f"; the model expects {risk} of its answers to be wrong, often too few"
    lines = [line]
    if held is not None and predictions.answered.any():
        lines.append(
            f"at most {held.bound:.2%} of the answers are wrong, with {_percent(confidence)} "
            f"confidence: {held.wrong:,} of the {held.answered:,} it answers of "
            f"{many(held.samples, 'trusted sample')} are"
        )
    if predictions.agreement is not None:
        lines.append(f"agreement with the labels of the source: {predictions.agreement:.1%}")
    if predictions.aurc is not None:
        lines.append(f"mean risk over all coverages (AURC): {predictions.aurc:.4f}")
    return lines


def _notes(predictions: "Predictions", max_risk: float | None, confidence: float) -> list[str]:
    """List the cautions to read before using the answers."""
    notes = []
    if predictions.skipped:
        notes.append(f"left out as unreadable: {many(len(predictions.skipped), 'sample')}")
    if max_risk is None:
        return notes
    held = predictions.calibration
    if held is None:
        notes.append(
            f"--max-risk {max_risk:g} rests on the model's own estimate; "
            "--calibrate SOURCE, with labels you trust, makes it a bound"
        )
        if not predictions.answered.any():
            notes.append(f"warning: nothing answered: the model expects more than {max_risk:g}")
    elif held.bound is None:
        from abstain.scores.selective import labels_needed

        needed = labels_needed(max_risk, confidence)
        why = (
            f"that takes {many(needed, 'trusted label')} or more"
            if held.samples < needed
            else "too many of its answers to them are wrong, or they are too few"
        )
        notes.append(
            f"warning: nothing answered: no threshold keeps the risk at or below {max_risk:g} with "
            f"{_percent(confidence)} confidence on {many(held.samples, 'trusted sample')}; {why}"
        )
    elif not predictions.answered.any():
        notes.append(
            "warning: nothing answered: no sample is as easy as the trusted ones it would answer"
        )
    return notes


def _percent(share: float) -> str:
    """As many digits as were given: 99.9% is not 100%."""
    return f"{100 * share:.9g}%"
