"""The audit: data in, verdict out. One training run tells how many labels are wrong, and which.

source ──▶ train ──▶ ledger ──▶ evidence ──▶ P(label is wrong) ──▶ noise rate, flags, budgets
                     (what the training saw of each sample)

On small sets with features, leave-one-out predictions take the place of the ledger.
"""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt
import torch

from abstain.arguments import typed
from abstain.auditing.answers import Answer, Answers, read_answers
from abstain.auditing.faults import check_names, faults_of
from abstain.auditing.findings import Findings
from abstain.auditing.folder import AuditFolder
from abstain.auditing.out_of_sample import evidence_and_held_out
from abstain.auditing.probabilities import from_probabilities
from abstain.auditing.result import Audit
from abstain.auditing.run import Run
from abstain.data.features import are_numbers
from abstain.data.identity import fingerprints
from abstain.data.inputs import release
from abstain.data.source import Source
from abstain.errors import AbstainError
from abstain.scores.summaries import disagreeing_duplicates
from abstain.support.progress import with_progress
from abstain.training.plan import Plan
from abstain.training.recipe import Recipe
from abstain.training.saving.run_folder import RunFolder
from abstain.training.sources import (
    check_options,
    plan_for,
)

if TYPE_CHECKING:
    from abstain.training.trained import Trained


@typed("recipe", "model", "probabilities")
@with_progress
def audit(
    source: object = None,
    recipe: Recipe | Plan | None = None,
    *,
    method: str | None = None,
    features: object = None,
    probabilities: npt.ArrayLike | None = None,
    model: torch.nn.Module | None = None,
    backbone: str | None = None,
    finetune: bool | None = None,
    budget: float | str | None = None,
    test: object = None,
    check: Sequence[str] | None = None,
    reviewed: Mapping[str, str | Answer] | str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    show: bool = False,
    save_every: float = 60.0,
    **options: Any,  # noqa: ANN401
) -> Audit:
    """Train once, estimate how many labels are wrong, and rank them worst first.

    Args:
        source: What `abstain.data.load` takes: a name, a path, arrays, a DataFrame, a data set.
        recipe: How to train; by default all is chosen from the data. Its `flip` plants known
            errors, and the verdict is then compared with them. By the default method, training
            ends early where more epochs would hardly change the order of the labels.
        method: Instead of a recipe, the name of a method with its defaults.
        features: Numbers to train on instead of the source's own inputs, such as embeddings: an
            array (samples, columns) or the name of an `.npy`, in the order of a table's rows or of
            the paths of an image folder; or the feature columns of a table.
        probabilities: Out-of-sample probabilities (samples, classes) that you have already, for
            example from cross-validation: nothing is trained then. Classes are in sorted order,
            as in scikit-learn, or named by the columns of a DataFrame.
        model: A torch classifier of your own, as for `abstain.train`.
        backbone: The pretrained network for images and texts, as for
            `abstain.train`; `auto` by default.
        finetune: Whether the backbone is trained too, as for `abstain.train`; by default that of
            images, where that is better on held-out labels, and the budget allows it.
        budget: Time for the training, features included: seconds, or a text such as "10m", as for
            `abstain.train`.
        test: A test set, for the training curves, and to find samples that stand in both; by
            default the test split of the source, where it has one.
        check: What else to look for: names of `abstain.checks.check.ALL` (duplicates, outliers, …);
            `["labels"]` for nothing else. By default everything, but of more than 50,000 samples
            (500,000 with a GPU) only what needs no search for neighbours.
        reviewed: Labels of the audit in `folder` that somebody checked: the class of each sample by
            id, or a CSV or Parquet file with the columns `id` and `checked_label`; with `resume`.
            See `Audit.with_reviewed`.
        folder: Where to keep the run and the verdict; new or empty.
        resume: Go on with the audit in `folder`. Once it is finished, nothing is trained, loaded or
            checked again: new answers, also those of the review page, give a new verdict.
        show: Show progress: bars on a terminal, a line a minute in a log.
        save_every: Seconds between checkpoints within an epoch.
        **options: For `abstain.data.load`: `label`, `data_dir`, `skip_bad`, …

    Returns:
        `noise_rate` with its interval; `issues`, a table of every
        label, the worst first; `model`; and all that these were made from.

    >>> found = audit("digits", Recipe(epochs=3, warm_up=1, flip=0.2))
    >>> found.issues.column_names[:4]
    ['id', 'is_label_issue', 'label_score', 'given_label']
    """
    began = time.monotonic()
    if not isinstance(recipe, Recipe | Plan | None):
        raise AbstainError(
            f"must be a Recipe, such as Recipe.of('auto'), got {recipe!r}",
            argument="recipe",
            remedy="the name of a method is given as {method}",
            method=None,
        )
    if recipe is not None and method is not None:
        raise AbstainError(f"recipe and method exclude each other: give one, got {method!r} too")
    check_options(audit, options)
    if reviewed is not None and not resume:
        raise AbstainError(
            "needs an audit that exists already",
            argument="reviewed",
            remedy="give {resume} with its folder, or call with_reviewed on what audit returned; "
            "labels that were corrected since are new data",
            resume=True,
        )
    if isinstance(reviewed, str | os.PathLike):
        reviewed = read_answers(reviewed)  # before anything is trained
    check_names(check)
    if features is not None:
        options["features"] = features
    named = Source(source, test, options)
    kept = None if folder is None else AuditFolder(folder)
    if resume and kept is not None and check is None and kept.is_finished:
        return _with_new_answers(kept, named, reviewed)
    trained = None
    if probabilities is None:
        chosen = plan_for(recipe, method, finetune=finetune).until_settled()
        settings: dict[str, Any] = {"folder": folder, "model": model, "resume": resume}
        settings |= {"backbone": backbone, "budget": budget}
        settings |= {"save_every": save_every}
        trained, sources = _train(named, chosen, settings)
        seen, test_data = trained.data, trained.test
        evidence, held_out = evidence_and_held_out(trained)
    else:
        numbers = features if are_numbers(features) else None
        of_training = {"recipe": recipe, "method": method, "model": model, "features": numbers}
        of_training |= {"finetune": finetune, "budget": budget}
        _check_trainless({**of_training, "resume": resume or None}, folder)
        seen, test_data = named.load()
        evidence, held_out = from_probabilities(probabilities, seen)
        sources = named.saved()
    # By what was trained on: what is only shown need not even be there.
    prints, data, given = fingerprints(seen), seen.as_shown, seen.given.numpy()
    answers = Answers() if kept is None else kept.answers()
    sample = None if kept is None else kept.sample(data.ids)
    result = Audit(
        labels=data,
        findings=Findings.knowing(answers, evidence, given, data.classes, data.ids, sample),
        duplicates=disagreeing_duplicates(prints, given),
        run=None if trained is None else Run.of(trained),
        ran=trained,
        held_out=held_out,
        sources=sources,
        seconds=time.monotonic() - began,
        folder=None if folder is None else Path(folder),
        answers=answers,
        # True labels may be looked at only where they are the labels before errors were planted.
        is_planted=bool(trained and trained.plan.flip and data.true is not None),
        test=None if test_data is None else test_data.as_shown,
    )
    if reviewed is not None:
        result = result.with_reviewed(reviewed)
    if _is_to_write(trained):
        checks = faults_of(data, trained, result.verdict, check, test_data, prints)
        duplicates = result.duplicates
        # Where something else is shown than seen, that may be missing, and tells nothing here.
        if checks is not None and "null" in checks.issues and seen.shown is None:
            duplicates = duplicates.without(checks.columns["is_null_issue"])
        seconds = time.monotonic() - began
        result = replace(result, checks=checks, duplicates=duplicates, seconds=seconds)
        if folder is not None:
            result.write(folder)
    release(data, test_data)
    return result


def _with_new_answers(
    kept: AuditFolder, source: Source, reviewed: Mapping[str, str | Answer] | None
) -> Audit:
    """Take new answers into a finished audit: from its folder, without data, model or training."""
    result = Audit.read(kept, None if source.train is None else source.load()[0])
    if reviewed is not None:
        result = result.with_reviewed(reviewed)
    result.write(kept.folder)
    return result


def _train(
    source: Source, plan: Plan, settings: Mapping[str, Any]
) -> tuple["Trained", Mapping[str, Any]]:
    """The training, and where its data came from."""
    from abstain.training.train import train

    trained = train(source.train, plan, test=source.test, **{**settings, **source.options})
    if trained.folder is not None:
        source = Source.found_again(trained.folder.metadata()["sources"])
    return trained, source.saved()


def _check_trainless(
    of_training: Mapping[str, object], folder: str | os.PathLike[str] | None
) -> None:
    """Given probabilities nothing is trained: settings of a training would have no effect."""
    if wrong := [name for name, value in of_training.items() if value is not None]:
        raise AbstainError(
            f"probabilities leave nothing to train: leave out {', '.join(wrong)}, or probabilities"
        )
    if folder is not None:
        RunFolder(folder).check_new()


def _is_to_write(trained: "Trained | None") -> bool:
    """Whether this process writes: of several that train together, only the main one does."""
    if trained is None:
        return True
    from accelerate import PartialState

    return bool(PartialState().is_main_process)
