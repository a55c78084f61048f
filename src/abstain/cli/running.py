"""Shared parts of the commands that train: interruptions, processes, folders, dry runs."""

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from abstain.cli.options import SAVE_EVERY
from abstain.cli.process import is_main_process, this_program
from abstain.errors import AbstainError


@contextmanager
def training(command: str, place: Path, *, save_every: float, as_json: bool) -> Iterator[None]:
    """Around a training: print how to go on after Ctrl-C, or what has to be installed."""
    try:
        from abstain.training.processes import Interrupted
        from abstain.training.train import train as _  # noqa: F401
    except ModuleNotFoundError as error:
        raise AbstainError(
            f"training needs the package {error.name}, which is not installed; "
            "run: pip install 'abstain[train]'"
        ) from None
    go_on = f"Go on with: {this_program()} {command} --resume {quote(str(place))}"
    # The folder does not store these, as they do not change the result.
    go_on += f" --save-every {save_every:g}" * (save_every != SAVE_EVERY) + " --json" * as_json
    try:
        yield
    except Interrupted:
        _leave(f"Interrupted and saved. {go_on}")
    except KeyboardInterrupt:
        _leave(
            f"Interrupted. {go_on}"
            if (place / "run.json").exists()
            else "Interrupted before the training began: run the same command again. Features that "
            "were made are kept."
        )


def is_to_print() -> bool:
    """Leave the group of processes, if there is one; True for the main one, which alone prints."""
    from accelerate import PartialState

    state = PartialState()
    state.destroy_process_group()  # or torch warns of it at the end
    return bool(state.is_main_process)


def new_folder(source: object, what: str, where: str = "runs") -> Path:
    """A name that tells what was run, and that no earlier run has."""
    stem = Path(str(source).removeprefix("hf:").replace(":", "-")).stem or "data"
    moment = f"{datetime.now():%Y%m%d-%H%M%S-%f}"[:-3]  # two may be begun in one second
    return Path(where) / f"{stem}-{what}-{moment}"


def show_plan(
    source: Any,  # noqa: ANN401
    plan: Any,  # noqa: ANN401
    options: dict[str, Any],
    budget: str | None,
    *,
    as_json: bool,
) -> None:
    """Show what would be run, with everything filled in from the data."""
    import torch

    from abstain.data import fit_encoder
    from abstain.data.source import Source
    from abstain.embed.backbones.names import NONE
    from abstain.embed.choice import BUDGET
    from abstain.models import default_model
    from abstain.support.duration import spoken
    from abstain.training.sources import load_for, wanted_backbone
    from abstain.training.trial import budget_seconds, planned

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    seconds = budget_seconds(budget, device)
    loaded = load_for(
        Source(source, options=options), wanted_backbone(plan, None), budget=seconds or BUDGET
    )
    data, backbone = loaded.data, loaded.backbone.name
    trial = planned(plan, loaded, seconds)
    plan = loaded.resolved(plan)
    values = plan.as_json()
    if trial is not None:
        values["finetune"] = f"tried within {spoken(seconds)}"
    by_default = (
        default_model(data.kind, fit_encoder(data).input_shape)
        if backbone == NONE
        else backbone
        if plan.finetune
        else default_model("table", (1,))
    )
    values["model"] = plan.model or by_default
    about = {"source": str(source), "samples": len(data), "classes": len(data.classes)}
    if as_json:
        typer.echo(json.dumps({**about, "plan": values}))
        return
    table = Table("setting", "value", box=None)
    for name, value in {**about, **values}.items():
        table.add_row(name, str(value))
    Console(highlight=False, markup=False, emoji=False).print(table)  # a source may be called so


def feature_option(features: list[str] | None) -> str | list[str] | None:
    """Columns as they are; the name of one `.npy` by itself."""
    from abstain.data.features import is_feature_file

    if features is None or not any(is_feature_file(name) for name in features):
        return features
    if len(features) > 1:
        raise AbstainError(
            f"must be columns or one .npy, got {', '.join(features)}", argument="features"
        )
    return features[0]


def _leave(text: str) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a launcher may send it a second time
    if is_main_process():  # by its number: the group may not exist yet
        console = Console(stderr=True, emoji=False)  # a folder may be called anything
        console.print(text, soft_wrap=True, highlight=False, markup=False)
    sys.exit(130)
