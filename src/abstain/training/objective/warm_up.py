"""A warm-up that ends by itself: cross-entropy for as long as it learns what holds for others too.

Cross-entropy first learns what many labels have in common, and then memorises single labels. The
loss on held-out labels turns where the second outweighs the first. Some of these labels are wrong
as well, but each in its own way: what was memorised elsewhere does not predict them.

Where most labels are wrong that loss hardly moves, and turns while beliefs are still being formed.
So the model is taken not from the epoch of the least loss but from the last one whose losses,
sample by sample, do not differ from those by more than chance.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from torch import Tensor

_FEWEST_EPOCHS, _SHARE = 3, 10
# Of all epochs: what is left is enough for beliefs to settle, and a model that was still learning
# has learnt most of what it would have.
_LONGEST = 2 / 3
# Held-out labels: a twentieth, but at least so many, and at most a fifth of the data.
_HELD_OUT_SHARE, _HELD_OUT_LEAST, _HELD_OUT_MOST = 0.05, 200, 0.2
# An epoch is as good as the best if its losses are higher by at most so many standard errors.
_WITHIN_CHANCE = 1.0
# As shares of the loss of the untaught: more than a slight rise of the held-out loss is not
# forgiven, however few samples show it, and a slight fall is not much of a beginning; a clear
# rise is no chance.
_SLIGHT, _CLEAR = 0.01, 0.1
# Standard errors by which more labels are met than a guess would meet, to be no chance.
_BEYOND_CHANCE = 2.0
# A collapse: labels are met less often than held-out ones were, by so many standard errors of
# these, in so many epochs in a row.
_ERRORS, _WORSE = 3.0, 2


def held_out_samples(num_samples: int) -> int:
    """Number of samples held out to end a warm-up; they are trained on after it.

    >>> held_out_samples(60_000), held_out_samples(1_000), held_out_samples(100)
    (3000, 200, 20)
    """
    most = int(_HELD_OUT_MOST * num_samples)
    return max(1, round(_HELD_OUT_SHARE * num_samples), min(_HELD_OUT_LEAST, most))


@dataclass
class WarmUp:
    """Judges each epoch of the warm-up by the held-out loss, and later epochs by what it reached.

    >>> import torch
    >>> warm_up = WarmUp(epochs=30, untaught=2.3, held_out=1000)
    >>> losses = [2.0, 2.0], [1.4, 1.6], [1.3, 1.701], [1.4, 1.7], [1.5, 1.7]
    >>> [warm_up.update(torch.tensor(pair * 500), accuracy=0.5) for pair in losses]
    [True, True, True, False, False]
    >>> warm_up.ended, warm_up.best_epoch, warm_up.kept_epoch
    (True, 2, 3)
    >>> [warm_up.check(train_accuracy) for train_accuracy in (0.52, 0.3, 0.3)]
    [True, True, False]
    """

    epochs: int
    """Epochs in all; after two thirds of them a warm-up ends once it has begun to learn."""
    untaught: float
    """The loss of a model that only knows how frequent the labels are."""
    held_out: int
    """Held-out labels."""
    epoch: int = 0
    best_epoch: int = 0
    best_loss: float = math.inf
    best_losses: Tensor | None = None
    """Those of the single samples, at the best epoch."""
    kept_epoch: int = 0
    """The last epoch that was as good as the best: where the warm-up is taken back to."""
    accuracy: float = 0.0
    """Share of the held-out labels that was met at that epoch."""
    ended: bool = False
    worse: int = 0
    """Epochs in a row, after the warm-up, that met clearly fewer labels than it did."""

    @property
    def patience(self) -> int:
        """Epochs in a row without a lower loss that end it."""
        return max(_FEWEST_EPOCHS, round(self.epochs / _SHARE))

    def update(self, losses: Tensor, accuracy: float) -> bool:
        """Take in what an epoch reached on the held-out labels; whether to keep its model.

        Args:
            losses: Of the held-out samples, always in the same order.
            accuracy: Share of their labels that was met.
        """
        self.epoch += 1
        loss = float(losses.mean())
        if self.best_losses is None or loss < self.best_loss:
            self.best_epoch, self.best_loss, self.best_losses = self.epoch, loss, losses
        keeps = self._is_as_good(losses - self.best_losses)
        if keeps:
            self.kept_epoch, self.accuracy = self.epoch, accuracy
        waited = self.epoch - self.best_epoch
        # A model that has learnt nothing has no beliefs that a robust loss could build on, and one
        # that is slow to begin, as recurrent ones are, would be stopped before it has. Where
        # held-out labels are few and often wrong, what it has learnt may not show in their loss;
        # that it goes on to memorise labels does.
        memorises = loss > self.best_loss + _CLEAR * self.untaught
        has_begun = self.best_loss < (1 - _SLIGHT) * self.untaught or memorises
        has_learnt = has_begun or (self.best_loss < self.untaught and self._meets_more_than_a_guess)
        is_late = self.epoch >= _LONGEST * self.epochs and has_begun
        self.ended = has_learnt and (waited >= self.patience or is_late)
        return keeps

    @property
    def _meets_more_than_a_guess(self) -> bool:
        """Whether more held-out labels were met than by guessing one of m equal classes."""
        guess = math.exp(-self.untaught)
        error = math.sqrt(guess * (1 - guess) / self.held_out)
        return self.accuracy > guess + _BEYOND_CHANCE * error

    def _is_as_good(self, rises: Tensor) -> bool:
        """Whether the losses of samples have risen by no more than chance would make them."""
        error = float(rises.std(correction=0)) / math.sqrt(len(rises))
        return float(rises.mean()) <= min(_WITHIN_CHANCE * error, _SLIGHT * self.untaught)

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
        """The outcome, in words."""
        if self.collapsed:
            return (
                "the loss collapsed: the model predicted fewer labels than the "
                f"{self.accuracy:.1%} of the warm-up, of which epoch {self.kept_epoch} is kept"
            )
        if self.ended:
            has_turned = self.epoch - self.best_epoch >= self.patience
            why = "where the held-out loss turned" if has_turned else "to leave time for the rest"
            seen = f" (seen at epoch {self.epoch})" if self.epoch > self.kept_epoch else ""
            return f"cross-entropy until epoch {self.kept_epoch}, {why}{seen}"
        if self.best_loss < self.untaught:
            return "cross-entropy throughout: the held-out loss had not turned yet"
        return (
            "cross-entropy throughout: the held-out loss stayed above that of the "
            "class-frequency baseline"
        )

    def state_dict(self) -> dict[str, Any]:
        """All but the tensor, as plain values; infinity, which JSON has not, as None."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        del values["best_losses"]
        return {k: None if v == math.inf else v for k, v in values.items()}

    def load_state_dict(self, state: Mapping[str, Any], best_losses: Tensor | None) -> None:
        """Take over a state that `state_dict` gave."""
        for name, value in state.items():
            setattr(self, name, math.inf if value is None else value)
        self.best_losses = best_losses


def untaught_loss(counts: list[int]) -> float:
    """The entropy of the labels, by how often each class is given.

    >>> round(untaught_loss([5, 5, 0]), 4)
    0.6931
    """
    total = sum(counts)
    return -sum(count / total * math.log(count / total) for count in counts if count)
