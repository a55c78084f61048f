"""A warm-up that ends by itself: cross-entropy for as long as it learns what holds for others too.

Cross-entropy first learns what many labels have in common and then single labels by heart. The
loss on labels set aside turns where the second outweighs the first, wrong as some of these labels
are: being wrong in their own way, they are met by nothing that was learnt by heart elsewhere.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

_FEWEST_EPOCHS, _SHARE = 3, 10
# Labels set aside: a twentieth, but at least so many, and at most a fifth of the data.
_HELD_OUT_SHARE, _HELD_OUT_LEAST, _HELD_OUT_MOST = 0.05, 200, 0.2
# A collapse: labels are met less often than those set aside were, by so many standard errors of
# these, in so many epochs in a row.
_ERRORS, _WORSE = 3.0, 2


def held_out_samples(num_samples: int) -> int:
    """How many samples a warm-up is judged by; they are trained on after it.

    >>> held_out_samples(60_000), held_out_samples(1_000), held_out_samples(100)
    (3000, 200, 20)
    """
    most = int(_HELD_OUT_MOST * num_samples)
    return max(1, round(_HELD_OUT_SHARE * num_samples), min(_HELD_OUT_LEAST, most))


@dataclass
class WarmUp:
    """Judges each epoch of the warm-up by the held-out loss, and later epochs by what it reached.

    >>> warm_up = WarmUp(epochs=30, untaught=2.3, held_out=1000)
    >>> [warm_up.update(loss, accuracy=0.5) for loss in (2.0, 1.5, 1.6, 1.6, 1.7)]
    [True, True, False, False, False]
    >>> warm_up.ended, warm_up.best_epoch
    (True, 2)
    >>> [warm_up.check(train_accuracy) for train_accuracy in (0.52, 0.3, 0.3)]
    [True, True, False]
    """

    epochs: int
    """Of the whole training; at most half of them are warm-up."""
    untaught: float
    """The loss of a model that only knows how frequent the labels are."""
    held_out: int
    """Labels set aside."""
    epoch: int = 0
    best_epoch: int = 0
    best_loss: float = math.inf
    accuracy: float = 0.0
    """Share of the held-out labels that was met at the best epoch."""
    ended: bool = False
    worse: int = 0
    """Epochs in a row, after the warm-up, that met clearly fewer labels than it did."""

    @property
    def patience(self) -> int:
        """Epochs in a row without a lower loss that end it."""
        return max(_FEWEST_EPOCHS, round(self.epochs / _SHARE))

    def update(self, loss: float, accuracy: float) -> bool:
        """Take in what an epoch reached on the held-out labels; whether it is the best so far."""
        self.epoch += 1
        is_best = loss < self.best_loss
        if is_best:
            self.best_epoch, self.best_loss, self.accuracy = self.epoch, loss, accuracy
        waited = self.epoch - self.best_epoch
        # A model that has learnt nothing has no beliefs that a robust loss could build on.
        has_learnt = self.best_loss < self.untaught
        self.ended = has_learnt and (waited >= self.patience or self.epoch >= self.epochs // 2)
        return is_best

    def check(self, train_accuracy: float) -> bool:
        """Take in the share of labels that an epoch after the warm-up met; whether all is well."""
        # As if one label more had been met and one missed: of few labels all may be, by chance.
        share = (self.accuracy * self.held_out + 1) / (self.held_out + 2)
        error = math.sqrt(share * (1 - share) / self.held_out)
        is_worse = train_accuracy < share - _ERRORS * error
        self.worse = self.worse + 1 if is_worse else 0
        return not self.collapsed

    @property
    def collapsed(self) -> bool:
        """Whether the loss has lost what the warm-up had learnt."""
        return self.worse >= _WORSE

    @property
    def reason(self) -> str:
        """What came of it, in words."""
        if self.collapsed:
            return (
                "the loss collapsed: fewer labels were met than the "
                f"{self.accuracy:.1%} of the warm-up; kept is its epoch {self.best_epoch}"
            )
        if self.ended:
            return f"cross-entropy until epoch {self.best_epoch}, where the held-out loss turned"
        if self.best_loss < self.untaught:
            return "cross-entropy throughout: the held-out loss had not turned yet"
        return "cross-entropy throughout: no more was learnt than how frequent the labels are"

    def state_dict(self) -> dict[str, Any]:
        """All of it, as plain values; infinity, which JSON has not, as None."""
        values = asdict(self)
        return {k: None if v == math.inf else v for k, v in values.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Become what a state says."""
        for name, value in state.items():
            setattr(self, name, math.inf if value is None else value)


def untaught_loss(counts: list[int]) -> float:
    """The entropy of the labels, by how often each class is given.

    >>> round(untaught_loss([5, 5, 0]), 4)
    0.6931
    """
    total = sum(counts)
    return -sum(count / total * math.log(count / total) for count in counts if count)
