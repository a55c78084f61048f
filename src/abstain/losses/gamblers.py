"""The gambler's loss: −log(f_y + f_0/λ), where f_0 is what the model keeps out of the bet.

A correct bet returns λ times what was staked on it, the reserve f_0 comes back as it is. Where
the label of a point cannot be foreseen, betting loses: the model abstains instead of memorising.
"""

import math
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
    looked_at,
    smallest_and_largest,
)
from abstain.losses.kernels import bet_loss, log_return
from abstain.losses.payoff import DEFAULT_GUARD, PayoffRule, check_rule, log_payoff


def gamblers_loss(
    logits: Tensor,
    target: Tensor,
    payoff: float | PayoffRule | Tensor = "euc",
    *,
    guard: float = DEFAULT_GUARD,
    **options: Unpack[LossOptions],
) -> Tensor:
    """loss_i = LSE(z) − logaddexp(z_y, z_0 − log λ_i), in the log domain throughout.

    Takes what `torch.nn.functional.cross_entropy` takes, and equals it on all m+1 outputs at an
    infinite payoff. Abstaining is an answer, never a label: weights are one per class, class
    probabilities have m columns, and smoothing spreads the label over the m classes.

    Args:
        logits: (C), (N, C) or (N, C, d1, …) with C = m+1 outputs, the abstention output last.
        target: class indices of the shape of the logits without C, or probabilities with C = m.
        payoff: what a correct bet returns, in (1, m], or infinite: one number, a tensor that
            broadcasts to the samples, or a rule, "euc", "mid" or "exp" (`losses.payoff`). It is a
            constant for the gradient.
        guard: keeps the "euc" rule from collapsing (`losses.payoff.log_payoff` says why).
        **options: `weight`, `ignore_index`, `reduction`, `label_smoothing`, `check`
            (`losses.combine.LossOptions`).

    >>> gamblers_loss(torch.zeros(4, 11), torch.tensor([0, 1, 2, 3]), payoff=9.99)
    tensor(2.3025)
    """
    _check_settings(payoff, guard)
    return _loss(logits, target, payoff, guard, Options(**options))


class GamblersLoss(ClassLoss):
    """`gamblers_loss` as a module: a drop-in for `torch.nn.CrossEntropyLoss` on m+1 outputs.

    >>> loss = GamblersLoss()                        # sets the payoff of each sample by itself
    >>> logits = torch.randn(8, 11, requires_grad=True)
    >>> loss(logits, torch.arange(8)).backward()
    """

    payoff: float | PayoffRule | Tensor

    def __init__(
        self,
        payoff: float | PayoffRule | Tensor = "euc",
        *,
        guard: float = DEFAULT_GUARD,
        **options: Unpack[LossOptions],
    ) -> None:
        super().__init__(**options)
        _check_settings(payoff, guard)
        self.guard = guard
        if isinstance(payoff, Tensor):
            self.register_buffer("payoff", payoff)  # so that it follows the module to its device
        else:
            self.payoff = payoff

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """The loss of a batch; see `gamblers_loss`."""
        return _loss(logits, target, self.payoff, self.guard, self.options)

    def extra_repr(self) -> str:
        """The settings in which two such losses differ."""
        return f"payoff={self.payoff}, guard={self.guard:g}"


def _check_settings(payoff: float | str | Tensor, guard: float) -> None:
    """Check what does not depend on the number of classes."""
    if isinstance(payoff, str):
        check_rule(payoff)
    elif not isinstance(payoff, Tensor) and not payoff > 1:
        raise AbstainError(f"must be greater than 1, got {payoff}", argument="payoff")
    if not 0 < guard < math.inf:
        raise AbstainError(
            f"must be a number greater than 0, got {guard}; the euc rule collapses without",
            argument="guard",
        )


def _loss(
    logits: Tensor,
    target: Tensor,
    payoff: float | PayoffRule | Tensor,
    guard: float,
    options: Options,
) -> Tensor:
    outputs = classes_last(logits)
    num_classes = outputs.shape[-1] - 1
    if target.is_floating_point():
        target = classes_last(target)
    some_ignored = check_inputs(outputs, target, num_classes, options)
    outputs = in_working_precision(outputs)
    spread = target.is_floating_point() or options.label_smoothing > 0
    fused_guard = guard if isinstance(payoff, str) and payoff == "euc" and not spread else None
    log_payoffs = 0.0 if fused_guard else _log_payoffs(payoff, outputs, guard, options.check)

    def losses_at(label: Tensor) -> Tensor:
        return bet_loss(outputs, label, log_payoffs, fused_guard)

    def all_losses() -> Tensor:
        log_outputs = torch.log_softmax(outputs, -1)
        reserve = log_outputs[..., -1] - log_payoffs
        return -log_return(log_outputs[..., :-1], reserve.unsqueeze(-1))

    if spread or some_ignored or options.weight is not None:
        loss = combine(losses_at, all_losses, target, num_classes, options)
    else:
        mean = options.reduction == "mean"
        loss = bet_loss(outputs, target.long(), log_payoffs, fused_guard, mean=mean)
        loss = loss.sum() if options.reduction == "sum" else loss
    return in_result_precision(loss, logits)


def _log_payoffs(
    payoff: float | PayoffRule | Tensor, outputs: Tensor, guard: float, check: bool
) -> Tensor | float:
    """The payoff of each sample (or one for all), in logs; raises if it is out of range."""
    if isinstance(payoff, str):
        return log_payoff(payoff, outputs, guard)
    num_classes = outputs.shape[-1] - 1
    rule = f"must lie in (1, {num_classes}] for {num_classes} classes, or be infinite, got"
    if not isinstance(payoff, Tensor):
        if num_classes < payoff < math.inf:
            raise AbstainError(f"{rule} {payoff:g}", argument="payoff")
        return math.log(payoff)
    payoff = payoff.detach().to(outputs.dtype)
    try:
        payoff.expand(outputs.shape[:-1])
    except RuntimeError:
        raise AbstainError(
            f"must broadcast to the samples, {tuple(outputs.shape[:-1])}, "
            f"got shape {tuple(payoff.shape)}",
            argument="payoff",
        ) from None
    if looked_at(payoff, check):
        span = smallest_and_largest(payoff.masked_fill(payoff.isposinf(), num_classes))
        if span and not 1 <= span[0] <= span[1] <= num_classes:
            raise AbstainError(f"{rule} values from {span[0]:g} to {span[1]:g}", argument="payoff")
    return payoff.log()
