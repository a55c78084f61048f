"""`abstain audit`: how many labels are wrong, which, and what they should be."""

import json
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from abstain.cli import options
from abstain.cli.options import RUN, TRAINING, options_given
from abstain.cli.process import is_main_process
from abstain.cli.running import feature_option, is_to_print, new_folder, show_plan, training
from abstain.errors import AbstainError

if TYPE_CHECKING:
    from abstain.auditing.result import Audit

# Narrow enough for 80 columns; a blank line keeps examples apart in every release of typer.
EXAMPLES = """
[bold]Examples[/]

  abstain audit photos/                       a sub-folder for each class

  abstain audit reviews.csv --label stars     texts or numbers in a table

  abstain audit photos/ --backbone timm:vit_base_patch14_dinov2

  abstain audit photos/ --features clip.npy   embeddings of your own

  abstain audit digits --flip 0.2             a demo, with planted errors

  abstain audit --resume audits/photos-…      go on after Ctrl-C or a crash

  abstain audit --resume audits/photos-… --reviewed checked.csv
"""


def audit(
    source: options.Source = None,
    label: options.Label = None,
    features: options.Features = None,
    ignore: options.Ignore = None,
    data_dir: options.DataDir = None,
    skip_bad: options.SkipBad = False,
    image_size: options.ImageSize = None,
    flip: options.Flip = None,
    flip_kind: options.FlipKind = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="How to train: see abstain train --help; auto by default.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(help="Noise rate, which --method aes needs.", rich_help_panel=TRAINING),
    ] = None,
    backbone: options.Backbone = None,
    finetune: options.Finetune = None,
    budget: options.Budget = None,
    augment: options.Augment = None,
    model: options.Model = None,
    epochs: options.Epochs = None,
    batch: options.Batch = None,
    learning_rate: options.LearningRate = None,
    precision: options.Precision = None,
    seed: options.Seed = None,
    test: Annotated[
        str | None,
        typer.Option(
            help="Test set in which to look for samples of SOURCE; its own test split by default.",
            rich_help_panel=options.DATA,
        ),
    ] = None,
    check: Annotated[
        list[str] | None,
        typer.Option(
            help="Other data issues to look for, with commas: duplicates, outliers, imbalance, "
            "groups, images, empty, columns; labels for none. Default: all; above 50,000 samples "
            "(500,000 with a GPU) those that need no search for neighbours.",
            rich_help_panel=options.DATA,
        ),
    ] = None,
    reviewed: Annotated[
        Path | None,
        typer.Option(
            help="With --resume: labels that somebody checked, a CSV or Parquet file with the "
            "columns id and checked_label, as abstain sample writes it (unsure or drop go into the "
            "column unsure_or_drop), or JSON of Label Studio.",
            rich_help_panel=RUN,
        ),
    ] = None,
    check_now: Annotated[
        bool,
        typer.Option(
            "--check-now",
            help="Afterwards check a random sample, one key each, which measures the noise rate: "
            "abstain verify.",
            rich_help_panel=RUN,
        ),
    ] = False,
    out: options.Out = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Folder of an audit to continue or to add --reviewed labels to, or of a finished "
            "training to audit.",
            rich_help_panel=RUN,
        ),
    ] = None,
    save_every: options.SaveEvery = options.SAVE_EVERY,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Find the wrong labels of a data set by training on it once.

    You need to know nothing about the labels. The audit writes a folder: a report to read
    (report.html), every label with its score, the worst first (issues.csv, issues.parquet), and
    the model.
    """
    settings = options_given(
        rate=rate, backbone=backbone, model=model, epochs=epochs, batch=batch, precision=precision,
        finetune=finetune, augment=augment, learning_rate=learning_rate,
        flip=flip, flip_kind=flip_kind,
        seed=seed,
    )  # fmt: skip
    reading = options_given(
        label=label, features=feature_option(features), ignore=ignore, data_dir=data_dir,
        image_size=image_size, skip_bad=skip_bad or None,
    )  # fmt: skip
    if check_now and as_json:
        raise AbstainError(
            "asks a person, so it does not go with --json",
            argument="check_now",
            remedy="leave out {as_json}",
            as_json=None,
        )
    if (source is None) == (resume is None):
        raise AbstainError("give one of SOURCE and --resume AUDIT; see abstain audit --help")
    if reviewed is not None and resume is None:
        raise AbstainError(
            "needs an audit that exists already",
            argument="reviewed",
            remedy="name its folder with {resume}",
            resume=None,
        )
    if resume is not None:
        if settings or reading or out or method or dry_run or check or test or budget:
            raise AbstainError(
                "takes all settings from its folder",
                argument="resume",
                remedy="give nothing else but {reviewed}, {save_every} and {as_json}",
                reviewed=None,
                save_every=None,
                as_json=None,
            )
        from abstain.auditing.folder import AuditFolder
        from abstain.review.sharing import share_decisions

        share_decisions(resume)  # what was decided on the page counts as well
        answers: Any = reviewed
        if reviewed is not None and reviewed.suffix.lower() == ".json":
            from abstain.exporting.label_studio import read_label_studio

            answers = read_label_studio(reviewed)
        again: dict[str, Any] = {"resume": True, "reviewed": answers}
        if AuditFolder(resume).is_finished:
            if is_main_process():  # nothing is trained: one process is enough
                _write(None, None, resume, as_json=as_json, **again)
            _check_now(resume, check_now)
            return
        _audit(None, None, resume, save_every=save_every, as_json=as_json, **again)
        _check_now(resume, check_now)
        return
    from abstain.training.recipe import DEFAULT_METHOD, Recipe

    recipe = Recipe.of(method or DEFAULT_METHOD, **settings)
    if dry_run:
        show_plan(source, recipe.plan().until_settled(), reading, budget, as_json=as_json)
        return
    folder = out or new_folder(source, "audit", "audits")
    names = None if check is None else [x.strip() for x in ",".join(check).split(",")]
    asked: dict[str, Any] = {"check": names, "test": test, "budget": budget, **reading}
    _audit(source, recipe, folder, save_every=save_every, as_json=as_json, **asked)
    _check_now(folder, check_now)


def _check_now(folder: Path, is_asked: bool) -> None:
    if is_asked and is_main_process():
        from abstain.cli.verify import verify

        verify(folder)


def _audit(
    source: str | None,
    recipe: Any,  # noqa: ANN401
    folder: Path,
    *,
    save_every: float,
    as_json: bool,
    **arguments: Any,  # noqa: ANN401
) -> None:
    with training("audit", folder, save_every=save_every, as_json=as_json):
        _write(source, recipe, folder, as_json=as_json, save_every=save_every, **arguments)


def _write(
    source: str | None,
    recipe: Any,  # noqa: ANN401
    folder: Path,
    *,
    as_json: bool,
    **arguments: Any,  # noqa: ANN401
) -> None:
    """Audit, write the report, and print what was found."""
    from abstain.auditing.audit import audit as run
    from abstain.report import write_report

    result = run(source, recipe, folder=folder, show=not as_json, **arguments)
    if result.ran is not None and not is_to_print():
        return
    report = folder / "report.html"
    write_report(result, report)
    if as_json:
        typer.echo(json.dumps({**result.summary(), "folder": str(folder)}))
        return
    _print(result, report, arguments.get("check") or ())


def _without_proposal(result: "Audit") -> str:
    number = result.findings.without_proposal
    return f", {number:,} of them without a proposal: no other class is likelier" if number else ""


def _near(checks: Sequence[str]) -> str:
    """Checks that need neighbours: what is identical is found without them."""
    return ", ".join(checks).replace("duplicates", "near duplicates")


def _print(result: "Audit", report: Path, asked: Sequence[str]) -> None:
    from abstain.auditing.faults import TOO_MANY
    from abstain.report.headline import likely_rate, rate_in_words, replaced_estimate
    from abstain.report.numbers import count, expectation, percent
    from abstain.support.wording import many

    console = Console(highlight=False)
    known, likely = result.is_known, likely_rate(result.findings)
    console.print(
        f"[bold]{rate_in_words(result.findings)}[/] of {many(len(result.labels), 'label')} are "
        f"wrong{f', most likely {likely}' if likely else ''} "
        f"({'' if known else f'{result.confidence:.0%} interval, '}{result.basis}).",
        soft_wrap=True,
    )
    expected = result.findings.expected_wrong(result.budget)
    lines = {}
    if result.run and result.run.backbone:
        lines["backbone"] = result.run.backbone
    if result.run and result.run.finetuning:
        lines["fine-tuning"] = result.run.finetuning
    lines |= {
        "labels flagged": count(result.flagged) + _without_proposal(result),
        f"of the {count(result.budget)} worst, estimated to be wrong": expectation(expected),
    }
    findings = result.findings
    if estimated := replaced_estimate(findings):
        lines["measured, no longer estimated; the estimate was"] = estimated
    if result.answers.by_id:
        lines["labels reviewed"] = f"{findings.reviewed:,}, {findings.found_wrong:,} of them wrong"
        without = {"unsure": findings.unsure, "dropped": findings.dropped}
        lines |= {f"labels {word}": count(number) for word, number in without.items() if number}
        lines["wrong labels left among the others"] = expectation(findings.left_wrong)
    if findings.measured and findings.halved_by:
        more = count(findings.halved_by)
        lines["more checked labels that would halve the interval"] = more
    if result.labels.skipped:
        lines["left out as unreadable"] = count(len(result.labels.skipped))
    if len(result.duplicates):
        lines["identical samples with different labels, groups"] = count(len(result.duplicates))
    issues = result.checks.summary if result.checks else {}
    if others := [f"{n:,} {name.replace('_', ' ')}" for name, n in issues.items() if n]:
        lines["other issues (in issues.parquet)"] = ", ".join(others)
    if result.checks and (names := result.checks.unchecked()):
        lines["skipped: no features"] = _near(names)
    if result.checks and (names := result.checks.unchecked(TOO_MANY)):
        lines["skipped: too many samples"] = f"{_near(names)}: --check {','.join(names)} does it"
    skipped = result.checks.skipped if result.checks else {}
    shown = result.checks.unchecked() if result.checks else ()
    if others := [f"{x}: {skipped[x]}" for x in asked if x in skipped and x not in shown]:
        lines["skipped"] = ", ".join(others)  # who did not ask does not miss it
    for name, value in lines.items():
        console.print(f"  {name:<48} {value}", soft_wrap=True)
    planted = None if known else result.planted
    if result.detection is not None and planted is not None:
        detection = result.detection
        worst = int(planted[result.order[: result.budget]].sum())
        console.print(
            f"{many(int(planted.sum()), 'error')} had been planted, "
            f"{percent(float(planted.mean()))} of the labels; "
            "the audit was not told which. Errors already in the data count as correct here:",
            soft_wrap=True,
        )
        truth = {
            "flagged labels that are wrong": percent(detection.precision),
            "wrong labels that are flagged": percent(detection.recall),
            f"of the {count(result.budget)} worst, really wrong": count(worst),
            "wrong ranked before right (AUROC)": f"{detection.auroc:.4f}",
            "average precision": f"{detection.average_precision:.4f}",
        }
        for name, value in truth.items():
            console.print(f"  {name:<48} {value}", soft_wrap=True)
    if result.checks and result.checks.leakage:
        console.print(f"[bold]Data leakage[/]: {result.checks.leakage}", soft_wrap=True)
    console.print(f"Report: {report}", soft_wrap=True, markup=False)
    folder = quote(str(report.parent))
    if result.flagged:
        console.print(
            f"Go through the flagged labels: abstain review {folder}",
            soft_wrap=True,
            markup=False,
        )
    for one in result.checks.giveaways if result.checks else ():
        console.print(
            f"The column {one.column} alone gives the label away: if it is not known before the "
            f"label is, leave it out with --ignore {quote(one.column)}",
            soft_wrap=True,
            markup=False,
        )
    if result.caution:
        console.print(result.caution, soft_wrap=True, markup=False)
