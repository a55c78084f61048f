"""The gambler's loss on class indices, classes last, any leading shape: `bet_loss`.

With f = softmax(z), stake s = 1 − f_0 and w = f_y / (f_y + f_0/λ), λ held constant,

    loss = LSE(z) − logaddexp(z_y, z_0 − log λ)
    ∂loss/∂z = f − w·[y] − (1 − w)·[abstain],     and so ∂loss/∂z_0 = w − s.

Written twice: `_Bet` has the gradient in closed form and saves one buffer, for eager code;
`plain_bet_loss` is the same in differentiable operations, for `torch.compile`, which fuses it by
itself, and for `torch.func`, whose transforms take no hand-written gradient at this price.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, pad, softplus


def log_euc_payoff(log_spread: Tensor, log_stake: Tensor, guard: float) -> Tensor:
    """Log of (1 + guard/s²)/Σq²; with a guard of 0 the exact rule, 1/Σq².

    Args:
        log_spread: log(Σf / ‖f‖) over the classes, half the log of 1/Σq².
        log_stake: log s.
        guard: at least 0.
    """
    if guard == 0:
        return 2 * log_spread
    # log(1 + guard/s²); by default torch's softplus cuts its tail off at 20, too early for float64.
    raised = softplus(torch.rsub(log_stake, math.log(guard), alpha=2), threshold=50)
    return torch.add(raised, log_spread, alpha=2)


class _Bet(torch.autograd.Function):
    """The closed form.

    On small batches the number of operations is the cost: so per-sample quantities keep a last
    dimension of one, the slope is made where its parts are at hand, and the mean is taken inside.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        logits: Tensor,
        target: Tensor,
        log_payoff: Tensor | float,
        guard: float | None,
        mean: bool,
    ) -> Tensor:
        parts = (logits.shape[-1] - 1, 1)
        classes, reserve = torch.split_with_sizes(logits, parts, -1)
        # The abstention output has no part in the maximum: where it dominates, the belief would
        # underflow, and with it the payoff rule. Its column may become inf; nothing reads it.
        top = classes.amax(-1, keepdim=True)
        weights = (logits - top).exp_()
        bets, unread = torch.split_with_sizes(weights, parts, -1)
        total = bets.sum(-1, keepdim=True)
        log_classes = total.log().add_(top)
        log_all = torch.logaddexp(log_classes, reserve)
        log_stake = log_classes.sub_(log_all)
        if guard is not None:
            norm = torch.linalg.vector_norm(bets, dim=-1, keepdim=True)
            log_payoff = log_euc_payoff((total / norm).log_(), log_stake, guard)
        reserve = reserve - log_payoff
        label = classes.gather(-1, target)
        loss = log_all - torch.logaddexp(label, reserve)
        if ctx.needs_input_grad[0]:
            share = torch.sigmoid(label - reserve)  # w: what the bet on the label adds
            stake = log_stake.exp_()
            slope = weights.mul_(stake / total)
            torch.sub(share, stake, out=unread)  # the slope of the abstention output
            slope.scatter_add_(-1, target, share.neg_())
            ctx.save_for_backward(slope, logits, target, reserve)
            ctx.count = loss.numel() if mean else None
        return loss.mean() if mean else loss.squeeze(-1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None]:  # noqa: ANN401
        slope, logits, target, reserve = ctx.saved_tensors
        if torch.is_grad_enabled():
            # A second derivative is wanted: start again from the logits, which autograd follows.
            log_payoff = (logits[..., -1:] - reserve).detach()
            edge = logits.gather(-1, target) - logits[..., -1:] + log_payoff
            slope = torch.softmax(logits, -1).scatter_add(-1, target, -torch.sigmoid(edge))
            slope = slope - pad(torch.sigmoid(-edge), (logits.shape[-1] - 1, 0))
        grad = grad.unsqueeze(-1) if ctx.count is None else grad / ctx.count
        return slope * grad, None, None, None, None


def log_return(bet: Tensor, reserve: Tensor) -> Tensor:
    """Log of f_j + f_0/λ; `logaddexp` has no second derivative where the payoff is infinite."""
    return bet - logsigmoid(bet - reserve)


def plain_bet_loss(
    logits: Tensor, target: Tensor, log_payoff: Tensor | float, guard: float | None = None
) -> Tensor:
    """`bet_loss` per sample in differentiable operations."""
    classes, reserve = logits[..., :-1], logits[..., -1]
    log_all = torch.logsumexp(logits, -1)
    if guard is not None:
        fixed = classes.detach()
        log_sum = torch.logsumexp(fixed, -1)
        log_spread = log_sum - torch.logsumexp(2 * fixed, -1) / 2
        log_payoff = log_euc_payoff(log_spread, log_sum - log_all.detach(), guard)
    label = classes.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    return log_all - log_return(label, reserve - log_payoff)


def bet_loss(
    logits: Tensor,
    target: Tensor,
    log_payoff: Tensor | float,
    guard: float | None = None,
    *,
    mean: bool = False,
) -> Tensor:
    """The gambler's loss per sample, at a given payoff or, with a guard, at that of the `euc` rule.

    Args:
        logits: (…, m+1), the abstention output last; float32 or float64.
        target: (…) class indices in [0, m).
        log_payoff: broadcasts to (…); not read where a guard is given.
        guard: the guard of the `euc` rule, whose sums the loss has at hand anyway.
        mean: take the mean over all samples.

    >>> bet_loss(torch.zeros(2, 11), torch.tensor([3, 4]), math.log(9.99))
    tensor([2.3025, 2.3025])
    """
    if not torch.compiler.is_compiling():
        column = log_payoff.unsqueeze(-1) if isinstance(log_payoff, Tensor) else log_payoff
        try:
            loss: Tensor = _Bet.apply(logits, target.unsqueeze(-1), column, guard, mean)  # type: ignore[no-untyped-call]
        except RuntimeError:
            pass  # inside torch.func; anything really wrong raises again below
        else:
            return loss
    loss = plain_bet_loss(logits, target, log_payoff, guard)
    return loss.mean() if mean else loss
