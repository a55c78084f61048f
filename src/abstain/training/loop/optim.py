"""Optimisers and learning-rate schedules by name."""

from collections.abc import Iterable
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from abstain.embed.finetuning import FineTuned
from abstain.errors import AbstainError
from abstain.support.optimizers import SGD, Adam, AdamW
from abstain.training.recipe import Recipe


def make_optimizer(
    parameters: torch.nn.Module | Iterable[torch.nn.Parameter], recipe: Recipe
) -> Optimizer:
    """The optimiser of a recipe; Adam and AdamW in their fused form.

    Args:
        parameters: Of a model, or the model itself; of a fine-tuned one, the pretrained part is a
            group with a learning rate of its own.
        recipe: Names the optimiser and its settings.

    >>> make_optimizer([torch.nn.Parameter(torch.zeros(2))], Recipe()).defaults["lr"]
    0.001
    """
    rate, decay = recipe.learning_rate, recipe.weight_decay
    trainable: list[Any]
    if isinstance(parameters, FineTuned):
        # The history shows the rate of the first group.
        trainable = [
            {"params": _trainable(parameters.head)},
            {"params": _trainable(parameters.network), "lr": parameters.rate * rate},
        ]
    else:
        trainable = _trainable(parameters)
    if recipe.optimizer == "adam":
        return Adam(trainable, rate, weight_decay=decay, fused=True)
    if recipe.optimizer == "adamw":
        return AdamW(trainable, rate, weight_decay=decay, fused=True)
    if recipe.optimizer == "sgd":
        return SGD(trainable, rate, momentum=0.9, nesterov=True, weight_decay=decay)
    try:
        from pytorch_optimizer import LaProp
    except ImportError:
        raise AbstainError(
            "optimizer 'laprop' needs the package pytorch_optimizer, which is not installed; "
            "run: pip install pytorch_optimizer"
        ) from None
    # The paper's settings for IMDB.
    return LaProp(trainable, rate, betas=(0.9, 0.9), eps=1e-15, weight_decay=decay)


def make_schedule(optimizer: Optimizer, recipe: Recipe, steps: int) -> LRScheduler:
    """The learning rate over all `steps` of the training, as factors of the recipe's."""
    schedulers = torch.optim.lr_scheduler
    if recipe.schedule == "cosine":
        return schedulers.CosineAnnealingLR(optimizer, T_max=steps)
    if recipe.schedule == "linear":
        return schedulers.LinearLR(optimizer, 1.0, 0.01, total_iters=steps)
    if recipe.schedule == "one-cycle":
        # Momentum is left alone: not every optimiser here has what OneCycleLR would cycle.
        return schedulers.OneCycleLR(
            optimizer,
            [group["lr"] for group in optimizer.param_groups],
            total_steps=steps + 1,
            cycle_momentum=False,
        )
    return schedulers.ConstantLR(optimizer, factor=1.0, total_iters=0)


def _trainable(
    parameters: torch.nn.Module | Iterable[torch.nn.Parameter],
) -> list[torch.nn.Parameter]:
    if isinstance(parameters, torch.nn.Module):
        parameters = parameters.parameters()
    return [p for p in parameters if p.requires_grad]
