"""Use a trained model: predict, and abstain where asked to."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import torch

from abstain.data import LabeledData, load
from abstain.errors import AbstainError
from abstain.losses import abstention, belief
from abstain.train.batches import Batches, resident
from abstain.train.folder import RunFolder

ScoreName: TypeAlias = Literal["abstention", "softmax", "margin"]
"""By what a model's willingness to answer is judged: little abstention, a likely class, or a class
much likelier than the next."""

_BATCH = 512
_SUFFIXES = (".csv", ".parquet")


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """What a model says of each sample, and where it would rather not."""

    ids: tuple[str, ...]
    classes: tuple[str, ...]
    predicted: npt.NDArray[np.int64]
    confidence: npt.NDArray[np.float32]
    """Belief in the predicted class."""
    margin: npt.NDArray[np.float32]
    """Confidence less the belief in the next class."""
    abstention: npt.NDArray[np.float32]
    answered: npt.NDArray[np.bool_]
    given: npt.NDArray[np.int64] | None = None

    @property
    def coverage(self) -> float:
        """Share of samples that got an answer."""
        return float(self.answered.mean()) if len(self.answered) else 0.0

    @property
    def expected_risk(self) -> float:
        """Share of wrong answers that the model expects: the mean of 1 − confidence."""
        return float(1 - self.confidence[self.answered].mean()) if self.answered.any() else 0.0

    @property
    def accuracy(self) -> float | None:
        """Share of answers that agree with the given labels, where there are any."""
        if self.given is None or not self.answered.any():
            return None
        return float((self.predicted == self.given)[self.answered].mean())

    def table(self) -> dict[str, Any]:
        """A column per figure, a row per sample; an abstained sample has an empty label."""
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
        """Write the table as CSV or Parquet, by the ending of the name."""
        import pyarrow as pa
        import pyarrow.csv
        import pyarrow.parquet

        check_output(path)
        table = pa.table(self.table())
        try:
            if Path(path).suffix == ".csv":
                pyarrow.csv.write_csv(table, path)
            else:
                pyarrow.parquet.write_table(table, path)
        except OSError as error:
            raise AbstainError(
                f"output must be a file that can be written, got {path}: {error}"
            ) from error


def check_output(path: str | os.PathLike[str]) -> None:
    """Raise if predictions cannot be written under this name, before they are made."""
    if Path(path).suffix not in _SUFFIXES:
        raise AbstainError(f"output must end in {' or '.join(_SUFFIXES)}, got {path}")
    if not Path(path).absolute().parent.is_dir():
        raise AbstainError(f"output must lie in a folder that exists, got {path}")


def predict_from(
    folder: str | os.PathLike[str],
    source: object,
    *,
    coverage: float | None = None,
    max_risk: float | None = None,
    score: ScoreName = "abstention",
    **options: Any,  # noqa: ANN401
) -> Predictions:
    """Predict the classes of a source with the model of a finished run.

    Args:
        folder: The folder of the run.
        source: What `abstain.data.load` takes, or `LabeledData`.
        coverage: Share of the samples to answer: those it is most willing to; all by default.
        max_risk: Answer as many as leave the expected share of wrong answers at or below this;
            expected by the model itself, whose confidence is not a promise.
        score: What willingness is judged by.
        **options: For `abstain.data.load`; `labelled=True` reads labels too, to compare with.
    """
    if coverage is not None and max_risk is not None:
        raise AbstainError("coverage and max_risk exclude each other: give one, got both")
    for name, value in (("coverage", coverage), ("max_risk", max_risk)):
        if value is not None and not 0 <= value <= 1:
            raise AbstainError(f"{name} must lie in [0, 1], got {value}")
    if score not in get_args(ScoreName):
        raise AbstainError(f"score must be one of {', '.join(get_args(ScoreName))}, got {score!r}")
    model, encoder, classes = RunFolder(folder).load_model()
    if isinstance(source, LabeledData):
        data = source
    else:
        columns = {"features": encoder.columns} if encoder.columns else {}
        data = load(source, **{"labelled": False, "classes": classes, **columns, **options})
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batches = Batches(
        inputs=resident(encoder.encode(data), device),
        rows=torch.arange(len(data)),
        size=_BATCH,
        seed=0,
        device=device,
    )
    model.to(device)
    beliefs, reserves = [torch.empty(0, len(classes))], [torch.empty(0)]
    with torch.inference_mode():
        for batch in batches.in_order():
            logits = model(encoder.to_model(batch.inputs)).float()
            beliefs.append(belief(logits).cpu())
            reserves.append(abstention(logits).cpu())
    top = torch.cat(beliefs).topk(2, -1)
    confidence, runner_up = top.values.unbind(-1)
    reserve = torch.cat(reserves)
    willing = {"abstention": -reserve, "softmax": confidence, "margin": confidence - runner_up}
    return Predictions(
        ids=tuple(data.ids),
        classes=classes,
        predicted=top.indices[:, 0].numpy(),
        confidence=confidence.numpy(),
        margin=(confidence - runner_up).numpy(),
        abstention=reserve.numpy(),
        answered=_answered(willing[score].numpy(), confidence.numpy(), coverage, max_risk),
        given=data.given.numpy() if len(data) and bool((data.given >= 0).all()) else None,
    )


def _answered(
    willing: npt.NDArray[np.float32],
    confidence: npt.NDArray[np.float32],
    coverage: float | None,
    max_risk: float | None,
) -> npt.NDArray[np.bool_]:
    """Which samples get an answer: the most willing ones, as many as the bound allows."""
    order = np.argsort(-willing, kind="stable")
    count = len(order)
    if coverage is not None:
        count = round(coverage * len(order))
    elif max_risk is not None:
        risks = np.cumsum(1.0 - confidence[order], dtype=np.float64) / np.arange(1, len(order) + 1)
        # The last prefix that keeps the bound, not the first that breaks it.
        kept = np.flatnonzero(risks <= max_risk)
        count = int(kept[-1]) + 1 if len(kept) else 0
    answered = np.zeros(len(order), dtype=np.bool_)
    answered[order[:count]] = True
    return answered
