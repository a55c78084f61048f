"""Optimisers and learning-rate schedules by name."""

from collections.abc import Iterable

import torch
from torch.optim.lr_scheduler import LRScheduler

from abstain.errors import AbstainError
from abstain.training.recipe import Recipe


def make_optimizer(
    parameters: Iterable[torch.nn.Parameter], recipe: Recipe
) -> torch.optim.Optimizer:
    """The optimiser of a recipe; Adam and AdamW in their fused form.

    >>> make_optimizer([torch.nn.Parameter(torch.zeros(2))], Recipe()).defaults["lr"]
    0.001
    """
    trainable = [p for p in parameters if p.requires_grad]
    rate, decay = recipe.learning_rate, recipe.weight_decay
    if recipe.optimizer == "adam":
        return torch.optim.Adam(trainable, rate, weight_decay=decay, fused=True)
    if recipe.optimizer == "adamw":
        return torch.optim.AdamW(trainable, rate, weight_decay=decay, fused=True)
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(trainable, rate, momentum=0.9, nesterov=True, weight_decay=decay)
    try:
        from pytorch_optimizer import LaProp
    except ImportError:
        raise AbstainError(
            "optimizer 'laprop' needs the package pytorch_optimizer, which is not installed; "
            "run: pip install pytorch_optimizer"
        ) from None
    # The paper's settings for IMDB.
    return LaProp(trainable, rate, betas=(0.9, 0.9), eps=1e-15, weight_decay=decay)


def make_schedule(optimizer: torch.optim.Optimizer, recipe: Recipe, steps: int) -> LRScheduler:
    """The learning rate over all `steps` of the training, as factors of the recipe's."""
    schedulers = torch.optim.lr_scheduler
    if recipe.schedule == "cosine":
        return schedulers.CosineAnnealingLR(optimizer, T_max=steps)
    if recipe.schedule == "linear":
        return schedulers.LinearLR(optimizer, 1.0, 0.01, total_iters=steps)
    if recipe.schedule == "one-cycle":
        # Momentum is left alone: not every optimiser here has what OneCycleLR would cycle.
        return schedulers.OneCycleLR(
            optimizer, recipe.learning_rate, total_steps=steps + 1, cycle_momentum=False
        )
    return schedulers.ConstantLR(optimizer, factor=1.0, total_iters=0)
