"""`abstain train`: a robust model from a source of doubtful labels."""

import json
from decimal import Decimal
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from rich.console import Console

from abstain.cli import options
from abstain.cli.options import DATA, RUN, TRAINING, options_given
from abstain.cli.running import feature_option, is_to_print, new_folder, show_plan, training
from abstain.errors import AbstainError

# Narrow enough for 80 columns; a blank line keeps examples apart in every release of typer.
EXAMPLES = """
[bold]Examples[/]

  abstain train digits --flip 0.4             40% of the labels made wrong

  abstain train photos/                       a sub-folder for each class

  abstain train reviews.csv --label stars     texts or numbers in a table

  abstain train mnist --flip 0.5 --method aes --rate 0.5

  abstain train --resume runs/photos-…        go on after Ctrl-C or a crash

  abstain train --from runs/photos-… --seed 1 --out again

  torchrun --nproc-per-node 2 -m abstain train photos/
"""

# A line each on a terminal of 80 columns.
METHODS = {
    "auto": "weights labels by belief; the default",
    "schedule": "a payoff per sample, as in the paper",
    "schedule-released": "the same, as its released code",
    "mid": "the same by a rule of higher payoffs",
    "exp": "the same by the rule of highest payoffs",
    "small-stake": "a robust loss, the limit of schedule",
    "gamblers": "one payoff for all, see --payoff",
    "aes": "gamblers, stopped early; needs --rate",
    "ves": "gamblers, stopped by held-out labels",
    "lq": "generalised cross-entropy, L_q",
    "lq-truncated": "the same, ignoring unlikely labels",
    "nll": "cross-entropy, not robust",
    "nll-entropy": "nll, stopped early; needs --rate",
}

_METHOD = "Method"


def train(
    source: options.Source = None,
    label: options.Label = None,
    features: options.Features = None,
    ignore: options.Ignore = None,
    weights: Annotated[
        str | None,
        typer.Option(
            help="Weight of each sample: a column, or a file with the columns id and weight.",
            rich_help_panel=DATA,
        ),
    ] = None,
    test: Annotated[
        str | None,
        typer.Option(
            help="A source with right labels, to measure the accuracy; never trained on.",
            rich_help_panel=DATA,
        ),
    ] = None,
    data_dir: options.DataDir = None,
    skip_bad: options.SkipBad = False,
    image_size: options.ImageSize = None,
    flip: options.Flip = None,
    flip_kind: options.FlipKind = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="\n\n".join(f"[bold]{name}[/]: {words}" for name, words in METHODS.items()),
            rich_help_panel=_METHOD,
        ),
    ] = None,
    payoff: Annotated[
        str | None,
        typer.Option(
            help="Payoff of a correct bet: a number above 1, or the rule euc, mid or exp.",
            rich_help_panel=_METHOD,
        ),
    ] = None,
    warm_up: Annotated[
        int | None,
        typer.Option(
            help="Epochs of cross-entropy first.",
            rich_help_panel=_METHOD,
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(help="Noise rate, for methods that need it.", rich_help_panel=_METHOD),
    ] = None,
    backbone: options.Backbone = None,
    finetune: options.Finetune = None,
    budget: options.Budget = None,
    augment: options.Augment = None,
    model: options.Model = None,
    epochs: options.Epochs = None,
    batch: options.Batch = None,
    optimizer: Annotated[
        str | None, typer.Option(help="adam, adamw, sgd or laprop.", rich_help_panel=TRAINING)
    ] = None,
    learning_rate: options.LearningRate = None,
    precision: options.Precision = None,
    seed: options.Seed = None,
    seed_noise: Annotated[
        int | None,
        typer.Option(
            help="Seed of the errors that --flip plants, if another than --seed.",
            rich_help_panel=RUN,
        ),
    ] = None,
    out: options.Out = None,
    resume: Annotated[
        Path | None, typer.Option(help="Folder of a run to continue.", rich_help_panel=RUN)
    ] = None,
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="Folder of a run to repeat, with other settings where given.",
            rich_help_panel=RUN,
        ),
    ] = None,
    save_every: options.SaveEvery = options.SAVE_EVERY,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Train a classifier on labels that are partly wrong.

    You need to know nothing about the labels. Settings that are not given are chosen from the
    data; everything that decides the result is written to the folder of the run.
    """
    settings = options_given(
        payoff=_number_or_rule(payoff), warm_up=warm_up, rate=rate, backbone=backbone, model=model,
        epochs=epochs, batch=batch, optimizer=optimizer, learning_rate=learning_rate,
        finetune=finetune, augment=augment, precision=precision, flip=flip, flip_kind=flip_kind,
        seed=seed, seed_noise=seed_noise,
    )  # fmt: skip
    reading = options_given(
        label=label, features=feature_option(features), ignore=ignore, data_dir=data_dir,
        image_size=image_size, skip_bad=skip_bad or None, weights=weights,
    )  # fmt: skip
    if sum(x is not None for x in (source, resume, from_)) != 1:
        raise AbstainError(
            "give one of SOURCE, --resume RUN and --from RUN; see abstain train --help"
        )
    if resume is not None:
        if settings or reading or out or method or test or dry_run or budget:
            raise AbstainError(
                "takes all settings from its folder",
                argument="resume",
                remedy="use {from_} to change them",
                from_=None,
            )
        _train(resume=resume, save_every=save_every, as_json=as_json)
        return
    if from_ is not None and budget is not None:
        raise AbstainError(
            f"must be left out where a run is repeated as it was, got {budget}",
            argument="budget",
            remedy="{finetune} trains its backbone too",
            finetune=True,
        )
    plan, source, test, reading = _resolve(source, from_, method, settings, test, reading)
    # Here and not in the recipe: a program may well seed all of its runs, with errors or without.
    if seed_noise is not None and flip is None and not plan.flip:
        raise AbstainError(
            f"needs labels to flip, got {seed_noise} alone",
            argument="seed_noise",
            remedy="give their share by {flip}",
            flip=None,
        )
    if dry_run:
        if test is not None:
            from abstain.data.forms import divided

            reading, _ = divided(reading, source, test)
        show_plan(source, plan, reading, budget, as_json=as_json)
        return
    folder = out or new_folder(source, plan.method)
    _train(
        source, plan, test=test, folder=folder, save_every=save_every, as_json=as_json,
        budget=budget, **reading,
    )  # fmt: skip


def _resolve(
    source: str | None,
    from_: Path | None,
    method: str | None,
    settings: dict[str, Any],
    test: str | None,
    reading: dict[str, Any],
) -> tuple[Any, Any, str | None, dict[str, Any]]:
    """Plan and sources, as given or as in another run."""
    from abstain.training.plan import Plan
    from abstain.training.recipe import DEFAULT_METHOD, Recipe, check_used, with_seeds

    if from_ is None:
        return Recipe.of(method or DEFAULT_METHOD, **settings).plan(), source, test, reading
    if method is not None:
        raise AbstainError(
            "keeps the method of its run",
            argument="from_",
            remedy="leave {method} out, or name SOURCE instead",
            method=None,
        )
    from abstain.data.source import Source
    from abstain.training.saving.run_folder import RunFolder

    metadata = RunFolder(from_).metadata()
    saved = Source.found_again(metadata["sources"])
    if saved.train is None:
        raise AbstainError(f"{from_} was trained on data in memory, which cannot be loaded again")
    if metadata["plan"]["model"] is None and "model" not in settings:
        raise AbstainError(
            f"{from_} was trained with a module of another program",
            remedy="choose a model by {model}",
            model=None,
        )
    if "model" in settings:  # which learns from the inputs themselves, unless both are given
        settings = {"backbone": "auto", **settings}
    tuned = bool(metadata["plan"].get("finetune"))
    if settings.get("finetune", tuned) != tuned:
        settings = {"model": None, **settings}  # it was one for what the other learns from
    settings = with_seeds(settings)
    plan = Plan.from_json({**metadata["plan"], **settings})
    check_used(plan, settings)
    return plan, saved.train, test or saved.test, {**saved.options, **reading}


def _train(
    source: object = None,
    plan: Any = None,  # noqa: ANN401
    *,
    resume: Path | None = None,
    folder: Path | None = None,
    save_every: float,
    as_json: bool,
    **arguments: Any,  # noqa: ANN401
) -> None:
    place = resume or folder
    assert place is not None
    with training("train", place, save_every=save_every, as_json=as_json):
        from abstain.training.train import train as run

        arguments |= {"show": not as_json, "save_every": save_every}
        trained = run(source, plan, folder=place, resume=resume is not None, **arguments)
    if not is_to_print():
        return
    summary = {**trained.summary(), "folder": str(place)}
    if as_json:
        typer.echo(json.dumps(summary))
        return
    console = Console(highlight=False)
    console.print(f"Done: {trained.outcome}.", soft_wrap=True)
    if trained.encoder.backbone_used:
        console.print(
            f"  {'backbone':<42} {trained.encoder.backbone_used}", soft_wrap=True, markup=False
        )
    bets = trained.plan.loss == "gamblers"  # other losses have no reserve
    for name, text in _FIGURES.items():
        if name in summary and (bets or name != "stake"):
            console.print(f"  {text:<42} {_percent(summary[name]):>7}")
    if trained.finetuning:
        console.print(f"  {'fine-tuning':<42} {trained.finetuning.reason}", soft_wrap=True)
    for line in (
        f"  {'the run, its model and its history':<42} {place}",
        f"Use it: abstain predict {quote(str(place))} SOURCE --output predictions.csv",
    ):
        console.print(line, soft_wrap=True, markup=False)


_FIGURES = {
    "test_accuracy": "test accuracy",
    "validation_accuracy": "agreement with held-out labels",
    "train_accuracy": "agreement with the given training labels",
    "stake": "mean stake, what is not kept in reserve",
}


def _percent(share: float) -> str:
    """A share in per cent, with a decimal; a tiny one with two digits that are not zero.

    >>> _percent(0.9407), _percent(0.0), _percent(0.000_012_3)
    ('94.1%', '0.0%', '0.0012%')
    """
    percent = 100 * share
    if percent == 0 or percent >= 1:
        return f"{percent:.1f}%"
    return f"{Decimal(f'{percent:.1e}'):f}%" if percent >= 1e-6 else f"{percent:.1e}%"


def _number_or_rule(payoff: str | None) -> float | str | None:
    try:
        return None if payoff is None else float(payoff)
    except ValueError:
        return payoff
