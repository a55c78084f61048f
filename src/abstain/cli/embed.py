"""`abstain embed`: the features of a data set by a pretrained network."""

import json
import shlex
from typing import Annotated

import typer
from rich.console import Console

from abstain.cli import options
from abstain.cli.options import options_given
from abstain.cli.running import feature_option, new_folder
from abstain.errors import AbstainError

EXAMPLES = """
[bold]Examples[/]

  abstain embed photos/ --out features             by what is installed

  abstain embed reviews.csv --backbone st:all-MiniLM-L6-v2 --out features

  abstain audit photos/ --features features/features.npy

  abstain embed new/ --unlabelled --backbone small:efficientnet-lite2 --out new-features
"""


def embed(
    source: options.Source = None,
    backbone: options.Backbone = None,
    label: options.Label = None,
    features: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of a table that holds the images or texts, where several do.",
            rich_help_panel=options.DATA,
        ),
    ] = None,
    ignore: options.Ignore = None,
    data_dir: options.DataDir = None,
    skip_bad: options.SkipBad = False,
    split: Annotated[
        str, typer.Option(help="train, validation or test.", rich_help_panel=options.DATA)
    ] = "train",
    unlabelled: Annotated[
        bool,
        typer.Option(
            "--unlabelled",
            help="SOURCE has no labels: photos in no sub-folders, a table without that column.",
            rich_help_panel=options.DATA,
        ),
    ] = False,
    out: options.Out = None,
    as_json: options.AsJson = False,
) -> None:
    """Write the features of images or texts by a pretrained network.

    The folder gets features.npy (a row per sample, in the order of the source), samples.parquet
    (id and label of each row) and features.json (backbone, time). Features are also kept in the
    cache: an audit of the same data by the same backbone reads them there.
    """
    if source is None:
        raise AbstainError("give SOURCE; see abstain embed --help")
    from abstain.embed.command import write_features

    reading = options_given(
        label=label, features=feature_option(features), ignore=ignore, data_dir=data_dir,
        skip_bad=skip_bad or None, split=split, labelled=not unlabelled,
    )  # fmt: skip
    place = out or new_folder(source, "features", "features")
    about = write_features(source, backbone or "auto", place, show=not as_json, **reading)
    if as_json:
        typer.echo(json.dumps({**about, "folder": str(place)}))
        return
    console = Console(highlight=False)
    made = "all from the cache"
    if about["made"]:
        rate = about["made"] / max(about["seconds"], 1e-9)
        made = f"{about['made']:,} made now, {rate:,.0f} a second; the limit was {about['limit']}"
    lines = [
        f"{about['samples']:,} samples by {about['backbone']} ({about['reason']}): "
        f"{about['columns']:,} features each ({made})."
    ]
    if split == "train" and not unlabelled:  # an audit is of no other
        words = ["abstain", "audit", source, "--features", str(place / "features.npy")]
        words += ["--label", label] if label else []
        words += ["--data-dir", str(data_dir)] if data_dir else []
        words += ["--skip-bad"] if skip_bad else []
        lines.append(f"Audit by them: {shlex.join(words)}")
    for line in lines:
        console.print(line, soft_wrap=True, markup=False)
