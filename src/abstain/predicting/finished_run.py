"""A finished run, opened to predict: it reads sources as it read its training data."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from abstain.auditing.result import Audit
from abstain.data import Encoder, LabeledData, load
from abstain.data.class_labels import settle
from abstain.data.encoders.image_encoder import ImageEncoder
from abstain.data.features import is_feature_file
from abstain.data.forms import check_images, fitting
from abstain.data.inputs import resident
from abstain.data.readers.splits import canonical
from abstain.errors import AbstainError, DataError, MissingColumnError
from abstain.losses import abstention, belief
from abstain.predicting.predictions import Predictions, ScoreName
from abstain.support.progress import counting
from abstain.training.loop.batches import Batches, workers_for
from abstain.training.saving.run_folder import RunFolder
from abstain.training.sources import warn_of_values
from abstain.training.trained import Trained

_BATCH = 512


@dataclass(frozen=True)
class FinishedRun:
    """A finished run, opened to predict."""

    name: str
    model: torch.nn.Module
    encoder: Encoder
    classes: tuple[str, ...]
    sources: Mapping[str, Any]
    """Sources that it was trained on, and the options by which they were read."""
    device: torch.device

    @classmethod
    def open(cls, folder: str | os.PathLike[str], backbone: str | None = None) -> "FinishedRun":
        """The run of a folder, its model on the device that will be used."""
        place = RunFolder(folder)
        metadata = place.metadata()
        model, encoder, classes = place.load_model(backbone)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        return cls(str(folder), model.to(device), encoder, classes, metadata["sources"], device)

    @classmethod
    def of(
        cls, run: str | os.PathLike[str] | Trained | Audit, backbone: str | None = None
    ) -> "FinishedRun":
        """The run of a folder, or what `train` or `audit` gave."""
        if isinstance(run, str | os.PathLike):
            return cls.open(run, backbone)
        if backbone is not None:
            raise AbstainError(
                f"must be left out for a run in memory, which has its own, got {backbone}",
                argument="backbone",
            )
        trained = run.trained if isinstance(run, Audit) else run
        if isinstance(run, Audit) and trained is None:
            raise AbstainError(
                "must have a model, got an audit of probabilities, without one", argument="run"
            )
        if not isinstance(trained, Trained):
            raise AbstainError(
                f"must be the folder of a run, or what train or audit gave, got {run!r}",
                argument="run",
            )
        in_memory: dict[str, Any] = {"train": None, "options": {}}
        sources = trained.folder.metadata()["sources"] if trained.folder else in_memory
        model, classes = trained.model, trained.data.classes
        device = next((x.device for x in model.parameters()), torch.device("cpu"))
        return cls("the training", model, trained.encoder, classes, sources, device)

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
                f"must be samples that the model has not seen, got {name}, split "
                f"{canonical(split)}, which it was trained on; give another file or split",
                argument="calibrate",
            )

    def predict(
        self,
        source: object,
        score: ScoreName,
        options: Mapping[str, Any],
        *,
        compare: bool,
    ) -> Predictions:
        """Predictions for all of a source, none held back."""
        data = self._read(source, options, labelled=compare)
        logits = self._logits(data)
        warn_of_values(data, self.encoder)
        if not bool(torch.isfinite(logits).all()):
            raise AbstainError(
                f"{self.name} must hold a model that gives numbers, got NaN or infinity from it: "
                "its training diverged; train again with a lower learning rate"
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
            named = isinstance(source, str | os.PathLike)
            if options.get("features") is None and named and Path(os.fspath(source)).is_dir():  # type: ignore[call-overload]
                self._check_needs_no_features(source)  # before its images are read
            data = self._load(source, read, named_columns="features" in options)
            if data.kind != "table":
                self._check_needs_no_features(source if named else data.name)
            check_images(data.as_shown, options)
            return data
        if labelled and bool((source.given < 0).any()):
            raise AbstainError(f"{source.name} must have labels to compare with, got none")
        return settle(source, classes=self.classes, labelled=labelled)

    def _load(self, source: object, read: Mapping[str, Any], *, named_columns: bool) -> LabeledData:
        """The source; a column that it lacks is one of the model's, where nobody named it."""
        try:
            return load(source, **read)
        except MissingColumnError as error:
            if named_columns or error.argument != "features":
                raise
            raise DataError(
                f"{error.where} must have the columns that the model was trained on, got no "
                f"{error.found}"
            ) from error

    def _check_needs_no_features(self, source: object) -> None:
        learnt_from = self.sources["options"].get("features")
        if is_feature_file(learnt_from):
            raise AbstainError(
                f"features must name an .npy with a row for each sample of {source}, as the model "
                f"was trained on those of {learnt_from}, got none"
            )

    def _defaults(self, source: object) -> dict[str, Any]:
        """The columns and sizes of the training, where a source has any of its own."""
        trained = self.sources["options"]
        found: dict[str, Any] = {"label": trained.get("label")}
        if isinstance(self.encoder, ImageEncoder):
            found["image_size"] = self.encoder.input_shape[-2:]
        elif self.encoder.kind == "image":
            found["own_size"] = True
        named = isinstance(source, str | os.PathLike)
        if named and Path(os.fspath(source)).suffix.lower() == ".npz":  # type: ignore[call-overload]
            found = {}  # its keys are no columns
        elif self.encoder.columns:
            found |= {"features": self.encoder.columns, "categories": self.encoder.categories}
        found["texts"] = tuple(self.encoder.texts)
        return fitting(source, {name: value for name, value in found.items() if value is not None})

    def _logits(self, data: LabeledData) -> torch.Tensor:
        """The outputs of the model for every sample, on the CPU."""
        inputs = resident(self.encoder.encode(data), self.device)
        batches = Batches(
            inputs=inputs,
            rows=torch.arange(len(data)),
            size=_BATCH,
            seed=0,
            device=self.device,
            filled=self.device.type == "cuda" and self.encoder.sees == "image",
            # Processes that decode are worth starting only for more than a moment's work.
            workers=workers_for(self.encoder) if len(data) > 8 * _BATCH else 0,
        )
        parts = [torch.empty(0, len(self.classes) + 1)]
        with (
            _judging(self.model),
            torch.inference_mode(),
            counting(len(data), f"predicting {data.name}") as advance,
        ):
            for batch in batches.in_order():
                logits = self.model(self.encoder.to_model(batch.inputs))
                parts.append(logits[: len(batch.index)].float().cpu())
                advance(batch.total)
        return torch.cat(parts)


@contextmanager
def _judging(model: torch.nn.Module) -> Iterator[None]:
    """Without dropout and the like; then as before, for whoever goes on training it."""
    before = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in before.items():
            module.training = training
