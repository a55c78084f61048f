"""When to stop an audit: where more training would hardly change which label is worse than which.

What an audit wants of a training is an order, the worst label first. The ledger's evidence is a
mean over the logarithm of time; so its order is compared with that of a quarter of the training
before, not with that of the last epoch, from which it could hardly differ.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

# The rank correlation of two orders that count as the same, and how often in a row. What would be
# left of the training then moves the AUROC of planted errors by less than 0.001 (two tables and
# mnist-5k, all kinds of noise).
_SAME, _OFTEN = 0.999, 2
# From one look to the next, as a share of the epochs that have been.
_LATER = 1.25
_WATCHED = 4096


@dataclass
class SettledStop:
    """Watches the order of labels, of some thousand where there are more.

    Where several processes train one model, feed all of them the evidence of the whole.

    >>> stop = SettledStop()
    >>> evidence = torch.linspace(-1, 1, 100)
    >>> [stop.update(evidence, epoch) for epoch in (8, 9, 10, 11, 12, 13)]
    [False, False, False, False, False, True]
    """

    epoch: int = 0
    """Of the last look; 0 before the first."""
    calm: int = 0
    """Looks in a row that found the order as it had been."""
    ranks: list[int] = field(default_factory=list)
    """What the last look saw: the ranks of the labels that are watched."""

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
