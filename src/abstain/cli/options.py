"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

DATA, TRAINING, RUN = "Data", "Training", "Run"
"""Panels of the help."""

Source: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        help="A built-in set (see abstain data list), an image folder with a sub-folder for each "
        "class, a CSV, Parquet or JSONL table, an .npz, or hf:OWNER/NAME."
    ),
]
Label: TypeAlias = Annotated[
    str | None, typer.Option(help="Column of a table that holds the labels.", rich_help_panel=DATA)
]
Features: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        help="Column of a table to train on (repeat for more), all that can be used by default; or "
        "an .npy of embeddings, a row for each sample, in the order of rows or paths.",
        rich_help_panel=DATA,
    ),
]
Ignore: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        help="Column of a table to leave out, such as a customer's number (repeat for more).",
        rich_help_panel=DATA,
    ),
]
# The data sets themselves read ABSTAIN_DATA: as the value of an option it would be refused with
# --resume, and be stored in the folder of the run.
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
        "--skip-bad",
        help="Leave out images that cannot be read, and record which.",
        rich_help_panel=DATA,
    ),
]
ImageSize: TypeAlias = Annotated[
    int | None,
    typer.Option(
        help="Scale images to this height and width; 64 is quick on a CPU. By default, images of "
        "several sizes are scaled to their median, at most 64.",
        rich_help_panel=DATA,
    ),
]
Flip: TypeAlias = Annotated[
    float | None,
    typer.Option(
        help="Share of labels to make wrong on purpose, as a test with known errors.",
        rich_help_panel=DATA,
    ),
]
FlipKind: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="How --flip chooses wrong labels: symmetric, symmetric-any, pairflip or instance.",
        rich_help_panel=DATA,
    ),
]

Model: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="mnist-cnn, cifar-cnn, resnet18, bag-of-words, mlp, or PATH.py:NAME for one of your "
        "own; by default one that fits the inputs.",
        rich_help_panel=TRAINING,
    ),
]
Backbone: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Pretrained network for images and texts: small:efficientnet-lite2, small:wordllama, "
        "small:minilm, timm:NAME, hf:NAME, st:NAME, clip:NAME, onnx:FILE or PATH.py:NAME. auto, "
        "the default, takes the installed one with the best held-out accuracy, and downloads "
        "nothing; none trains from scratch.",
        rich_help_panel=TRAINING,
    ),
]
Finetune: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--finetune/--no-finetune",
        help="Train the backbone of images or texts too, or never (8 epochs by default, learning "
        "rate 0.003; a fifth of it for a backbone of images, 0.03 of it for one of texts). "
        "Default: for images only, if --budget allows a trial and held-out labels confirm it.",
        rich_help_panel=TRAINING,
    ),
]
Budget: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Time for the training, features included, in which fine-tuning may be tried: 90s, "
        "10m, 1h30m; by default 10m on a GPU, and 0, never, on a CPU.",
        rich_help_panel=TRAINING,
    ),
]
Augment: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--augment/--no-augment",
        help="Crop, mirror and partly erase images at random, where held-out labels show that this "
        "is safe; by default with --finetune only.",
        rich_help_panel=TRAINING,
    ),
]
Epochs: TypeAlias = Annotated[
    int | None,
    typer.Option(help="Passes over the data; 15 to 30 by default.", rich_help_panel=TRAINING),
]
Batch: TypeAlias = Annotated[
    int | None,
    typer.Option(
        help="Samples per step, over all processes; by default chosen from the data.",
        rich_help_panel=TRAINING,
    ),
]
LearningRate: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--learning-rate", "--lr", help="Step size; 0.001 by default.", rich_help_panel=TRAINING
    ),
]
Precision: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Number format: auto (by device and size), fp32, bf16 or fp16.",
        rich_help_panel=TRAINING,
    ),
]

Seed: TypeAlias = Annotated[
    int | None,
    typer.Option(
        help="Seed of planted errors, first weights and order of samples.", rich_help_panel=RUN
    ),
]
Out: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", help="Folder to write; a new name by default.", rich_help_panel=RUN
    ),
]
SaveEvery: TypeAlias = Annotated[
    float, typer.Option(help="Seconds between checkpoints within an epoch.", rich_help_panel=RUN)
]
SAVE_EVERY = 60.0
DryRun: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Print all settings as they would be used, and stop.", rich_help_panel=RUN
    ),
]
AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=RUN)
]


def options_given(**values: Any) -> dict[str, Any]:  # noqa: ANN401
    """The options that were given, without those that were not.

    >>> options_given(epochs=3, batch=None)
    {'epochs': 3}
    """
    return {name: value for name, value in values.items() if value is not None}
