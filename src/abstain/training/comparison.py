"""Which of two trainings a run is: on frozen features, or with the backbone trained too."""

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
    frozen_agreement: float
    """Share of held-out labels predicted, after the best epoch."""
    tuned_agreement: float | None = None
    """Likewise; None where fine-tuning was not tried to its end."""
    epochs: int | None = None
    """Of the fine-tuning."""

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def compared(frozen: float, tuned: float, *, held_out: int, epochs: int) -> Comparison:
    """The training that predicts more of the same held-out labels.

    >>> print(compared(0.74, 0.775, held_out=500, epochs=8).reason)
    better than frozen features: predicts 77.5% against 74.0% of 500 held-out labels, 8 epochs
    >>> compared(0.74, 0.74, held_out=500, epochs=8).chosen
    'frozen'
    """
    wins = tuned > frozen
    figures = (
        f"predicts {tuned:.1%} against {frozen:.1%} of {many(held_out, 'held-out label')}, "
        f"{many(epochs, 'epoch')}"
    )
    better = "better than frozen features" if wins else "tried, no better than frozen features"
    return Comparison(
        chosen="fine-tuned" if wins else "frozen",
        reason=f"{better}: {figures}",
        frozen_agreement=frozen,
        tuned_agreement=tuned,
        epochs=epochs,
    )


def not_tried(frozen: float, seconds: float, left: float, *, least: int) -> Comparison:
    """Frozen features, as an epoch takes too many seconds for what is left of the budget.

    >>> print(not_tried(0.5, 200, 300, least=3).reason)
    not tried: its least number of epochs, 3, takes about 10m, and 5m of the budget are left
    """
    return Comparison(
        chosen="frozen",
        reason=f"not tried: its least number of epochs, {least}, takes about "
        f"{spoken(least * seconds)}, and {spoken(max(left, 0))} of the budget are left",
        frozen_agreement=frozen,
    )


def failed(frozen: float, why: str) -> Comparison:
    """Frozen features, as fine-tuning came to no end."""
    return Comparison(chosen="frozen", reason=f"tried in vain: {why}", frozen_agreement=frozen)


def held_out_agreement(epochs: Sequence[Mapping[str, float]]) -> float:
    """The largest share of held-out labels predicted after an epoch, while these were held out.

    >>> held_out_agreement([{"validation_accuracy": 0.7}, {"validation_accuracy": 0.6}, {}])
    0.7
    """
    return max((row.get("validation_accuracy", 0.0) for row in epochs), default=0.0)
