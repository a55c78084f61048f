"""`Predictions`: a table of predictions that can be evaluated and written."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from abstain.arguments import typed
from abstain.errors import AbstainError
from abstain.scores.selective import RiskThreshold, risk_coverage
from abstain.support.files import publish
from abstain.support.optional import require

ScoreName: TypeAlias = Literal["abstention", "softmax", "margin"]
"""Score of a model's willingness to answer: little abstention, a likely class, or a class much
likelier than the next. Not abstention by default: a model of wrong labels learns to keep
almost everything in reserve, and what is left separates hard samples from easy ones worse."""

Floats: TypeAlias = npt.NDArray[np.float32]

_SUFFIXES = (".csv", ".parquet")


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """The prediction for each sample, and whether the model abstains."""

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
    """The threshold that guarantees a risk, and the evidence for it; None without a guarantee."""

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

    @typed()
    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the table as CSV or Parquet, by the ending of the name; whole or not at all."""
        pa = require("pyarrow", "writing predictions")
        csv = require("pyarrow.csv", "writing predictions")
        parquet = require("pyarrow.parquet", "writing predictions")
        check_output(path)
        columns = self.table()
        # Given rather than found: names that look like numbers are names, and a column of
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
                f"must be a file that can be written, got {path}: {error}", argument="output"
            ) from error


def check_output(path: str | os.PathLike[str]) -> None:
    """Raise if predictions cannot be written under this name, before they are made."""
    if _suffix(path) not in _SUFFIXES:
        raise AbstainError(f"must end in {' or '.join(_SUFFIXES)}, got {path}", argument="output")
    place = Path(path).resolve()
    if place.is_dir():
        raise AbstainError(f"must be a file, got the folder {path}", argument="output")
    if not place.parent.is_dir():
        raise AbstainError(f"must lie in a folder that exists, got {path}", argument="output")
    if not os.access(place.parent, os.W_OK):
        raise AbstainError(
            f"must lie in a folder that can be written to, got {path}", argument="output"
        )


def _suffix(path: str | os.PathLike[str]) -> str:
    return Path(path).suffix.lower()
