"""The audit: data in, verdict out. One training run says how many labels are wrong, and which.

    source ──▶ train ──▶ ledger ──▶ label scores ──▶ share of wrong labels ──▶ which ones
                         (what the training saw of each sample)

An audit's folder is that of its run (recipe, model, history, ledger) with the verdict beside:
issues.parquet and issues.csv (every label, the worst first), weights.parquet (how probable it is
that a label is right), summary.json (written last: a folder that has it is whole) and report.html,
which `abstain.report` adds.
"""

import itertools
import json
import math
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from abstain.data import LabeledData, load
from abstain.data.cache import publish
from abstain.data.fingerprints import fingerprints
from abstain.data.given_features import is_feature_file, with_features
from abstain.data.require import require
from abstain.errors import AbstainError
from abstain.scores.detection import Detection, detection
from abstain.scores.label_quality import (
    Duplicates,
    LabelQuality,
    PairSummary,
    disagreeing_duplicates,
    label_quality,
    label_quality_from_probabilities,
    pair_summary,
)
from abstain.scores.noise_rate import Interval, NoiseEstimate, estimate_noise
from abstain.train.folder import RunFolder
from abstain.train.recipe import DEFAULT_METHOD, Recipe
from abstain.train.run import Trained, remembered, train

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 1
COLUMNS = (
    "id",
    "is_label_issue",
    "label_score",
    "given_label",
    "predicted_label",
    "confidence",
    "abstention",
)
BUDGET = 100
"""Labels that a person may want to look at first, in an hour."""

# Beyond this many classes a matrix is no longer for people, and summary.json is.
_SHOWN_CLASSES = 100
_SHOWN_PAIRS = 50


@dataclass(frozen=True, kw_only=True, repr=False)
class Audit:
    """The verdict on the labels of a data set."""

    data: LabeledData
    """What was audited, with planted errors where the recipe asked for them."""
    quality: LabelQuality
    estimate: NoiseEstimate
    duplicates: Duplicates
    detection: Detection | None
    """How much of the verdict is right, known only for errors planted on purpose."""
    trained: Trained | None
    """The training; None where probabilities were given."""
    sources: Mapping[str, Any]
    """Where the data came from, as far as it can be said in words; None for data in memory."""
    seconds: float
    folder: Path | None

    def __repr__(self) -> str:
        """The verdict in a line: a notebook would print every label."""
        rate = self.noise_rate
        return (
            f"<Audit of {self.data.name}: {rate.value:.1%} of {len(self.data):,} labels wrong "
            f"(95% interval {rate.low:.1%} to {rate.high:.1%}), {self.flagged:,} flagged>"
        )

    @property
    def noise_rate(self) -> Interval:
        """Share of wrong labels, with its 95% interval."""
        return self.estimate.rate

    @property
    def model(self) -> torch.nn.Module | None:
        """The trained model; None where probabilities were given."""
        return self.trained.model if self.trained else None

    @property
    def given(self) -> npt.NDArray[np.int64]:
        """The given label of each sample, as a class index."""
        return self.data.given.numpy()

    @property
    def flagged(self) -> int:
        """How many labels should be looked at."""
        return int(self.estimate.is_label_issue.sum())

    @property
    def budget(self) -> int:
        """How many of the worst labels the expectation in the summary is for."""
        return min(BUDGET, len(self.data))

    @property
    def budgets(self) -> list[int]:
        """Budgets to choose from: 10, 20, 50, 100, … up to all that are estimated to be wrong."""
        most = max(self.budget, math.ceil(self.noise_rate.value * len(self.data)))
        steps = (digit * 10**power for power in range(1, 20) for digit in (1, 2, 5))
        return [*itertools.takewhile(lambda size: size < most, steps), most]

    @property
    def planted(self) -> npt.NDArray[np.bool_] | None:
        """Which labels were made wrong on purpose; None where none were."""
        if self.detection is None or self.data.true is None:
            return None
        planted: npt.NDArray[np.bool_] = self.given != self.data.true.numpy()
        return planted

    @cached_property
    def order(self) -> npt.NDArray[np.int64]:
        """Indices of all samples, the worst label first."""
        return self.quality.worst_first()

    @cached_property
    def pairs(self) -> PairSummary:
        """Which class is taken for which among the flagged labels, the most frequent first."""
        return pair_summary(self.quality, self.given, self.estimate.is_label_issue)

    @cached_property
    def issues(self) -> "pa.Table":
        """Every label, the worst first: id, is_label_issue, label_score, given_label, …."""
        pa = require("pyarrow", "the table of issues")
        order, names = self.order, pa.array(self.data.classes, pa.string())
        columns = {
            "id": pa.array(self.data.ids[:], pa.string()).take(order),
            "is_label_issue": self.estimate.is_label_issue[order],
            "label_score": self.quality.label_score[order],
            "given_label": names.take(self.given[order]),
            "predicted_label": names.take(self.quality.predicted_label[order]),
            "confidence": self.quality.confidence[order],
            "abstention": self.quality.abstention[order],
        }
        return pa.table({name: columns[name] for name in COLUMNS})

    def summary(self) -> dict[str, Any]:
        """The verdict in plain values, for summary.json and for machines."""
        classes = self.data.classes
        counts = np.bincount(self.given, minlength=len(classes)).tolist()
        flagged = np.bincount(
            self.given[self.estimate.is_label_issue], minlength=len(classes)
        ).tolist()
        pairs = zip(*(x[:_SHOWN_PAIRS].tolist() for x in self._pair_columns()), strict=True)
        summary: dict[str, Any] = {
            "format": FORMAT,
            "kind": "audit",
            "name": self.data.name,
            "inputs": self.data.kind,
            "sources": dict(self.sources),
            "samples": len(self.data),
            "classes": list(classes),
            "noise_rate": _plain(self.noise_rate),
            "flagged": self.flagged,
            "budget": self.budget,
            "expected_wrong": _plain(self.estimate.expected_wrong(self.budget)),
            "budgets": [
                {"budget": size, "expected_wrong": _plain(self.estimate.expected_wrong(size))}
                for size in self.budgets
            ],
            "per_class": [
                {"class": name, "samples": n, "flagged": k, "wrong": _plain(rate)}
                for name, n, k, rate in zip(
                    classes, counts, flagged, self.estimate.per_class, strict=True
                )
            ],
            "pairs": [
                {"given": classes[i], "predicted": classes[j], "count": n} for i, j, n in pairs
            ],
            "disagreeing_duplicates": len(self.duplicates),
            "seconds": round(self.seconds, 3),
        }
        if len(classes) <= _SHOWN_CLASSES:
            summary["transition"] = self.estimate.transition.round(6).tolist()
        if self.trained:
            summary["method"] = self.trained.recipe.method
            summary["training"] = self.trained.summary()
        if self.detection and (planted := self.planted) is not None:
            worst = int(planted[self.order[: self.budget]].sum())
            summary["detection"] = {**self.detection.as_json(), "wrong_among_worst": worst}
        return summary

    def _pair_columns(self) -> tuple[npt.NDArray[np.int64], ...]:
        return self.pairs.given, self.pairs.predicted, self.pairs.count

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write the tables and, last, summary.json; each whole or not at all."""
        pa = require("pyarrow", "writing issues")
        csv = require("pyarrow.csv", "writing issues")
        parquet = require("pyarrow.parquet", "writing issues")
        place, table = Path(folder), self.issues
        right = 1 - self.estimate.wrong_probability.astype(np.float64)
        weights = pa.table({"id": pa.array(self.data.ids[:], pa.string()), "weight": right})
        text = json.dumps(self.summary(), indent=2, default=str) + "\n"
        with RunFolder(place).writing():
            publish(place / "issues.parquet", lambda path: parquet.write_table(table, path))
            publish(place / "issues.csv", lambda path: csv.write_csv(table, path))
            publish(place / "weights.parquet", lambda path: parquet.write_table(weights, path))
            publish(place / "summary.json", lambda path: _write_text(path, text))


@dataclass(frozen=True, kw_only=True, repr=False)
class SavedAudit:
    """What a finished audit left in its folder."""

    folder: Path
    summary: Mapping[str, Any]
    issues: "pa.Table"
    """Every label, the worst first."""
    weights: "pa.Table"
    """How probable it is that a label is right, in the order of the source."""

    def __repr__(self) -> str:
        """Without its tables."""
        return f"<SavedAudit {self.folder}: {len(self.issues):,} labels>"

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> "SavedAudit":
        """Read an audit's folder, or say what is wrong with it."""
        parquet = require("pyarrow.parquet", "reading an audit")
        place = Path(folder)
        try:
            text = (place / "summary.json").read_text(encoding="utf-8")
            summary = json.loads(text)
        except (OSError, ValueError) as error:
            if (place / "run.json").exists():
                raise AbstainError(
                    f"{folder} must be a finished audit, but has no verdict yet; go on with: "
                    f"abstain audit --resume {folder}"
                ) from None
            raise AbstainError(
                f"audit must be the folder of an audit, got {folder}: {error}"
            ) from error
        if not isinstance(summary, dict) or summary.get("kind") != "audit":
            raise AbstainError(
                f"audit must be the folder of an audit, got {folder}, which is that of a training; "
                "run: abstain audit SOURCE"
            )
        if summary.get("format") != FORMAT:
            raise AbstainError(
                f"{place / 'summary.json'} must be of format {FORMAT}; it is of another version "
                "of abstain"
            )
        try:
            issues = parquet.read_table(place / "issues.parquet")
            weights = parquet.read_table(place / "weights.parquet")
        except (OSError, ValueError) as error:  # Arrow's own errors are of these kinds
            raise AbstainError(f"{folder} must be whole, got: {error}") from error
        return cls(folder=place, summary=summary, issues=issues, weights=weights)

    def load(self) -> LabeledData:
        """The data that were audited, from where they came; without what was planted."""
        sources = self.summary["sources"]
        if sources["train"] is None:
            raise AbstainError(
                f"{self.folder} is an audit of data in memory, which cannot be loaded again: "
                "save them to a file and audit that, or export to csv or parquet"
            )
        options = _as_tuples(sources)
        if is_feature_file(options.get("features")):
            options = {**options, "features": None, "to_show": True}
        data = load(sources["train"], **options)
        if set(data.ids) != set(self.issues.column("id").to_pylist()):
            raise AbstainError(
                f"{sources['train']} must hold the samples that were audited, got others: "
                "audit it again"
            )
        return data


def audit(
    source: object = None,
    recipe: Recipe | None = None,
    *,
    method: str | None = None,
    features: object = None,
    probabilities: npt.ArrayLike | None = None,
    model: torch.nn.Module | None = None,
    test: object = None,
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    show: bool = False,
    save_every: float = 60.0,
    **options: Any,  # noqa: ANN401
) -> Audit:
    """Train once, estimate how many labels are wrong, and rank them worst first.

    Args:
        source: What `abstain.data.load` takes: a name, a path, arrays, a DataFrame, a data set.
        recipe: How to train; nothing has to be said. Its `flip` plants known errors, and the
            verdict is then compared with them. By the default method, training ends before all
            epochs are done where more would hardly change the order of the labels.
        method: Instead of a recipe, the name of a method with its defaults.
        features: Numbers to train on instead of the source's own inputs, such as embeddings: an
            array (samples, columns) or the name of an `.npy`; or the feature columns of a table.
        probabilities: Out-of-sample probabilities (samples, classes) that you have already, from
            cross-validation say: nothing is trained then.
        model: A torch classifier of your own, as for `abstain.train`.
        test: A source whose labels are right, for the training curves only.
        folder: Where to keep the run and the verdict; new or empty.
        resume: Go on with the audit in `folder`.
        show: Show progress, where there is a terminal.
        save_every: Seconds between checkpoints within an epoch.
        **options: For `abstain.data.load`: `label`, `data_dir`, `skip_bad`, …

    Returns:
        `noise_rate`, the share of wrong labels with its interval; `issues`, a table of every
        label, the worst first; `model`; and all that these were made from.

    >>> found = audit("digits", Recipe(epochs=3, warm_up=1, flip=0.2))
    >>> found.issues.column_names[:4]
    ['id', 'is_label_issue', 'label_score', 'given_label']
    """
    began = time.monotonic()
    if recipe is not None and method is not None:
        raise AbstainError(f"recipe and method exclude each other: give one, got {method!r} too")
    if features is not None:
        options["features"] = features
    sources: Mapping[str, Any] = {"train": source, "test": test, "options": options}
    trained = None
    if probabilities is None:
        chosen = (recipe or Recipe.of(method or DEFAULT_METHOD)).until_settled()
        settings = {"folder": folder, "model": model, "resume": resume, "show": show}
        trained, data, sources = _train(sources, chosen, {**settings, "save_every": save_every})
        quality = label_quality(trained.ledger, data.given.numpy(), trained.held_out)
    else:
        numbers = None if _are_columns(features) else features
        said = {"recipe": recipe, "method": method, "model": model, "features": numbers}
        _check_trainless({**said, "resume": resume or None}, folder)
        data = _load(sources)
        given = data.given.numpy()
        quality = label_quality_from_probabilities(_checked(probabilities, data), given)
        sources = remembered(sources)
    return _verdict(data, quality, trained, sources, folder, began)


def _verdict(
    data: LabeledData,
    quality: LabelQuality,
    trained: Trained | None,
    sources: Mapping[str, Any],
    folder: str | os.PathLike[str] | None,
    began: float,
) -> Audit:
    """From label scores to a judgement of every label."""
    given = data.given.numpy()
    estimate = estimate_noise(quality, given, data.num_classes)
    found = None
    # True labels may be looked at only where they are the labels before errors were planted.
    if trained and trained.recipe.flip and data.true is not None:
        wrong = given != data.true.numpy()
        found = detection(quality.label_score, estimate.is_label_issue, wrong)
    result = Audit(
        data=data,
        quality=quality,
        estimate=estimate,
        # By what was trained on: what is only shown need not even be there.
        duplicates=disagreeing_duplicates(fingerprints(trained.data if trained else data), given),
        detection=found,
        trained=trained,
        sources=sources,
        seconds=time.monotonic() - began,
        folder=None if folder is None else Path(folder),
    )
    if folder is not None and _speaks_for_all(trained):
        result.write(folder)
    return result


def _train(
    sources: Mapping[str, Any], recipe: Recipe | None, settings: Mapping[str, Any]
) -> tuple[Trained, LabeledData, Mapping[str, Any]]:
    """The training, the data as a person knows them, and where these came from."""
    options = dict(sources["options"])
    features = options.get("features")
    own = None
    if features is not None and not is_feature_file(features) and not _are_columns(features):
        # Numbers in memory: the training sees them, people still see what they are numbers of.
        own = _load({**sources, "options": {**options, "features": None, "to_show": True}})
        sources = {"train": with_features(own, features), "test": sources["test"], "options": {}}
        options = {}
    trained = train(sources["train"], recipe, test=sources["test"], **settings, **options)
    about = trained.folder.about()["sources"] if trained.folder else remembered(sources)
    if own is None and is_feature_file(about["options"].get("features")):
        shown = {**about["options"], "features": None, "to_show": True}
        own = _load({"train": sources["train"] or about["train"], "options": shown})
    if own is None:
        return trained, trained.data, about
    return trained, replace(own, given=trained.data.given, true=trained.data.true), about


def _load(sources: Mapping[str, Any]) -> LabeledData:
    source = sources["train"]
    if source is None:
        raise AbstainError("source must be given, got none")
    return source if isinstance(source, LabeledData) else load(source, **_as_tuples(sources))


def _as_tuples(sources: Mapping[str, Any]) -> dict[str, Any]:
    """The options of sources; JSON has only lists."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in sources["options"].items()}


def _are_columns(features: object) -> bool:
    return isinstance(features, str) or (
        isinstance(features, list | tuple) and all(isinstance(name, str) for name in features)
    )


def _check_trainless(said: Mapping[str, object], folder: str | os.PathLike[str] | None) -> None:
    """Given probabilities there is no training: what would steer one is a misunderstanding."""
    if wrong := [name for name, value in said.items() if value is not None]:
        raise AbstainError(
            f"probabilities leave nothing to train: leave out {', '.join(wrong)}, or probabilities"
        )
    if folder is not None:
        RunFolder(folder).check_new()


def _checked(probabilities: npt.ArrayLike, data: LabeledData) -> npt.NDArray[np.float64]:
    """Probabilities as a user may have them, or what is wrong with them."""
    array = np.asarray(probabilities, dtype=np.float64)
    expected = (len(data), data.num_classes)
    if array.shape != expected:
        raise AbstainError(
            f"probabilities must have the shape (samples, classes), {expected}, got {array.shape}"
        )
    bad = np.flatnonzero(~(np.isfinite(array) & (array >= 0)).all(axis=1))
    if len(bad):
        raise AbstainError(
            f"probabilities must be numbers of 0 or more, got others in {len(bad)} rows, the "
            f"first of them {bad[0]}"
        )
    sums = array.sum(axis=1)
    off = np.flatnonzero(np.abs(sums - 1) > 1e-3)
    if len(off):
        raise AbstainError(
            f"probabilities must sum to 1 in every row, got {sums[off[0]]:g} in row {off[0]} "
            f"({len(off)} such rows)"
        )
    return array


def _speaks_for_all(trained: Trained | None) -> bool:
    """Of several processes that train together, one writes."""
    if trained is None:
        return True
    from accelerate import PartialState

    return bool(PartialState().is_main_process)


def _plain(interval: Interval) -> dict[str, float | None]:
    """As JSON can say it: a class without labels has a share of none."""
    return {name: x if x == x else None for name, x in asdict(interval).items()}


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


class _CallableModule(ModuleType):
    """`abstain.audit` is both this stage of the flow and the verb that users call.

    A function of that name in `abstain` would be replaced by this module as soon as anything
    imports it, so the module itself takes the call.
    """

    def __call__(self, *arguments: Any, **settings: Any) -> Audit:  # noqa: ANN401
        return audit(*arguments, **settings)


sys.modules[__name__].__class__ = _CallableModule
