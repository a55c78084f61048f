"""Rules that set the payoff of each sample from the model's own outputs, and the guard they need.

With stake s = Σf over the classes and belief q = f/s:

    euc   λ = (1 + guard/s²) / Σq²    the effective number of classes
    mid   λ = 1 / (s Σq²)             clamped to [1, m]
    exp   λ = exp(H(q)) / s           clamped to [1, m]
"""

import math
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from abstain.errors import AbstainError
from abstain.losses.kernels import log_euc_payoff

PayoffRule: TypeAlias = Literal["euc", "mid", "exp"]

DEFAULT_GUARD = 1e-8


def check_rule(rule: str) -> None:
    """Raise an error if there is no such rule."""
    if rule not in get_args(PayoffRule):
        raise AbstainError(
            f"must be a number, a tensor, 'euc', 'mid' or 'exp', got {rule!r}", argument="payoff"
        )


def log_payoff(rule: PayoffRule, logits: Tensor, guard: float = DEFAULT_GUARD) -> Tensor:
    """Log of the payoff that a rule sets for each sample; without gradient.

    The exact `euc` rule (guard 0) makes the expected gain of any bet exactly 1, so by Jensen's
    inequality its expected log-return is negative: the best stake is none. Abstention goes to 1
    everywhere within some fifty steps, the gradients of the classes, proportional to the stake,
    vanish, and nothing is learnt. The guard raises the payoff without bound as the stake falls
    below its square root, so that a small stake always pays.

    `mid` and `exp` exceed m at small stakes by themselves, where abstaining never pays; they are
    clamped to [1, m], and the guard has no part in them.

    Args:
        rule: "euc", "mid" or "exp".
        logits: (…, m+1), the abstention output last.
        guard: of the `euc` rule; 0 gives the exact rule.

    >>> log_payoff("euc", torch.zeros(1, 11)).exp()   # an undecided model: all ten classes
    tensor([10.])
    """
    check_rule(rule)
    logits = logits.detach()
    classes = logits[..., :-1]
    log_sum = torch.logsumexp(classes, -1)
    log_stake = log_sum - torch.logsumexp(logits, -1)
    log_spread = log_sum - torch.logsumexp(2 * classes, -1) / 2
    if rule == "euc":
        return log_euc_payoff(log_spread, log_stake, guard)
    if rule == "mid":
        log_effective_classes = 2 * log_spread
    else:
        log_belief = classes - log_sum.unsqueeze(-1)
        log_effective_classes = -(log_belief.exp() * log_belief).sum(-1)
    return (log_effective_classes - log_stake).clamp(0.0, math.log(classes.shape[-1]))
