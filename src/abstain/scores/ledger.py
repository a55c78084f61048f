"""`Ledger`: statistics of each sample over training, from the logits of the training steps.

At the end of training the model may have memorised wrong labels. A score averaged over training
finds them better, so the ledger sums all visits, in memory that does not grow. In the first epochs
the beliefs depend little on the label of the sample itself. So the ledger also keeps snapshots of
a few epochs, each twice as late as the one before: the likeliest other class, and the beliefs.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from abstain.errors import AbstainError

__all__ = ["EVIDENCE_FLOOR", "SNAPSHOT_EPOCHS", "Ledger", "Snapshot", "reduced"]

SNAPSHOT_EPOCHS = (0, 1, 2, 4, 8, 16, 32, 64)
"""Epochs, from 0, of which the ledger keeps a snapshot."""
EVIDENCE_FLOOR = 0.01
"""Added to beliefs before the log, so that differences far below it do not count."""

# Sums are whole multiples of 2⁻³²: adding integers is exact, so neither the order of the batches
# nor the number of processes changes a bit of them, and 2³¹ visits fit.
_UNITS = 2**32
_VISITS, _WRONG, _BELIEF, _RIVAL, _WEIGHT, _EVIDENCE, _LOGIT_MARGIN = range(7)
_TINY = torch.finfo(torch.float32).tiny
# In the first epoch the model knows little: it counts only for a sample not seen in any other.
_FIRST_EPOCH_WEIGHT = 2.0**-10
_NO_CLASS, _NO_BELIEF = -1, -1.0
_STATISTICS = (
    "belief",
    "margin",
    "evidence",
    "logit_margin",
    "wrong",
    "visits",
    "abstention",
    "payoff",
)


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Beliefs on each sample in one epoch; −1 where the sample was not visited in it."""

    epoch: int
    rival: Tensor
    """(N,) int32: the likeliest class but the given one."""
    belief: Tensor
    """(N,) float16: belief in the given label."""
    rival_belief: Tensor
    """(N,) float16: belief in the rival."""


class Ledger:
    """Statistics of each sample over training, 132 bytes a sample, on the device of the training.

    Kept are sums over all visits of a sample (how many there were, how many predictions were
    wrong, the belief in the given label and in the likeliest other one, the evidence and the log
    odds for the given label), the abstention f_0 and the payoff λ of the last visit, and snapshots
    of a few epochs. A visit whose logits are not finite is not counted, and sets the abstention to
    NaN.

    Where several processes train one model, each keeps its own ledger and calls `update` in every
    step, with an empty batch if need be, so that their step counts agree. `reduced` merges them, to
    read or to save. To resume from a saved ledger, all processes load it, and all but one call
    `clear`, so that no visit counts twice.

    Args:
        num_samples: Number of training samples.
        device: Where it is kept: where the logits are.

    Attributes:
        BYTES_PER_SAMPLE: Memory for each sample.

    >>> ledger = Ledger(3)
    >>> logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 0.0, 9.0]])
    >>> ledger.update(torch.tensor([2, 0]), logits, given=torch.tensor([0, 1]), payoff=1.9)
    >>> ledger.belief
    tensor([0.5000,    nan, 0.8808])
    >>> ledger.visits
    tensor([1, 0, 1])
    """

    BYTES_PER_SAMPLE = 7 * 8 + 3 * 4 + len(SNAPSHOT_EPOCHS) * (4 + 2 + 2)

    def __init__(self, num_samples: int, device: torch.device | str = "cpu") -> None:
        if num_samples < 1:
            raise AbstainError(f"must be at least 1, got {num_samples}", argument="num_samples")
        self._sums = torch.empty(num_samples, 7, dtype=torch.int64, device=device)
        self._abstention = torch.empty(num_samples, dtype=torch.float32, device=device)
        self._payoff = torch.empty_like(self._abstention)
        self._last_step = torch.empty(num_samples, dtype=torch.int32, device=device)
        kept = (len(SNAPSHOT_EPOCHS), num_samples)
        self._rival = torch.empty(kept, dtype=torch.int32, device=device)
        self._beliefs = torch.empty(2, *kept, dtype=torch.float16, device=device)
        # A tensor, not a number: `update` can then be compiled once and recorded as a CUDA graph.
        self._step = torch.zeros((), dtype=torch.int32, device=device)
        self.clear()

    def __len__(self) -> int:
        return len(self._sums)

    @torch.no_grad()
    def update(
        self,
        index: Tensor,
        logits: Tensor,
        given: Tensor,
        payoff: Tensor | float | None = None,
        has_abstention: bool = True,
        *,
        epoch: int = 0,
    ) -> None:
        """Add one visit of each sample of a batch; makes no copy to the host.

        Its cost is that of some forty small operations. Where these matter (a GPU, small batches)
        record them in a CUDA graph, or pass the detached logits of several batches at once.

        Args:
            index: (B,) which samples, int64, none twice.
            logits: (B, m+1), the abstention output last, or (B, m) without one; any precision.
            given: (B,) given labels, int64 in [0, m).
            payoff: λ of each sample or of all; may be infinite; None if the loss has no payoff.
            has_abstention: Whether there is an abstention output.
            epoch: The pass over the data that this visit belongs to, from 0: it decides how much
                the visit counts as evidence, and whether a snapshot is kept.
        """
        logits = logits.float()
        label = given.unsqueeze(-1)
        classes = logits[:, :-1] if has_abstention else logits
        top = classes.amax(-1, keepdim=True)
        # Not by argmax, which takes longer than all of this; a label that ties is not wrong.
        wrong = classes.gather(-1, label) < top
        # By hand, as on small batches torch's softmax takes longer than all of this. The abstention
        # output has no part in the maximum: where it dominates, all bets would underflow. Its own
        # weight may become inf; nothing reads it.
        gaps = logits - top
        weights = gaps.exp()
        bets = weights[:, :-1] if has_abstention else weights
        total = bets.sum(-1, keepdim=True)
        bet = bets.gather(-1, label)
        others = bets.scatter_(-1, label, 0.0)
        rival = others.amax(-1, keepdim=True)
        # log (q_given + floor) / (q_rival + floor), each visit weighted by 1/epoch: every doubling
        # of the training then has the same weight, and the many late epochs, in which labels are
        # memorised, do not outweigh the early ones.
        floor = EVIDENCE_FLOOR * total
        weight = total * (1 / epoch if epoch else _FIRST_EPOCH_WEIGHT)
        evidence = torch.log((bet + floor) / (rival + floor)) * weight
        # One of the two is 1; the other may underflow.
        logit_margin = torch.log(bet.clamp_min(_TINY) / rival.clamp_min(_TINY)) * total
        # The order is that of the columns. A visit counts as total/total: 1, or NaN where the
        # logits are not finite, and then the whole row becomes 0.
        columns = (total, total * wrong, bet, rival, weight, evidence, logit_margin)
        visit = torch.cat(columns, -1).div_(total)
        if epoch in SNAPSHOT_EPOCHS:
            self._keep(SNAPSHOT_EPOCHS.index(epoch), index, others, visit)
        self._sums.index_add_(0, index, visit.mul_(_UNITS).nan_to_num_(0.0).long())
        if has_abstention:
            f_0 = torch.sigmoid(gaps[:, -1] - total.squeeze(-1).log_())
            self._abstention.index_copy_(0, index, f_0)
        else:
            self._abstention.index_fill_(0, index, torch.nan)
        if isinstance(payoff, Tensor):
            self._payoff.index_copy_(0, index, payoff.float().expand(index.shape))
        else:
            self._payoff.index_fill_(0, index, torch.nan if payoff is None else payoff)
        self._last_step.index_copy_(0, index, self._step.expand(index.shape))
        self._step += 1

    def _keep(self, place: int, index: Tensor, others: Tensor, visit: Tensor) -> None:
        """Keep this epoch's beliefs of some samples, unless they are not finite."""
        finite = visit[:, _VISITS] == 1
        rival = others.argmax(-1).int().where(finite, _NO_CLASS)
        self._rival[place].index_copy_(0, index, rival)
        for kept, column in zip(self._beliefs, (_BELIEF, _RIVAL), strict=True):
            beliefs = visit[:, column].where(finite, _NO_BELIEF)
            kept[place].index_copy_(0, index, beliefs.half())

    @property
    def visits(self) -> Tensor:
        """Number of times that each sample was seen."""
        return self._sums[:, _VISITS] // _UNITS

    @property
    def wrong(self) -> Tensor:
        """Number of times that another class than the given one was predicted."""
        return self._sums[:, _WRONG] // _UNITS

    @property
    def belief(self) -> Tensor:
        """Mean belief q in the given label; NaN if never visited."""
        return self._mean(self._sums[:, _BELIEF])

    @property
    def margin(self) -> Tensor:
        """Mean of the belief in the given label less that in the likeliest other one, or NaN."""
        return self._mean(self._sums[:, _BELIEF] - self._sums[:, _RIVAL])

    @property
    def evidence(self) -> Tensor:
        """Mean of log (q_given + floor)/(q_rival + floor) over visits, weighted by 1/epoch, or NaN.

        The mean over log time. It ranks labels better than the plain mean of beliefs or margins
        wherever a model ends up memorising some of them.
        """
        return (self._sums[:, _EVIDENCE] / self._sums[:, _WEIGHT]).float()

    @property
    def logit_margin(self) -> Tensor:
        """Mean of log q_given/q_rival over visits, or NaN: no floor, and all visits count alike.

        The margin of logits known as AUM (Pleiss et al. 2020). It ranks pairflip noise better than
        the evidence does, and real errors no better.
        """
        return self._mean(self._sums[:, _LOGIT_MARGIN])

    @property
    def snapshots(self) -> list[Snapshot]:
        """One for each of `SNAPSHOT_EPOCHS` that the training reached."""
        return [
            Snapshot(epoch=epoch, rival=rival, belief=belief, rival_belief=rival_belief)
            for epoch, rival, belief, rival_belief in zip(
                SNAPSHOT_EPOCHS, self._rival, *self._beliefs, strict=True
            )
            if bool((rival != _NO_CLASS).any())
        ]

    @property
    def abstention(self) -> Tensor:
        """f_0 at the last visit; NaN if never visited, or without an abstention output."""
        return self._abstention.clone()

    @property
    def payoff(self) -> Tensor:
        """λ at the last visit; NaN if never visited, or where the loss had none."""
        return self._payoff.clone()

    def _mean(self, sums: Tensor) -> Tensor:
        return (sums / self._sums[:, _VISITS]).float()

    def clear(self) -> None:
        """Forget all visits, but not how many steps there were."""
        self._sums.zero_()
        self._abstention.fill_(torch.nan)
        self._payoff.fill_(torch.nan)
        self._last_step.fill_(-1)
        self._rival.fill_(_NO_CLASS)
        self._beliefs.fill_(_NO_BELIEF)

    def merge(self, others: Iterable["Ledger"]) -> "Ledger":
        """A ledger of all visits of this one and others, which stay as they are.

        Sums add up exactly. Abstention and payoff are those of the visit at the latest step; where
        several ledgers visited a sample in that same step, the greatest of theirs, and NaN if one
        of them has NaN. So neither order nor grouping matters. A snapshot
        of a sample is in one ledger only, as an epoch visits each sample once.

        >>> one, two = Ledger(2), Ledger(2)
        >>> one.update(torch.tensor([0]), torch.zeros(1, 3), torch.tensor([0]))
        >>> two.update(torch.tensor([0]), torch.tensor([[0.0, 2.0, 0.0]]), torch.tensor([0]))
        >>> one.merge([two]).visits
        tensor([2, 0])
        """
        states = [ledger.state_dict() for ledger in (self, *others)]
        for state in states:
            self._check(state)
        return self._like(
            {
                name: torch.stack([s[name].to(own.device) for s in states])
                for name, own in states[0].items()
            }
        )

    def merge_(self, others: Iterable["Ledger"]) -> "Ledger":
        """`merge` into this ledger, and return it."""
        self.load_state_dict(self.merge(others).state_dict())
        return self

    def _like(self, stacked: Mapping[str, Tensor]) -> "Ledger":
        """A new ledger, from the states of several stacked along a first dimension."""
        latest = stacked["last_step"].amax(0)
        is_last = stacked["last_step"] == latest
        ledger = Ledger(len(self), self._sums.device)
        ledger.load_state_dict(
            {
                "sums": stacked["sums"].sum(0),
                "abstention": stacked["abstention"].where(is_last, -torch.inf).amax(0),
                "payoff": stacked["payoff"].where(is_last, -torch.inf).amax(0),
                "last_step": latest,
                "rival": stacked["rival"].amax(0),
                "beliefs": stacked["beliefs"].amax(0),
                "step": stacked["step"].amax(0),
            }
        )
        return ledger

    def state_dict(self) -> dict[str, Tensor]:
        """The ledger itself, not a copy: tensors only, fit for a checkpoint."""
        return {
            "sums": self._sums,
            "abstention": self._abstention,
            "payoff": self._payoff,
            "last_step": self._last_step,
            "rival": self._rival,
            "beliefs": self._beliefs,
            "step": self._step,
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Become a copy of a state, on the device where this ledger is."""
        self._check(state)
        for name, own in self.state_dict().items():
            own.copy_(state[name])

    def cpu(self) -> "Ledger":
        """A copy on the CPU."""
        copy = Ledger(len(self))
        copy.load_state_dict(self.state_dict())
        return copy

    def _check(self, state: Mapping[str, Tensor]) -> None:
        expected = {name: (tuple(own.shape), own.dtype) for name, own in self.state_dict().items()}
        got = {name: (tuple(value.shape), value.dtype) for name, value in state.items()}
        if got != expected:
            raise AbstainError(
                f"must be that of a ledger of {len(self)} samples: {expected}, got {got}; "
                "is it of another data set?",
                argument="state",
            )

    def table(self, ids: npt.ArrayLike, given: npt.ArrayLike) -> dict[str, npt.NDArray[Any]]:
        """A row for each sample, by column; NaN where a sample was never visited.

        Args:
            ids: The id of each sample.
            given: The given label of each sample.

        >>> Ledger(1).table(["a.png"], [3])["belief"]
        array([nan], dtype=float32)
        """
        columns = {"id": np.asarray(ids), "given": np.asarray(given)}
        for name, column in columns.items():
            if column.shape != (len(self),):
                raise AbstainError(
                    f"must have one entry for each of {len(self)} samples, "
                    f"got the shape {column.shape}",
                    argument=name,
                )
        return columns | {name: getattr(self, name).numpy(force=True) for name in _STATISTICS}


def reduced(ledger: Ledger, gather: Callable[[Tensor], Tensor]) -> Ledger:
    """The ledger of all processes, from that of this one; the same in each, merged by `merge`.

    Args:
        ledger: What this process saw.
        gather: Collects a tensor from all W processes, in the same order in each: the result has
            one more dimension, of size W, before the others.

    >>> ledger = Ledger(2)
    >>> ledger.update(torch.tensor([1]), torch.zeros(1, 3), torch.tensor([0]))
    >>> reduced(ledger, lambda tensor: torch.stack([tensor, tensor])).visits
    tensor([0, 2])
    """
    return ledger._like({name: gather(own) for name, own in ledger.state_dict().items()})
