"""Closed forms of the gambler's loss, and their inverses.

Goes in: a noise rate or label probabilities, and a payoff. Comes out: bets, losses and payoffs.
Begin with `plateau` in plateaus.py; the best bet is in bets.py.

A network that is trained on partly wrong labels first learns what can be learnt, and its loss
rests on a *plateau* before it starts to memorise. This package computes that plateau.

It sees each point as a horse race with a reserve. The given label of the point is class j with
probability p_j; the network bets f_j on each class and keeps f_0 (the abstention) in reserve;
its loss is −Σ p_j log(f_j + f_0/λ), with λ the payoff. Everything here follows from the best bet.

Theorems are numbered as in "Learning Not to Learn in the Presence of Noisy Labels"; where the
paper is wrong, the docstring says so and the function gives the right value. Arguments may be
numbers or arrays; arrays broadcast, and the last axis of `probabilities` runs over the classes.
"""

from abstain.theory.bets import Bet, entropy_bound, is_learnable, optimal_bet, untrained_loss
from abstain.theory.label_noise import NOISE_KINDS, label_distribution
from abstain.theory.payoffs import robustness_gain, stoppable_payoffs, suggested_payoff
from abstain.theory.plateaus import (
    Plateau,
    clean_rate_from_plateau,
    plateau,
    plateau_of,
    plateau_parts,
    plateau_parts_of,
)

__all__ = [
    "NOISE_KINDS",
    "Bet",
    "Plateau",
    "clean_rate_from_plateau",
    "entropy_bound",
    "is_learnable",
    "label_distribution",
    "optimal_bet",
    "plateau",
    "plateau_of",
    "plateau_parts",
    "plateau_parts_of",
    "robustness_gain",
    "stoppable_payoffs",
    "suggested_payoff",
    "untrained_loss",
]
