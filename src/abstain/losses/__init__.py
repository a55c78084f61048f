"""Losses that let a model abstain from a label instead of memorising it.

Goes in: logits and labels. Comes out: a loss per sample, or reduced. Begin with gamblers.py.

`gamblers.py` is the loss of the paper, `payoff.py` the rules that set its payoff, `robust.py` two
relatives on plain logits, `outputs.py` reads the m+1 outputs, `kernels.py` the arithmetic and
`combine.py` what all of them share with `torch.nn.CrossEntropyLoss`.
"""

from abstain.losses.combine import LossOptions
from abstain.losses.gamblers import GamblersLoss, gamblers_loss
from abstain.losses.outputs import abstention, belief, predict, stake
from abstain.losses.payoff import DEFAULT_GUARD, PayoffRule, log_payoff
from abstain.losses.robust import (
    GeneralizedCrossEntropy,
    SmallStakeLoss,
    generalized_cross_entropy,
    small_stake_loss,
)

__all__ = [
    "DEFAULT_GUARD",
    "GamblersLoss",
    "GeneralizedCrossEntropy",
    "LossOptions",
    "PayoffRule",
    "SmallStakeLoss",
    "abstention",
    "belief",
    "gamblers_loss",
    "generalized_cross_entropy",
    "log_payoff",
    "predict",
    "small_stake_loss",
    "stake",
]
