"""What a recipe asks for: the labels held out, the objective with its warm-up, the stop."""

import torch
from torch import Tensor

from abstain.training import coteaching
from abstain.training.coteaching import PairObjective
from abstain.training.objective.losses import Objective
from abstain.training.objective.settling import SettledStop
from abstain.training.objective.stopping import AnalyticalStop, ValidationStop
from abstain.training.objective.trust import Trust
from abstain.training.objective.warm_up import WarmUp, untaught_loss
from abstain.training.recipe import Recipe

Stop = AnalyticalStop | ValidationStop | SettledStop


def held_out_rows(recipe: Recipe, samples: int) -> tuple[Tensor, Tensor]:
    """Held-out rows, if any, and the others."""
    count = recipe.held_out(samples)
    if not count:
        return torch.arange(0), torch.arange(samples)
    generator = torch.Generator().manual_seed(recipe.seed_order)
    order = torch.randperm(samples, generator=generator)
    return order[:count], order[count:]


def make_objective(
    recipe: Recipe, given: Tensor, num_classes: int, dtype: torch.dtype
) -> Objective:
    """The loss of a resolved recipe, with its warm-up and what it remembers of the samples.

    Args:
        recipe: Of the training.
        given: Labels of all samples, on the device.
        num_classes: m.
        dtype: Of the model.
    """
    if recipe.method == coteaching.METHOD:
        return PairObjective(recipe)
    trust: Trust | None = None
    if recipe.loss == "trusted":
        memory = torch.float64 if dtype == torch.float64 else torch.float32
        trust = Trust(len(given), num_classes, given.device, memory)
    return Objective(recipe, make_warm_up(recipe, given, num_classes), trust)


def make_warm_up(recipe: Recipe, given: Tensor, num_classes: int) -> WarmUp | None:
    """The warm-up that ends by itself, of a recipe that has one."""
    held_out = recipe.held_out(len(given))
    if recipe.warm_up_ends != "held-out" or not held_out:
        return None
    counts = torch.bincount(given, minlength=num_classes).tolist()
    return WarmUp(recipe.epochs or 1, untaught_loss(counts), held_out)


def make_stop(recipe: Recipe, num_classes: int) -> Stop | None:
    """What ends the training of a resolved recipe before all its epochs; None for nothing."""
    if recipe.stop == "analytical":
        assert isinstance(recipe.payoff, int | float)
        return AnalyticalStop(recipe.rate, recipe.payoff, num_classes, recipe.noise)
    if recipe.stop == "settled":
        return SettledStop()
    return ValidationStop(recipe.patience) if recipe.stop == "validation" else None
