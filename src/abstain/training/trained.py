"""What a training gives."""

import math
from dataclasses import dataclass
from typing import Any

import torch

from abstain.data import Encoder, LabeledData
from abstain.scores.held_out import HeldOut
from abstain.scores.ledger import Ledger
from abstain.support.wording import many
from abstain.training.comparison import Comparison
from abstain.training.objective.from_recipe import held_out_rows
from abstain.training.recipe import Recipe
from abstain.training.saving.history import History
from abstain.training.saving.run_folder import RunFolder


@dataclass(frozen=True, kw_only=True, repr=False)
class Trained:
    """What a training gives: the model, how it came about, and what it saw of each sample."""

    model: torch.nn.Module
    encoder: Encoder
    data: LabeledData
    """The training data, with planted errors where the recipe asked for them."""
    recipe: Recipe
    epoch: int
    """The epoch that the model is of, from 1: the last, or the best of a validation stop."""
    outcome: str
    """Why it ended, in words."""
    history: History
    ledger: Ledger
    folder: RunFolder | None
    finetuning: Comparison | None = None
    """Whether the backbone was trained too, and why, where that was left open."""
    test: LabeledData | None = None
    """The test set, where there is one."""

    def __repr__(self) -> str:
        """The outcome in a line: a notebook would print every weight and label."""
        return (
            f"<Trained {self.recipe.model or type(self.model).__name__} by {self.recipe.method} "
            f"on {many(len(self.data), 'sample')} of {self.data.name}: {self.outcome}>"
        )

    @property
    def test_accuracy(self) -> float | None:
        """Of the model, where test labels are known."""
        return self.history.epochs[self.epoch - 1].get("test_accuracy")

    @property
    def held_out(self) -> HeldOut | None:
        """How good the warm-up was where its held-out loss turned; None where there is none."""
        rows = [r for r in self.history.epochs if r.get("validation_loss", math.nan) < math.inf]
        if self.recipe.warm_up_ends != "held-out" or not rows:
            return None
        best = min(rows, key=lambda row: row["validation_loss"])
        return HeldOut(
            epoch=int(best["epoch"]),
            accuracy=best["validation_accuracy"],
            rows=held_out_rows(self.recipe, len(self.data))[0].numpy(),
        )

    def summary(self) -> dict[str, Any]:
        """The outcome in a few plain values; what is not a number is left out."""
        figures = {name: x for name, x in self.history.epochs[self.epoch - 1].items() if x == x}
        decided = {"finetuning": self.finetuning.as_json()} if self.finetuning else {}
        return {"outcome": self.outcome, "samples": len(self.data), **figures, **decided}
