"""What a finished audit left in its folder, read again."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from abstain.arguments import typed
from abstain.auditing.summary import FORMAT
from abstain.data import LabeledData
from abstain.data.source import Source
from abstain.errors import AbstainError
from abstain.support.optional import require

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, kw_only=True, repr=False)
class AuditFolder:
    """What a finished audit left in its folder."""

    folder: Path
    summary: Mapping[str, Any]
    issues: "pa.Table"
    """Every label, the worst first."""
    weights: "pa.Table"
    """How probable it is that a label is right, in the order of the source."""

    def __repr__(self) -> str:
        """Without its tables."""
        return f"<AuditFolder {self.folder}: {len(self.issues):,} labels>"

    @classmethod
    @typed()
    def open(cls, folder: str | os.PathLike[str]) -> "AuditFolder":
        """Read an audit's folder, or raise what is wrong with it."""
        parquet = require("pyarrow.parquet", "reading an audit")
        place = Path(folder)
        resume = f"abstain audit --resume {quote(str(folder))}"
        try:
            text = (place / "summary.json").read_text(encoding="utf-8")
            summary = json.loads(text)
        except (OSError, ValueError) as error:
            if (place / "run.json").exists():
                raise AbstainError(
                    f"{folder} must be a finished audit, but has no verdict yet; go on with: "
                    f"{resume}"
                ) from None
            raise AbstainError(
                f"must be the folder of an audit, got {folder}: {error}", argument="audit"
            ) from error
        if not isinstance(summary, dict) or summary.get("kind") != "audit":
            raise AbstainError(
                f"must be the folder of an audit, got {folder}, which is that of a training; audit "
                f"it with: {resume}",
                argument="audit",
            )
        if summary.get("format") != FORMAT:
            raise AbstainError(
                f"{place / 'summary.json'} must be of format {FORMAT}; it is of another version "
                "of abstain"
            )
        if missing := [name for name in ("sources", "inputs", "classes") if name not in summary]:
            raise AbstainError(f"{place / 'summary.json'} must be whole, got none of {missing[0]}")
        try:
            issues = parquet.read_table(place / "issues.parquet")
            weights = parquet.read_table(place / "weights.parquet")
        except (OSError, ValueError) as error:  # Arrow's own errors are of these kinds
            raise AbstainError(f"{folder} must be whole, got: {error}") from error
        return cls(folder=place, summary=summary, issues=issues, weights=weights)

    def load(self, *, shown_only: bool = False) -> LabeledData:
        """The data that were audited, from where they came; without what was planted.

        Args:
            shown_only: Read only what a person is shown; features in a file need not be there.
        """
        source = Source.found_again(self.summary["sources"])
        if source.train is None:
            raise AbstainError(
                f"{self.folder} is an audit of data in memory, which cannot be loaded again: "
                "save them to a file and audit that, or export to csv or parquet"
            )
        data = source.load_train(shown_only=shown_only)
        names = ("id", "given_label")
        audited = dict(zip(*(self.issues.column(name).to_pylist() for name in names), strict=True))
        labels = {
            id_: data.classes[k] for id_, k in zip(data.ids, data.given.tolist(), strict=True)
        }
        # By their labels too: rows that are known by their numbers may have changed places.
        planted = "detection" in self.summary
        if (audited.keys() != labels.keys()) if planted else (audited != labels):
            raise AbstainError(
                f"{source.train} must hold the samples and labels that were audited, got "
                "others: audit it again"
            )
        return data
