"""The losses of K recipes, whatever their methods, as one formula: `Losses`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import softplus

from abstain.losses.kernels import plain_bet_loss
from abstain.training.objective.losses import trust_from, trusted_losses
from abstain.training.plan import Plan
from reproduction.authors_plan import quirk
from reproduction.stacked.per_model import PerModel

_RULES = ("fixed", "euc", "mid", "exp")


@dataclass(frozen=True)
class Losses(PerModel):
    """The losses of K recipes as one formula, with a column (K, 1) for each of its parameters.

    A bet is judged by `plain_bet_loss` at the payoff of its rule, cross-entropy being a bet at an
    infinite payoff. The others are one family, w · (1 − q_y^p)/p: L_q with w = 1, and the small
    stake with p = 1 and w = 1/Σq², held constant.
    """

    rule: Tensor
    """Position in `_RULES`."""
    log_fixed: Tensor
    log_guard: Tensor
    shows_payoff: Tensor
    bets: Tensor
    power: Tensor
    floor: Tensor
    """log q_y below which L_q is truncated."""
    weighs: Tensor
    trusts: Tensor
    """Whether what is remembered of a sample weighs its label."""
    warm: Tensor
    """Whether cross-entropy is trained for now."""
    log_warm: Tensor
    """Log of the payoff of the warm-up."""
    log_inside: Tensor
    """Log of what is added to a return before its logarithm."""
    public: Tensor
    """Whether probabilities go into cross-entropy, as in the public code of Co-teaching+."""

    @classmethod
    def of(cls, recipes: Sequence[Plan], device: torch.device, dtype: torch.dtype) -> Self:
        """The table of resolved recipes."""

        def column(values: list[float] | list[bool], kind: torch.dtype = dtype) -> Tensor:
            return torch.tensor(values, dtype=kind, device=device).unsqueeze(1)

        is_bet = [r.loss in ("gamblers", "nll") for r in recipes]
        by_rule = [r.loss == "gamblers" and isinstance(r.payoff, str) for r in recipes]
        rules = [
            _RULES.index(str(r.payoff)) if ruled else 0
            for r, ruled in zip(recipes, by_rule, strict=True)
        ]
        fixed = [
            math.log(float(r.payoff or math.inf))
            if r.loss == "gamblers" and not ruled
            else math.inf
            for r, ruled in zip(recipes, by_rule, strict=True)
        ]
        fixed = [
            math.log(quirk(r, "fixed_payoff") or 0) if quirk(r, "fixed_payoff") else log_payoff
            for r, log_payoff in zip(recipes, fixed, strict=True)
        ]
        is_small = [r.loss == "small-stake" for r in recipes]
        return cls(
            rule=torch.tensor(rules, device=device).unsqueeze(1),
            log_fixed=column(fixed),
            log_guard=column([math.log(r.guard) for r in recipes]),
            shows_payoff=column([r.loss == "gamblers" for r in recipes], torch.bool),
            bets=column(is_bet, torch.bool),
            power=column([1.0 if r.loss == "small-stake" else r.q for r in recipes]),
            floor=column(
                [
                    math.log(r.truncate) if r.truncate and r.loss == "lq" else -math.inf
                    for r in recipes
                ]
            ),
            weighs=column(is_small, torch.bool),
            trusts=column([r.loss == "trusted" for r in recipes], torch.bool),
            warm=column([False] * len(recipes), torch.bool),
            log_warm=column([math.log(quirk(r, "warm_payoff") or math.inf) for r in recipes]),
            log_inside=column([math.log(quirk(r, "inside") or 1e-300) for r in recipes]),
            public=column([quirk(r, "public") for r in recipes], torch.bool),
        )

    def __call__(
        self, logits: Tensor, given: Tensor, memory: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Losses (K, B) of logits (K, B, m+1), and the logs of the payoffs that were used."""
        classes = logits[..., :-1]
        log_belief = torch.log_softmax(classes, -1)
        log_payoff, effective_classes = self._constants(logits.detach(), log_belief.detach())
        bet = plain_bet_loss(logits, given, log_payoff)
        bet = bet - softplus(bet + self.log_inside)
        label = log_belief.gather(-1, given.unsqueeze(-1)).squeeze(-1)
        twice = torch.log_softmax(log_belief.exp(), -1).gather(-1, given.unsqueeze(-1)).squeeze(-1)
        bet = torch.where(self.public, -torch.where(self.warm, label, twice), bet)
        robust = -torch.expm1(self.power * label.clamp(min=self.floor)) / self.power
        robust = torch.where(self.weighs, effective_classes, 1.0) * robust
        if memory is not None:
            trusted = trusted_losses(log_belief, given, trust_from(memory))
            robust = torch.where(self.trusts, trusted, robust)
        return torch.where(self.bets | self.warm, bet, robust), log_payoff

    def _constants(self, logits: Tensor, log_belief: Tensor) -> tuple[Tensor, Tensor]:
        """Log of the payoff, as `losses.payoff` defines it, and 1/Σq²: no gradient sees them."""
        log_stake = torch.logsumexp(logits[..., :-1], -1) - torch.logsumexp(logits, -1)
        log_effective = -torch.logsumexp(2 * log_belief, -1)
        entropy = -(log_belief.exp() * log_belief).sum(-1)
        most = math.log(log_belief.shape[-1])
        euc = log_effective + softplus(self.log_guard - 2 * log_stake, threshold=50)
        mid, exp = ((x - log_stake).clamp(0.0, most) for x in (log_effective, entropy))
        log_payoff = self.log_fixed.expand_as(euc)
        for position, value in enumerate((euc, mid, exp), start=1):
            log_payoff = torch.where(self.rule == position, value, log_payoff)
        return torch.where(self.warm, self.log_warm, log_payoff), log_effective.exp()
