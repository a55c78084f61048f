"""Use a trained model: predict, and abstain where asked to.

`predict_from` is the way in; what it gives, `Predictions`, is a table with an answer or none for
each sample.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from abstain.data import BUILTIN, Encoder, LabeledData, load, splits
from abstain.data.assemble import settle
from abstain.data.cache import publish
from abstain.data.given_features import is_feature_file, with_features
from abstain.data.layout import canonical
from abstain.data.require import require
from abstain.errors import AbstainError
from abstain.losses import abstention, belief
from abstain.scores.selective import (
    RiskThreshold,
    labels_needed,
    risk_coverage,
    select_by_coverage,
    select_by_expected_risk,
    threshold_for_risk,
)
from abstain.train.batches import Batches, resident
from abstain.train.folder import RunFolder

ScoreName: TypeAlias = Literal["abstention", "softmax", "margin"]
"""By what a model's willingness to answer is judged: little abstention, a likely class, or a class
much likelier than the next. Not abstention by default: a model of wrong labels learns to keep
almost everything in reserve, and what is left tells hard samples from easy ones worse."""

Floats: TypeAlias = npt.NDArray[np.float32]

_BATCH = 512
_SUFFIXES = (".csv", ".parquet")


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """What a model says of each sample, and where it would rather not."""

    ids: tuple[str, ...]
    classes: tuple[str, ...]
    predicted: npt.NDArray[np.int64]
    confidence: Floats
    """Belief in the predicted class."""
    margin: Floats
    """Confidence less the belief in the next class."""
    abstention: Floats
    answered: npt.NDArray[np.bool_]
    score: ScoreName = "softmax"
    given: npt.NDArray[np.int64] | None = None
    """Labels of the source, where they were read to compare with."""
    skipped: tuple[str, ...] = ()
    """Ids that could not be read and were left out on request."""
    calibration: RiskThreshold | None = None
    """Where a risk is guaranteed: the threshold, and the evidence for it."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def willing(self) -> Floats:
        """The score that decides which samples are answered; higher is more willing."""
        scores = {
            "abstention": -self.abstention,
            "softmax": self.confidence,
            "margin": self.margin,
        }
        return scores[self.score]

    @property
    def coverage(self) -> float:
        """Share of samples that got an answer."""
        return float(self.answered.mean()) if len(self.answered) else 0.0

    @property
    def expected_risk(self) -> float | None:
        """Share of wrong answers that the model expects, the mean of 1 − confidence; not a bound.

        None where nothing is answered.
        """
        return float(1 - self.confidence[self.answered].mean()) if self.answered.any() else None

    @property
    def agreement(self) -> float | None:
        """Share of answers that agree with the given labels; None without labels or answers."""
        if self.given is None or not self.answered.any():
            return None
        return float((self.predicted == self.given)[self.answered].mean())

    @property
    def aurc(self) -> float | None:
        """Mean risk over all coverages, by the given labels; it judges the score, not a cut."""
        if self.given is None:
            return None
        return risk_coverage(self.willing, self.predicted != self.given).area

    def table(self) -> dict[str, Any]:
        """A column per figure, a row per sample; an abstained sample has no label, None."""
        names = np.array(self.classes, dtype=object)
        columns = {
            "id": np.array(self.ids, dtype=object),
            "predicted_label": np.where(self.answered, names[self.predicted], np.array(None)),
            "confidence": self.confidence,
            "margin": self.margin,
            "abstention": self.abstention,
            "answered": self.answered,
        }
        if self.given is not None:
            columns["given_label"] = names[self.given]
        return columns

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the table as CSV or Parquet, by the ending of the name; whole or not at all."""
        pa = require("pyarrow", "writing predictions")
        csv = require("pyarrow.csv", "writing predictions")
        parquet = require("pyarrow.parquet", "writing predictions")
        check_output(path)
        columns = self.table()
        # Said rather than found: names that look like numbers are names, and a column of
        # labels without a single answer is still one of labels.
        texts = {"id", "predicted_label", "given_label"}
        table = pa.table(
            {
                name: pa.array(values, pa.string() if name in texts else None)
                for name, values in columns.items()
            }
        )
        write = csv.write_csv if _suffix(path) == ".csv" else parquet.write_table
        try:
            # Through a link to what it points at: a rename would replace the link.
            publish(Path(path).resolve(), lambda temporary: write(table, temporary))
        except OSError as error:
            raise AbstainError(
                f"output must be a file that can be written, got {path}: {error}"
            ) from error


def check_output(path: str | os.PathLike[str]) -> None:
    """Raise if predictions cannot be written under this name, before they are made."""
    if _suffix(path) not in _SUFFIXES:
        raise AbstainError(f"output must end in {' or '.join(_SUFFIXES)}, got {path}")
    place = Path(path).resolve()
    if place.is_dir():
        raise AbstainError(f"output must be a file, got the folder {path}")
    if not place.parent.is_dir():
        raise AbstainError(f"output must lie in a folder that exists, got {path}")
    if not os.access(place.parent, os.W_OK):
        raise AbstainError(f"output must lie in a folder that can be written to, got {path}")


def predict_from(
    folder: str | os.PathLike[str],
    source: object,
    *,
    coverage: float | None = None,
    max_risk: float | None = None,
    score: ScoreName = "softmax",
    calibrate: object = None,
    calibrate_split: str | None = None,
    confidence: float = 0.95,
    compare: bool = False,
    show: bool = False,
    **options: Any,  # noqa: ANN401
) -> Predictions:
    """Predict the classes of a source with the model of a finished run.

    Args:
        folder: The folder of the run.
        source: What `abstain.data.load` takes, or `LabeledData`; labels are not needed.
        coverage: Share of the samples to answer: those it is most willing to; all by default.
        max_risk: Answer as many as leave the share of wrong answers at or below this: as the model
            expects it, whose confidence is not a promise; or, with `calibrate`, as a bound.
        score: What willingness is judged by.
        calibrate: Another source whose labels are right, of samples drawn as the new ones are and
            that the model has not seen. With it, risk is at most `max_risk` with probability
            `confidence` (`abstain.scores.selective.threshold_for_risk`).
        calibrate_split: The split of `calibrate`; by default that of the source, or its only one.
        confidence: With which the bound holds.
        compare: Read the labels of the source too, for `agreement` and `aurc`.
        show: Show progress, where there is a terminal.
        **options: For `abstain.data.load`: `split`, `label`, `skip_bad`, …. Columns, label column
            and image size are those of the training unless said. `features` may name an `.npy`,
            as for the training.

    >>> from tempfile import TemporaryDirectory
    >>> from abstain.train.recipe import Recipe
    >>> from abstain.train.run import train
    >>> with TemporaryDirectory() as place:
    ...     _ = train("digits", Recipe(epochs=2, warm_up=1), folder=f"{place}/run")
    ...     predictions = predict_from(f"{place}/run", "digits", split="test", coverage=0.5)
    >>> len(predictions), int(predictions.answered.sum())
    (355, 178)
    """
    _check(coverage, max_risk, score, calibrate)
    if calibrate is not None and is_feature_file(options.get("features")):
        raise AbstainError(
            f"calibrate must be left out where features are {options['features']}, which are those "
            f"of the source, got {calibrate}; give both sources as .npz of their features instead"
        )
    if calibrate is not None and max_risk is not None:
        labels_needed(max_risk, confidence)  # raises on what cannot be bounded, before the work
    run = _Run.open(folder)
    held = None
    if calibrate is not None and max_risk is not None:
        split = calibrate_split or _split_like(options.get("split", "train"), calibrate)
        run.check_unseen(calibrate, split)
        trusted = run.predict(
            calibrate, score, {**options, "split": split}, compare=True, show=show
        )
        assert trusted.given is not None
        wrong = trusted.predicted != trusted.given
        held = threshold_for_risk(trusted.willing, wrong, max_risk, confidence)
    predictions = run.predict(source, score, options, compare=compare, show=show)
    answered = predictions.answered
    if coverage is not None:
        answered = select_by_coverage(predictions.willing, coverage)
    elif held is not None:
        answered = predictions.willing > held.threshold
    elif max_risk is not None:
        answered = select_by_expected_risk(predictions.willing, predictions.confidence, max_risk)
    return replace(predictions, answered=answered, calibration=held)


@dataclass(frozen=True)
class _Run:
    """A finished run, opened to predict."""

    path: Path
    model: torch.nn.Module
    encoder: Encoder
    classes: tuple[str, ...]
    sources: Mapping[str, Any]
    """What it was trained on, and with which options that was read."""
    device: torch.device

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> "_Run":
        place = RunFolder(folder)
        about = place.about()
        model, encoder, classes = place.load_model()
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        return cls(Path(folder), model.to(device), encoder, classes, about["sources"], device)

    def check_unseen(self, source: object, split: str) -> None:
        """Raise if a source is what the model was trained on: of that it knows the labels."""
        trained_on = self.sources["train"]
        if trained_on is None or not isinstance(source, str | os.PathLike):
            return
        name = os.fspath(source)
        same = name == trained_on or (
            os.path.exists(name) and os.path.abspath(name) == trained_on  # noqa: PTH100, PTH110
        )
        own = self.sources["options"].get("split", "train")
        if same and canonical(split) == canonical(own):
            raise AbstainError(
                f"calibrate must be samples that the model has not seen, got {name}, split "
                f"{canonical(split)}, which it was trained on; give another file or split"
            )

    def predict(
        self,
        source: object,
        score: ScoreName,
        options: Mapping[str, Any],
        *,
        compare: bool,
        show: bool,
    ) -> Predictions:
        """Predictions for all of a source, none held back."""
        data = self._read(source, options, labelled=compare)
        logits = self._logits(data, show=show)
        if not bool(torch.isfinite(logits).all()):
            raise AbstainError(
                f"{self.path} must hold a model that gives numbers, got NaN or infinity from it: "
                "its training went astray; train again with a lower learning rate"
            )
        top = belief(logits).topk(2, -1)
        confidence, runner_up = top.values.unbind(-1)
        return Predictions(
            ids=tuple(data.ids),
            classes=self.classes,
            predicted=top.indices[:, 0].numpy(),
            confidence=confidence.numpy(),
            margin=(confidence - runner_up).numpy(),
            abstention=abstention(logits).numpy(),
            answered=np.ones(len(data), dtype=np.bool_),
            score=score,
            given=data.given.numpy() if compare else None,
            skipped=data.skipped,
        )

    def _read(self, source: object, options: Mapping[str, Any], *, labelled: bool) -> LabeledData:
        """A source as the training data were read, its labels numbered as theirs."""
        if not isinstance(source, LabeledData):
            as_trained = {"classes": self.classes, **self._defaults(source)}
            read = {**as_trained, **options, "labelled": labelled}
            features = options.get("features")
            if is_feature_file(features):
                shown = load(source, **{**read, "features": None, "to_show": True})
                return with_features(shown, features)
            self._check_needs_no_features(source)
            return load(source, **read)
        if labelled and bool((source.given < 0).any()):
            raise AbstainError(f"{source.name} must have labels to compare with, got none")
        return settle(source, classes=self.classes, labelled=labelled)

    def _check_needs_no_features(self, source: object) -> None:
        learnt_from = self.sources["options"].get("features")
        if is_feature_file(learnt_from) and Path(str(source)).is_dir():
            raise AbstainError(
                f"features must name an .npy with a row for each sample of {source}, as the model "
                f"was trained on those of {learnt_from}, got none"
            )

    def _defaults(self, source: object) -> dict[str, Any]:
        """What the training said of columns and sizes, where a source has any of its own."""
        if isinstance(source, str) and source in BUILTIN:
            return {}
        trained = self.sources["options"]
        found = {"label": trained.get("label")}
        if self.encoder.kind == "image":
            found["image_size"] = self.encoder.input_shape[-2:]
        named = isinstance(source, str | os.PathLike)
        if named and Path(os.fspath(source)).suffix.lower() == ".npz":  # type: ignore[call-overload]
            found = {}  # its keys are no columns
        elif self.encoder.columns:
            found |= {"features": self.encoder.columns, "categories": self.encoder.categories}
        return {name: value for name, value in found.items() if value is not None}

    def _logits(self, data: LabeledData, *, show: bool) -> torch.Tensor:
        """The outputs of the model for every sample, on the CPU."""
        inputs = resident(self.encoder.encode(data), self.device)
        lazy = not isinstance(inputs, torch.Tensor)
        batches = Batches(
            inputs=inputs,
            rows=torch.arange(len(data)),
            size=_BATCH,
            seed=0,
            device=self.device,
            # Processes that decode are worth starting only for more than a moment's work.
            workers=min(4, os.cpu_count() or 1) if lazy and len(data) > 8 * _BATCH else 0,
        )
        parts = [torch.empty(0, len(self.classes) + 1)]
        with torch.inference_mode(), _bar(len(data), data.name, show=show) as advance:
            for batch in batches.in_order():
                parts.append(self.model(self.encoder.to_model(batch.inputs)).float().cpu())
                advance(batch.total)
        return torch.cat(parts)


@contextmanager
def _bar(total: int, name: str, *, show: bool) -> Iterator[Callable[[int], None]]:
    """A bar that counts samples and goes away when they are done; silent where nobody watches."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not (show and console.is_terminal),
    ) as progress:
        task = progress.add_task(f"predicting {name}", total=total)
        yield lambda count: progress.advance(task, count)


def _check(coverage: float | None, max_risk: float | None, score: str, calibrate: object) -> None:
    if coverage is not None and max_risk is not None:
        raise AbstainError("coverage and max_risk exclude each other: give one, got both")
    if calibrate is not None and max_risk is None:
        raise AbstainError("calibrate needs max_risk, the share of wrong answers to keep to")
    for name, value in (("coverage", coverage), ("max_risk", max_risk)):
        if value is not None and not 0 <= value <= 1:
            raise AbstainError(f"{name} must lie in [0, 1], got {value}")
    if score not in get_args(ScoreName):
        raise AbstainError(f"score must be one of {', '.join(get_args(ScoreName))}, got {score!r}")


def _split_like(split: str, source: object) -> str:
    """The split of that name, or the only one there is: a single file has no test split."""
    known = () if isinstance(source, LabeledData) else splits(source)
    return known[0] if len(known) == 1 else split


def _suffix(path: str | os.PathLike[str]) -> str:
    return Path(path).suffix.lower()
