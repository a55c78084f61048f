"""When to stop: at the plateau that theory predicts, or when held-out accuracy stops rising.

Both rules are fed numbers, one at a time, and answer whether to stop; in words, ``reason``.
Where several processes train one model, feed all of them the same, reduced numbers.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from abstain import theory
from abstain.errors import AbstainError
from abstain.noise import check_transition, transition
from abstain.noise.matrices import TRANSITIONS

# Looks are many (each batch) and chance gets a try at each: five standard errors, not two.
_CONFIDENCE = 5.0
# A model that abstains from everything sits on the floor without any noise, but for rounding.
_LEAST_FALL = 0.1


@dataclass
class _Progress:
    """A weighted exponential moving average of losses, and how uncertain it is.

    Dividing by the sum of the decayed weights corrects the bias towards the start. The spread is
    taken from one loss to the next (von Neumann, 1941), so that a falling loss does not pass for
    a noisy one.
    """

    updates: int = 0
    last: float = 0.0
    mean: float = 0.0
    weight: float = 0.0
    squared_weight: float = 0.0
    squared_steps: float = 0.0
    stopped: bool = False

    def add(self, value: float, weight: float, decay: float) -> None:
        step = value - self.last if self.updates else 0.0
        self.updates += 1
        self.last = value
        self.weight = decay * self.weight + weight
        self.mean += (value - self.mean) * weight / self.weight
        self.squared_weight = decay**2 * self.squared_weight + weight**2
        self.squared_steps = decay * self.squared_steps + weight * step**2

    @property
    def standard_error(self) -> float:
        variance = self.squared_steps / self.weight / 2
        return math.sqrt(variance * self.squared_weight) / self.weight


class AnalyticalStop:
    """Stop training with a fixed payoff when its loss falls to the plateau ℓ* of `abstain.theory`.

    On the plateau a network has learnt what the labels have in common; below it, it memorises
    single labels, the wrong ones among them. Feed it the loss of every batch, with the payoff
    named here and no other: not those of a warm-up by cross-entropy.

    The loss counts by its moving average, after every batch: an epoch is too coarse. It must
    have reached the plateau and also lie *clearly* (by five standard errors) below `floor`, the
    least loss of a model that ignores its inputs: log λ where classes are balanced, a little below
    the untrained loss. With many wrong labels these are close together (0.012 at a rate of 0.85,
    ten classes, payoff 9.99), and a single batch is not enough.

    Args:
        rate: Share of labels that are wrong, as `abstain.noise` defines it for the kind of noise;
            None if `noise` is a matrix, which contains it.
        payoff: The payoff λ of the loss; infinite for plain cross-entropy.
        num_classes: Number of classes m.
        noise: A kind of `abstain.noise` that has a matrix, or the matrix,
            T[i, j] = P(given = j | true = i).
        priors: Share of each true class; equal if not given.
        window: Mean age of the average, in batches; also how many it takes before the first look.

    Attributes:
        plateau: The average loss at which to stop.
        floor: The least loss without having learnt anything about inputs.

    Raises:
        AbstainError: If the loss with that payoff has no plateau to stop at; names one that has.

    >>> stop = AnalyticalStop(0.5, payoff=9.99, num_classes=10, window=2)
    >>> [stop.update(loss) for loss in (2.4, 2.1, 1.9, 1.8, 1.7, 1.7)]
    [False, False, False, False, False, True]
    >>> stop.reason
    'stopped at update 6: the average loss 1.7492 has reached the plateau 1.7912'
    >>> AnalyticalStop(0.2, payoff=9.99, num_classes=2)
    Traceback (most recent call last):
    abstain.errors.AbstainError: payoff must lie in (1.25, 2), or be infinite, for 2 classes and \
a clean rate of 0.8 to have a plateau to stop at, got 9.99; try 1.95
    """

    def __init__(
        self,
        rate: float | None,
        payoff: float,
        num_classes: int,
        noise: str | npt.ArrayLike = "symmetric",
        *,
        priors: npt.ArrayLike | None = None,
        window: int = 50,
    ) -> None:
        if window < 1:
            raise AbstainError(f"must be at least 1, got {window}", argument="window")
        matrix = _transition(rate, num_classes, noise)
        shares = _shares(priors, num_classes)
        clean_rate = min(float(shares @ matrix.diagonal()), 1.0)  # sums of shares may round up
        _check_payoff(payoff, clean_rate, num_classes, noise)
        self.plateau = float(theory.plateau_of(matrix, payoff, shares))
        self.floor = float(theory.optimal_bet(shares @ matrix, payoff).loss)
        self.window = window
        self._progress = _Progress()

    def update(self, loss: float, samples: int = 1) -> bool:
        """Take in the mean loss of a batch; whether to stop.

        Args:
            loss: Mean loss of the batch.
            samples: How many samples it is the mean of: the weight of the batch in the average.

        Returns:
            Whether to stop; once true, it stays so, and further losses change nothing.
        """
        progress = self._progress
        if progress.stopped:
            return True
        value = float(loss)
        if not math.isfinite(value):
            raise AbstainError(
                f"must be finite, got {value} at update {progress.updates + 1}: "
                "training has diverged; lower the learning rate",
                argument="loss",
            )
        if samples < 1:
            raise AbstainError(f"must be at least 1, got {samples}", argument="samples")
        progress.add(value, float(samples), decay=1 - 1 / self.window)
        progress.stopped = (
            progress.updates >= self.window
            and progress.mean <= self.plateau
            and self._has_left_floor()
        )
        return progress.stopped

    @property
    def reason(self) -> str:
        """Why it has stopped, or why it has not."""
        progress = self._progress
        average = f"the average loss {progress.mean:.4f}"
        if progress.stopped:
            return (
                f"stopped at update {progress.updates}: "
                f"{average} has reached the plateau {self.plateau:.4f}"
            )
        if progress.updates < self.window:
            return f"not yet: seen {progress.updates} of the {self.window} losses it averages over"
        if not self._has_left_floor():
            return (
                f"not yet: {average} is not clearly below {self.floor:.4f}, the least that a model "
                "can reach without having learnt anything; if it stays there, "
                "begin with some epochs of cross-entropy, or raise the payoff"
            )
        return f"not yet: {average} is above the plateau {self.plateau:.4f}"

    def _has_left_floor(self) -> bool:
        noise = _CONFIDENCE * self._progress.standard_error
        fall = self.floor - self._progress.mean
        return fall > max(noise, _LEAST_FALL * (self.floor - self.plateau))

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs to decide as this one would: numbers, fit for JSON."""
        return asdict(self._progress)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; the settings are those of the constructor."""
        self._progress = _Progress(**_check_state(state, [x.name for x in fields(_Progress)]))


_RECORD = ("epoch", "best_epoch", "best")


class ValidationStop:
    """Stop after some epochs without a better accuracy on held-out samples.

    Held-out labels may be as noisy as the rest, if errors are spread evenly over the classes:
    expected accuracy on them then ranks models as accuracy on right ones would.

    Args:
        patience: How many epochs in a row may pass without a better accuracy; the last one stops.

    >>> stop = ValidationStop(patience=2)
    >>> [stop.update(accuracy) for accuracy in (0.5, 0.7, 0.7, 0.6)]
    [False, False, False, True]
    >>> stop.best_epoch, stop.best
    (2, 0.7)
    >>> stop.reason
    'stopped at epoch 4: no accuracy above the 0.7000 of epoch 2 for 2 epochs'
    """

    def __init__(self, patience: int = 5) -> None:
        if patience < 1:
            raise AbstainError(f"must be at least 1, got {patience}", argument="patience")
        self.patience = patience
        self.epoch = 0
        """Epochs seen; an epoch was the best so far if this equals `best_epoch` after it."""
        self.best_epoch = 0
        """The first epoch with the best accuracy, counted from 1; 0 before there is any."""
        self.best = -math.inf
        """The best accuracy; −∞ before there is any."""

    def update(self, accuracy: float) -> bool:
        """Take in the accuracy after an epoch; whether to stop.

        Args:
            accuracy: Accuracy on held-out samples; a tie with the best is not better.

        Returns:
            Whether to stop; once true, it stays so, and further accuracies change nothing.
        """
        if self._is_over():
            return True
        value = float(accuracy)
        if not math.isfinite(value):
            raise AbstainError(
                f"must be finite, got {value} at epoch {self.epoch + 1}", argument="accuracy"
            )
        self.epoch += 1
        if value > self.best:
            self.best, self.best_epoch = value, self.epoch
        return self._is_over()

    @property
    def reason(self) -> str:
        """Why it has stopped, or why it has not."""
        if self.epoch == 0:
            return "not yet: no epoch seen"
        waited = self.epoch - self.best_epoch
        record = f"the {self.best:.4f} of epoch {self.best_epoch}"
        if self._is_over():
            return f"stopped at epoch {self.epoch}: no accuracy above {record} for {waited} epochs"
        return f"not yet: {waited} of {self.patience} epochs without an accuracy above {record}"

    def _is_over(self) -> bool:
        return self.epoch - self.best_epoch >= self.patience

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs to decide as this one would: numbers only."""
        return {name: getattr(self, name) for name in _RECORD}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; the patience is that of the constructor."""
        for name, value in _check_state(state, _RECORD).items():
            setattr(self, name, value)


def _transition(
    rate: float | None, num_classes: int, noise: str | npt.ArrayLike
) -> npt.NDArray[np.float64]:
    if isinstance(noise, str):
        if rate is None:
            raise AbstainError(f"must be given for {noise} noise, got None", argument="rate")
        if noise not in TRANSITIONS:
            raise AbstainError(
                f"must be one of {', '.join(TRANSITIONS)}, got {noise!r}", argument="noise"
            )
        return transition(noise, num_classes, rate)
    if rate is not None:
        raise AbstainError(
            f"must be None where noise is a matrix, which contains it, got {rate}", argument="rate"
        )
    matrix = check_transition(noise)
    if len(matrix) != num_classes:
        raise AbstainError(
            f"must have {num_classes} rows, one per class, got {len(matrix)}", argument="noise"
        )
    return matrix


def _shares(priors: npt.ArrayLike | None, num_classes: int) -> npt.NDArray[np.float64]:
    if priors is None:
        return np.full(num_classes, 1 / num_classes)
    shares = np.asarray(priors, dtype=np.float64)
    if shares.shape != (num_classes,) or not (shares >= 0).all() or abs(shares.sum() - 1) > 1e-5:
        raise AbstainError(
            f"must be {num_classes} shares that sum to 1, got {priors}", argument="priors"
        )
    return shares


def _check_payoff(
    payoff: float, clean_rate: float, num_classes: int, noise: str | npt.ArrayLike
) -> None:
    # Of all noise with a given share of right labels, symmetric noise has the highest plateau (the
    # least loss is concave in p), so a payoff that works for it works for any matrix.
    kind = "pairflip" if isinstance(noise, str) and noise == "pairflip" else "symmetric"
    try:
        low, high = theory.stoppable_payoffs(clean_rate, num_classes, kind)
    except AbstainError as error:
        raise AbstainError(f"must leave a plateau to stop at: {error}", argument="rate") from None
    if not (low < payoff < high or payoff == math.inf):
        remedy = theory.suggested_payoff(clean_rate, num_classes, kind)
        raise AbstainError(
            f"must lie in ({low:.4g}, {high:.4g}), or be infinite, for {num_classes} "
            f"classes and a clean rate of {clean_rate:.4g} to have a plateau to stop at, "
            f"got {payoff:.6g}; try {remedy:.6g}",
            argument="payoff",
        )


def _check_state(state: Mapping[str, Any], expected: Sequence[str]) -> Mapping[str, Any]:
    if set(state) != set(expected):
        raise AbstainError(
            f"must have the keys {sorted(expected)}, got {sorted(state)}", argument="state"
        )
    return state


# The rank correlation of two orders that count as the same, and how often in a row. What would be
# left of the training then moves the AUROC of planted errors by less than 0.001 (two tables and
# mnist-5k, all kinds of noise).
_SAME, _OFTEN = 0.999, 2
# From one look to the next, as a share of the epochs that have been.
_LATER = 1.25
_WATCHED = 4096


@dataclass
class SettledStop:
    """Stop an audit where more training would hardly change which label is worse than which.

    An audit wants an order, the worst label first. The ledger's evidence is a mean over the
    logarithm of time; so its order is compared with that of a quarter of the training before, not
    with that of the last epoch, from which it could hardly differ. Watches some thousand labels
    where there are more.

    Where several processes train one model, feed all of them the evidence of the whole.

    >>> stop = SettledStop()
    >>> evidence = torch.linspace(-1, 1, 100)
    >>> [stop.update(evidence, epoch) for epoch in (8, 9, 10, 11, 12, 13)]
    [False, False, False, False, False, True]
    """

    epoch: int = 0
    """Epoch of the last look; 0 before the first."""
    calm: int = 0
    """Looks in a row that found the order as it had been."""
    ranks: list[int] = field(default_factory=list)
    """Ranks of the watched labels at the last look."""

    def is_due(self, epoch: int) -> bool:
        """Whether enough has been trained since the last look, for `update` to look again."""
        return epoch >= math.ceil(_LATER * self.epoch)

    def update(self, evidence: Tensor, epoch: int) -> bool:
        """Take in the evidence for each label after an epoch, from 1; whether to stop."""
        if not self.is_due(epoch):
            return False
        ranks = _ranks(evidence[:: math.ceil(len(evidence) / _WATCHED)])
        if self.epoch:
            is_same = _correlation(ranks, torch.tensor(self.ranks)) >= _SAME
            self.calm = self.calm + 1 if is_same else 0
        self.epoch, self.ranks = epoch, ranks.tolist()
        return self.calm >= _OFTEN

    @property
    def reason(self) -> str:
        """Why it has stopped, or why it has not."""
        if self.calm >= _OFTEN:
            return f"stopped at epoch {self.epoch}: more would hardly change the order of labels"
        return "not yet: the order of labels was still changing"

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs to decide as this one would: plain values."""
        return dict(vars(self))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state that `state_dict` gave."""
        for name, value in state.items():
            setattr(self, name, value)


def _ranks(values: Tensor) -> Tensor:
    """From 0; of equal values the first comes first, and what is not a number last."""
    return values.argsort(stable=True).argsort().cpu()


def _correlation(ranks: Tensor, others: Tensor) -> float:
    """Spearman's, of two permutations; 1 of a single label."""
    count = len(ranks)
    squares = float((ranks - others).double().square().sum())
    return 1 - 6 * squares / max(count * (count**2 - 1), 1)
