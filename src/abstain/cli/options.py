"""Options that several commands have, each said once."""

import re
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

DATA, TRAINING, RUN = "Data", "Training", "Run"
"""Panels of the help."""

Source: TypeAlias = Annotated[
    str | None,
    typer.Argument(help="A built-in set, image folder, CSV/Parquet/JSONL, .npz, or hf:OWNER/NAME."),
]
Label: TypeAlias = Annotated[
    str | None, typer.Option(help="The label column.", rich_help_panel=DATA)
]
Features: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        help="A feature column, found by looking by default (repeat for more); or an .npy with "
        "a row of numbers per sample, in the order of paths or rows, to train on instead.",
        rich_help_panel=DATA,
    ),
]
Ignore: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        help="A column that is no feature, such as a customer's number (repeat for more).",
        rich_help_panel=DATA,
    ),
]
# The sets themselves look at ABSTAIN_DATA: what it says is nothing that the command was told, which
# --resume would refuse and a folder would remember.
DataDir: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help="Folder of downloaded sets (mnist/train.parquet, …) instead of $ABSTAIN_DATA.",
        rich_help_panel=DATA,
    ),
]
SkipBad: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--skip-bad", help="Leave unreadable images out, and record them.", rich_help_panel=DATA
    ),
]
ImageSize: TypeAlias = Annotated[
    int | None,
    typer.Option(
        help="Scale images to this height and width; 64 is quick on a CPU. Those of several sizes "
        "are scaled to their median, at most 64 by default.",
        rich_help_panel=DATA,
    ),
]
Flip: TypeAlias = Annotated[
    float | None,
    typer.Option(
        help="Share of labels to flip on purpose, to see what comes of it.", rich_help_panel=DATA
    ),
]
FlipKind: TypeAlias = Annotated[
    str | None,
    typer.Option(help="symmetric, symmetric-any, pairflip or instance.", rich_help_panel=DATA),
]

Model: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="mnist-cnn, cifar-cnn, resnet18, lstm, lstm-attention, mlp, or PATH.py:NAME.",
        rich_help_panel=TRAINING,
    ),
]
Epochs: TypeAlias = Annotated[
    int | None,
    typer.Option(help="Passes over the data; 15 to 30 by default.", rich_help_panel=TRAINING),
]
Batch: TypeAlias = Annotated[
    int | None, typer.Option(help="Samples per step, on all processes.", rich_help_panel=TRAINING)
]
LearningRate: TypeAlias = Annotated[
    float | None,
    typer.Option("--learning-rate", "--lr", help="0.001 by default.", rich_help_panel=TRAINING),
]
Precision: TypeAlias = Annotated[
    str | None, typer.Option(help="auto (measured), fp32, bf16 or fp16.", rich_help_panel=TRAINING)
]

Seed: TypeAlias = Annotated[
    int | None, typer.Option(help="For noise, weights and order at once.", rich_help_panel=RUN)
]
Out: TypeAlias = Annotated[
    Path | None, typer.Option("--out", "-o", help="The folder to write.", rich_help_panel=RUN)
]
SaveEvery: TypeAlias = Annotated[
    float, typer.Option(help="Seconds between checkpoints in an epoch.", rich_help_panel=RUN)
]
SAVE_EVERY = 60.0
DryRun: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Show the resolved recipe and stop.", rich_help_panel=RUN)
]
AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print the outcome as JSON.", rich_help_panel=RUN)
]


_ARGUMENT = re.compile(
    r"\b(label|features|ignore|image_size|skip_bad|resume)=(\(\d+, \d+\)|'[^']*'|\w*)"
)
"""What errors of `abstain.data` advise a program to say."""
_SUBJECT = re.compile(
    r"(batch|calibrate|confidence|coverage|data_dir|epochs|fix|flip|flip_kind|ignore|image_size"
    r"|label|learning_rate|max_risk|method|min_confidence|optimizer|out|output|patience|precision"
    r"|rate|save_every|score|skip_bad|split|to|unsure|warm_up|weights)(?= must )"
)
"""What an error can be about that only an option says; of features a model has its own, too."""


def as_options(message: str) -> str:
    """What is wrong, and advice for a program, in words of the command line.

    >>> as_options("flip_kind must be one of symmetric, pairflip, got 'odd'")
    "--flip-kind must be one of symmetric, pairflip, got 'odd'"

    >>> as_options("leave them out with skip_bad=True; scale them with image_size=64")
    'leave them out with --skip-bad; scale them with --image-size 64'
    >>> as_options("leave it out with ignore='first name'; choose with features=")
    "leave it out with --ignore 'first name'; choose with --features"
    """

    def option(found: re.Match[str]) -> str:
        name, value = found.groups()
        return f"--{name.replace('_', '-')} {'' if value == 'True' else value}".rstrip()

    if subject := _SUBJECT.match(message):
        message = f"--{subject[0].replace('_', '-')}{message[subject.end() :]}"
    return _ARGUMENT.sub(option, message)


def said(**values: Any) -> dict[str, Any]:  # noqa: ANN401
    """The values that were given.

    >>> said(epochs=3, batch=None)
    {'epochs': 3}
    """
    return {name: value for name, value in values.items() if value is not None}
