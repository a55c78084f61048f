"""`abstain data`: which built-in sets there are, and fetch one."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from abstain.cli.spelling import Command

EXAMPLES = """
[bold]Examples[/]

  abstain data list                              what there is, and where from

  abstain data list --json | jq '.[].name'

  abstain data get mnist                         fetch and decode, once

  abstain data get mnist --data-dir ~/sets       from ~/sets/mnist/*.parquet
"""

app = typer.Typer(
    help="List the built-in data sets, or fetch one.",
    epilog=EXAMPLES,
    no_args_is_help=True,
    rich_markup_mode="rich",
)

DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="Folder of downloaded sets (mnist/train.parquet, …) instead of $ABSTAIN_DATA.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@app.command("list", cls=Command)
def list_sets(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List the built-in sets, where each comes from, and whether it is on this machine."""
    rows = _rows(data_dir)
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("name", "what", box=None, pad_edge=False)
    table.columns[0].no_wrap = True
    for name in ("train", "test", "classes"):
        table.add_column(name, justify="right")
    # A path that is cut short cannot be copied.
    table.add_column("comes from", overflow="fold")
    table.add_column("here")
    for row in rows:
        table.add_row(
            str(row["name"]),
            str(row["about"]),
            f"{row['train']:,}",
            f"{row['test']:,}",
            str(len(row["classes"])),
            str(row["source"]),
            "yes" if row["available"] else "no",
        )
    Console(markup=False, emoji=False).print(table)  # a folder may be called anything


@app.command("get", cls=Command)
def get(
    name: Annotated[str, typer.Argument(help="A built-in set; see `abstain data list`.")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Fetch and decode a built-in set, so that later runs start at once."""
    from abstain.data import BUILTIN, load
    from abstain.data.cache import cache_folder
    from abstain.errors import DataError
    from abstain.support.wording import did_you_mean, some

    if name not in BUILTIN:
        raise DataError(
            f"must be a built-in set ({some(list(BUILTIN), 10)}), got {name!r}"
            f"{did_you_mean(name, BUILTIN)}",
            argument="name",
        )
    parts = {split: load(name, split=split, data_dir=data_dir) for split in ("train", "test")}
    sizes = {split: len(data) for split, data in parts.items()}
    taken = sum(_bytes(data.inputs) for data in parts.values())
    if as_json:
        about = {"name": name, **sizes, "cache": str(cache_folder()), "bytes": taken}
        typer.echo(json.dumps(about, indent=2))
        return
    counted = ", ".join(f"{split} {size:,}" for split, size in sizes.items())
    typer.echo(f"{name}: {counted}; {taken / 2**20:.1f} MiB decoded in {cache_folder()}")


def _rows(data_dir: Path | None) -> list[dict[str, Any]]:
    from abstain.data.cache import cache_folder
    from abstain.data.readers.builtin import BUILTIN, whereabouts

    rows = []
    for builtin in BUILTIN.values():
        source, available = whereabouts(builtin, data_dir, cache_folder())
        rows.append(
            {
                "name": builtin.name,
                "about": builtin.about,
                "kind": builtin.kind,
                "train": builtin.train,
                "test": builtin.test,
                "classes": builtin.classes,
                "source": source,
                "available": available,
            }
        )
    return rows


def _bytes(inputs: object) -> int:
    """Bytes of inputs in memory: of a tensor exactly, of texts by their letters."""
    if isinstance(inputs, list):
        return sum(len(text) for text in inputs)
    return int(getattr(inputs, "nbytes", 0))
