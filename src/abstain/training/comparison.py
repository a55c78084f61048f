"""Which of two trainings a run is: on frozen features, or with the backbone trained too."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from abstain.support.duration import spoken
from abstain.support.wording import many


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Which of the two a run is, and why."""

    chosen: Literal["frozen", "fine-tuned"]
    reason: str
    """In a line."""
    frozen_loss: float
    """Cross-entropy on the held-out labels, in the best epoch."""
    tuned_loss: float | None = None
    """Likewise; None where fine-tuning was not tried to its end."""
    epochs: int | None = None
    """Of the fine-tuning."""

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def compared(frozen_loss: float, tuned_loss: float, *, held_out: int, epochs: int) -> Comparison:
    """The training with the lower loss on the same held-out labels.

    >>> print(compared(0.531, 0.412, held_out=500, epochs=8).reason)
    better than frozen features: loss 0.412 against 0.531 on 500 held-out labels, 8 epochs
    """
    wins = tuned_loss < frozen_loss
    figures = (
        f"loss {tuned_loss:.3f} against {frozen_loss:.3f} on {many(held_out, 'held-out label')}, "
        f"{many(epochs, 'epoch')}"
    )
    better = "better than frozen features" if wins else "tried, no better than frozen features"
    return Comparison(
        chosen="fine-tuned" if wins else "frozen",
        reason=f"{better}: {figures}",
        frozen_loss=frozen_loss,
        tuned_loss=tuned_loss,
        epochs=epochs,
    )


def not_tried(frozen_loss: float, seconds: float, left: float, *, least: int) -> Comparison:
    """Frozen features, as an epoch takes too many seconds for what is left of the budget.

    >>> print(not_tried(0.5, 200, 300, least=3).reason)
    not tried: its least number of epochs, 3, takes about 10m, and 5m of the budget are left
    """
    return Comparison(
        chosen="frozen",
        reason=f"not tried: its least number of epochs, {least}, takes about "
        f"{spoken(least * seconds)}, and {spoken(max(left, 0))} of the budget are left",
        frozen_loss=frozen_loss,
    )


def failed(frozen_loss: float, why: str) -> Comparison:
    """Frozen features, as fine-tuning came to no end."""
    return Comparison(chosen="frozen", reason=f"tried in vain: {why}", frozen_loss=frozen_loss)


def held_out_loss(epochs: Sequence[Mapping[str, float]]) -> float:
    """The least loss on held-out labels, while these were held out.

    >>> held_out_loss([{"validation_loss": 0.7}, {"validation_loss": 0.5}, {"loss": 0.1}])
    0.5
    """
    losses = (row.get("validation_loss", math.nan) for row in epochs)
    return min((loss for loss in losses if loss == loss), default=math.inf)
