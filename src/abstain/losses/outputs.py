"""Read the m+1 outputs of a model: belief, stake, abstention, prediction.

The abstention output is the last one, so that class numbers stay what they are.
"""

import torch
from torch import Tensor

from abstain.errors import AbstainError


def belief(logits: Tensor, dim: int = -1) -> Tensor:
    """q = f / Σf over the classes: the softmax of the class outputs alone.

    >>> belief(torch.tensor([0.0, 0.0, 5.0]))
    tensor([0.5000, 0.5000])
    """
    return torch.softmax(_class_logits(logits, dim), dim)


def stake(logits: Tensor, dim: int = -1) -> Tensor:
    """s = 1 − f_0: the probability that the model puts on classes; exact however small.

    >>> stake(torch.zeros(11))
    tensor(0.9091)
    """
    return torch.sigmoid(_log_odds_of_betting(logits, dim))


def abstention(logits: Tensor, dim: int = -1) -> Tensor:
    """f_0: the probability that the model keeps in reserve; exact however small.

    >>> abstention(torch.zeros(11))
    tensor(0.0909)
    """
    return torch.sigmoid(-_log_odds_of_betting(logits, dim))


def predict(logits: Tensor, coverage: float = 1.0, dim: int = -1) -> Tensor:
    """The likeliest class of each sample, or −1 where the model abstains.

    Of all samples the share `coverage` gets an answer: those with the least abstention.

    >>> predict(torch.tensor([[2.0, 0.0, -9.0], [0.0, 1.0, 9.0]]), coverage=0.5)
    tensor([ 0, -1])
    """
    if not 0 <= coverage <= 1:
        raise AbstainError(f"must lie in [0, 1], got {coverage}", argument="coverage")
    classes = _class_logits(logits, dim).argmax(dim)
    silent = classes.numel() - round(coverage * classes.numel())
    if silent == 0:
        return classes
    least_willing = _log_odds_of_betting(logits, dim).flatten().argsort(stable=True)[:silent]
    return classes.flatten().index_fill(0, least_willing, -1).view_as(classes)


def _class_logits(logits: Tensor, dim: int) -> Tensor:
    outputs = logits.shape[dim]
    if outputs < 3:
        raise AbstainError(
            f"must have an output per class and one for abstention, 3 or more, got {outputs}",
            argument="logits",
        )
    return logits.narrow(dim, 0, outputs - 1)


def _log_odds_of_betting(logits: Tensor, dim: int) -> Tensor:
    return torch.logsumexp(_class_logits(logits, dim), dim) - logits.select(dim, -1)
