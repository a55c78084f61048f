"""The record of a run: recipe, seeds, versions, machine, history, final figures."""

import math
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from abstain.training.plan import Plan
from reproduction.runs import Run

BINS = 40
"""Bars of the histograms over [0, 1]."""
_PACKAGES = ("abstain", "torch", "numpy")


class Result(Protocol):
    """The result of an executor for a recipe."""

    @property
    def recipe(self) -> Plan:
        """As it was run."""

    @property
    def epochs(self) -> list[dict[str, float]]:
        """A row per epoch."""

    @property
    def stop_epoch(self) -> float:
        """When it ended, in epochs."""

    @property
    def outcome(self) -> str:
        """Why it ended."""

    @property
    def test_accuracy(self) -> float:
        """Test accuracy of the model at its end, as a share."""

    @property
    def belief(self) -> npt.NDArray[Any] | None:
        """The belief in the given label, per training sample; NaN for what was held out."""

    @property
    def rejection(self) -> npt.NDArray[Any] | None:
        """The abstention output, likewise."""

    @property
    def given(self) -> npt.NDArray[Any] | None:
        """The label that was trained on, likewise."""


@dataclass(frozen=True, kw_only=True)
class Separation:
    """The separation of right from wrong labels by scores of the training samples, at the end."""

    clean: list[int]
    """Samples with a right label per bin of the rejection score, `BINS` of them over [0, 1]."""
    corrupt: list[int]
    clean_median: float
    corrupt_median: float
    rejection_auroc: float
    """AUROC of the rejection score; 0.5 is chance, 1 is perfect."""
    belief_auroc: float
    """AUROC of the belief in the given label."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """A run and what came of it; `test_accuracy` is a share, `history` a list per column."""

    run: Run
    history: dict[str, list[float]]
    stop_epoch: float
    outcome: str
    test_accuracy: float
    separation: Separation | None
    seconds: float
    """Its share of the time that its group took."""
    versions: dict[str, str]
    machine: dict[str, Any]
    by_class: list[float] | None = None
    """Test accuracy of each class at the end."""

    @property
    def name(self) -> str:
        """That of the run."""
        return self.run.name

    def as_json(self) -> dict[str, Any]:
        """As plain values; what is not a number becomes None."""
        values = {**asdict(self), "run": self.run.as_json(), "name": self.name}
        history = {name: [_or_none(x) for x in column] for name, column in self.history.items()}
        return {**values, "history": history}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Record":
        """The record that `as_json` wrote."""
        values = {name: part for name, part in values.items() if name != "name"}
        values["run"] = Run.from_json(values["run"])
        if values["separation"] is not None:
            values["separation"] = Separation(**values["separation"])
        values["history"] = {
            name: [math.nan if x is None else x for x in column]
            for name, column in values["history"].items()
        }
        return cls(**values)


def make_record(run: Run, result: Result, true: torch.Tensor, seconds: float) -> Record:
    """Make the record of a result: scores per sample only as a summary."""
    names = list(dict.fromkeys(name for row in result.epochs for name in row))
    history = {
        name: [float(row.get(name, math.nan)) for row in result.epochs]
        for name in names
        if any(not math.isnan(row.get(name, math.nan)) for row in result.epochs)
    }
    separation = None
    if result.rejection is not None and result.belief is not None and result.given is not None:
        wrong = result.given != true.cpu().numpy()
        seen = ~(np.isnan(result.rejection) | np.isnan(result.belief))  # the others were held out
        if wrong[seen].any() and not wrong[seen].all():
            separation = separate(result.rejection[seen], result.belief[seen], wrong[seen])
    return Record(
        run=run,
        history=history,
        stop_epoch=float(result.stop_epoch),
        outcome=result.outcome,
        test_accuracy=float(result.test_accuracy),
        separation=separation,
        seconds=seconds,
        versions=versions(),
        machine={**machine(), "precision": getattr(result, "precision", result.recipe.precision)},
        by_class=getattr(result, "by_class", None),
    )


def separate(
    rejection: npt.NDArray[Any], belief: npt.NDArray[Any], wrong: npt.NDArray[np.bool_]
) -> Separation:
    """Histograms and AUROC of scores of samples of which some have a wrong label.

    >>> scores = np.array([0.1, 0.2, 0.9])
    >>> separate(scores, 1 - scores, np.array([False, False, True])).rejection_auroc
    1.0
    """
    bins = np.linspace(0, 1, BINS + 1)
    clean, corrupt = rejection[~wrong], rejection[wrong]
    return Separation(
        clean=np.histogram(clean.clip(0, 1), bins)[0].tolist(),
        corrupt=np.histogram(corrupt.clip(0, 1), bins)[0].tolist(),
        clean_median=float(np.median(clean)),
        corrupt_median=float(np.median(corrupt)),
        rejection_auroc=_auroc(rejection, wrong),
        belief_auroc=_auroc(-belief, wrong),
    )


def versions() -> dict[str, str]:
    """Versions of what decides the numbers."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:  # run from a source tree
            found[package] = "unknown"
    return found


def machine() -> dict[str, Any]:
    """Describe the machine."""
    cuda = torch.cuda.is_available()
    return {
        "device": torch.cuda.get_device_name() if cuda else platform.machine(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
    }


def _auroc(score: npt.NDArray[Any], positive: npt.NDArray[np.bool_]) -> float:
    """Mann–Whitney: the chance that a positive ranks above a negative, ties counted half."""
    from scipy.stats import rankdata

    ranks: npt.NDArray[np.float64] = rankdata(score.astype(np.float64))
    above = int(positive.sum())
    below = len(positive) - above
    return float((ranks[positive].sum() - above * (above + 1) / 2) / (above * below))


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def by_cell(records: Sequence[Record]) -> dict[str, list[Record]]:
    """The repetitions of each cell, by seed."""
    found: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda record: record.run.seed):
        found.setdefault(record.run.cell, []).append(record)
    return found
