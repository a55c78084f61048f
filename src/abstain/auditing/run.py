"""The training behind an audit, as far as figures and reports need it: without model and data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abstain.data.features import is_feature_file
from abstain.errors import AbstainError
from abstain.support.optional import require
from abstain.training.plan import Plan
from abstain.training.saving.history import History
from abstain.training.saving.run_folder import RunFolder

if TYPE_CHECKING:
    from abstain.training.trained import Trained


@dataclass(frozen=True, kw_only=True)
class Run:
    """A training: its plan, its course and its outcome."""

    plan: Plan
    epoch: int
    """The epoch that the model is of."""
    outcome: str
    """Why it ended, in words."""
    backbone: str
    """The backbone, in words; empty for none."""
    finetuning: str
    """Whether the backbone was trained too, and why; empty where that was not left open."""
    by_file: bool
    """Whether the model sees features of a file, and a person the samples."""
    summary: Mapping[str, Any]
    """The outcome in a few plain values."""
    folder: RunFolder | None
    read_history: Callable[[], History]

    @cached_property
    def history(self) -> History:
        """The figures of the training, per step and per epoch."""
        return self.read_history()

    @classmethod
    def of(cls, trained: "Trained") -> "Run":
        """The run of a training."""
        return cls(
            plan=trained.plan,
            epoch=trained.epoch,
            outcome=trained.outcome,
            backbone=trained.encoder.backbone_used,
            finetuning=trained.finetuning.reason if trained.finetuning else "",
            by_file=trained.data.shown is not None,
            summary=trained.summary(),
            folder=trained.folder,
            read_history=lambda: trained.history,
        )

    @classmethod
    def read(cls, folder: Path, summary: Mapping[str, Any]) -> "Run | None":
        """Read the run from the folder of its audit; None where probabilities were given.

        Args:
            folder: Of the audit.
            summary: Its summary.json.
        """
        if "training" not in summary:
            return None
        known = summary["training"]
        place = RunFolder(folder)
        return cls(
            plan=Plan.from_json(place.metadata()["plan"]),
            epoch=int(known["epoch"]),
            outcome=known["outcome"],
            backbone=summary.get("backbone_used", ""),
            finetuning=known.get("finetuning", {}).get("reason", ""),
            by_file=is_feature_file(summary["sources"]["options"].get("features")),
            summary=known,
            folder=place,
            read_history=lambda: _history(folder),
        )


def _history(folder: Path) -> History:
    parquet = require("pyarrow.parquet", "reading a run")
    try:
        rows = {x: parquet.read_table(folder / f"{x}.parquet") for x in ("steps", "epochs")}
    except (OSError, ValueError) as error:
        raise AbstainError(f"{folder} must be whole, got: {error}") from error
    return History(**{part: table.to_pylist() for part, table in rows.items()})
