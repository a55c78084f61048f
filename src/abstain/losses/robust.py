"""Noise-tolerant losses on plain logits: the small-stake limit, generalised cross-entropy."""

import math
from collections.abc import Callable
from functools import partial
from typing import Unpack

import torch
from torch import Tensor

from abstain.errors import AbstainError
from abstain.losses.combine import (
    ClassLoss,
    LossOptions,
    Options,
    check_inputs,
    classes_last,
    combine,
    in_result_precision,
    in_working_precision,
)


def small_stake_loss(logits: Tensor, target: Tensor, **options: Unpack[LossOptions]) -> Tensor:
    """loss_i = λ_i (1 − q_y) with λ_i = 1/Σq² held constant: the guarded `euc` loss as stake → 0.

    Mean absolute error, weighted by how undecided the model is. At a uniform belief its gradient is
    that of cross-entropy; at a confident belief it ignores a label that disagrees. It needs no
    abstention output and no guard.

    Args:
        logits: (C), (N, C) or (N, C, d1, …) with one output per class.
        target: class indices or class probabilities, as for cross-entropy.
        **options: as for `gamblers_loss`.

    >>> small_stake_loss(torch.zeros(1, 10), torch.tensor([3]))
    tensor(9.)
    """
    return _loss(logits, target, _small_stake, Options(**options))


class SmallStakeLoss(ClassLoss):
    """`small_stake_loss` as a module.

    >>> SmallStakeLoss()(torch.zeros(1, 10), torch.tensor([3]))
    tensor(9.)
    """

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """The loss of a batch; see `small_stake_loss`."""
        return _loss(logits, target, _small_stake, self.options)


def generalized_cross_entropy(
    logits: Tensor,
    target: Tensor,
    q: float = 0.7,
    truncate: float | None = None,
    **options: Unpack[LossOptions],
) -> Tensor:
    """L_q = (1 − p_y^q)/q, between cross-entropy (q → 0) and mean absolute error (q = 1).

    Zhang and Sabuncu, "Generalized Cross Entropy Loss for Training Deep Neural Networks with
    Noisy Labels", 2018. Truncated at k, a label whose probability is below k costs as much as at
    k and has no gradient.

    Args:
        logits: (C), (N, C) or (N, C, d1, …) with one output per class.
        target: class indices or class probabilities, as for cross-entropy.
        q: in (0, 1].
        truncate: k in (0, 1), or None.
        **options: as for `gamblers_loss`.

    >>> generalized_cross_entropy(torch.zeros(1, 2), torch.tensor([0]), q=1.0)
    tensor(0.5000)
    """
    _check_settings(q, truncate)
    return _loss(logits, target, partial(_generalized, q, truncate), Options(**options))


class GeneralizedCrossEntropy(ClassLoss):
    """`generalized_cross_entropy` as a module.

    >>> GeneralizedCrossEntropy(q=1.0)(torch.zeros(1, 2), torch.tensor([0]))
    tensor(0.5000)
    """

    def __init__(
        self, q: float = 0.7, truncate: float | None = None, **options: Unpack[LossOptions]
    ) -> None:
        super().__init__(**options)
        _check_settings(q, truncate)
        self.q, self.truncate = q, truncate

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """The loss of a batch; see `generalized_cross_entropy`."""
        return _loss(logits, target, partial(_generalized, self.q, self.truncate), self.options)

    def extra_repr(self) -> str:
        """The settings in which two such losses differ."""
        return f"q={self.q}, truncate={self.truncate}"


_OfClass = Callable[[Tensor, Tensor], Tensor]
"""From all log-probabilities (…, m) and those of some classes (…, k) to the losses of these."""


def _small_stake(log_belief: Tensor, chosen: Tensor) -> Tensor:
    effective_classes = torch.exp(-torch.logsumexp(2 * log_belief.detach(), -1, keepdim=True))
    return effective_classes * -torch.expm1(chosen)


def _generalized(q: float, truncate: float | None, _: Tensor, chosen: Tensor) -> Tensor:
    if truncate is not None:
        chosen = chosen.clamp(min=math.log(truncate))  # no gradient below
    return -torch.expm1(q * chosen) / q


def _check_settings(q: float, truncate: float | None) -> None:
    if not 0 < q <= 1:
        raise AbstainError(f"must lie in (0, 1], got {q}", argument="q")
    if truncate is not None and not 0 < truncate < 1:
        raise AbstainError(f"must lie in (0, 1), got {truncate}", argument="truncate")


def _loss(logits: Tensor, target: Tensor, of_class: _OfClass, options: Options) -> Tensor:
    outputs = classes_last(logits)
    num_classes = outputs.shape[-1]
    if target.is_floating_point():
        target = classes_last(target)
    check_inputs(outputs, target, num_classes, options)
    log_belief = torch.log_softmax(in_working_precision(outputs), -1)

    def losses_at(label: Tensor) -> Tensor:
        return of_class(log_belief, log_belief.gather(-1, label.unsqueeze(-1))).squeeze(-1)

    def all_losses() -> Tensor:
        return of_class(log_belief, log_belief)

    return in_result_precision(combine(losses_at, all_losses, target, num_classes, options), logits)
