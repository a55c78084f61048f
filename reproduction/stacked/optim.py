"""The optimisers of a stack, which move K models at once: `RULES`."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from reproduction.stacked.models import Models


@dataclass(frozen=True)
class Rule:
    """An optimiser: Adam, or LaProp, which normalises the gradient before it averages."""

    beta2: float
    epsilon: float
    normalises_first: bool

    @torch.no_grad()
    def scales(self, models: Models, moves: Tensor) -> Tensor:
        """Count the step of those that move, and give what it is scaled by, (3, K)."""
        models.steps.add_(moves)
        # In float64: of 1 − 0.999, float32 has but four digits.
        rate = models.learning_rate / (1 - models.beta1**models.steps)
        root = (1 - self.beta2**models.steps).sqrt()
        return torch.stack((1 - models.beta1, rate, root)).to(models.weights[0].dtype)

    @torch.no_grad()
    def move(
        self, models: Models, gradients: Sequence[Tensor], moves: Tensor, scales: Tensor
    ) -> None:
        """Move the models of which `moves` is true; the others stay, moments and all."""
        tensors = (models.weights, models.working, models.first, models.second, gradients)
        for weight, working, first, second, gradient in zip(*tensors, strict=True):
            column = (-1,) + (1,) * (weight.ndim - 1)
            new, rate, root = (scale.view(column) for scale in scales.unbind())
            slope = gradient.to(weight.dtype)
            square = second + (1 - self.beta2) * (slope * slope - second)
            size = square.sqrt() / root + self.epsilon
            if self.normalises_first:
                mean = first + new * (slope / size - first)
                change = rate * mean
            else:
                mean = first + new * (slope - first)
                change = rate * mean / size
            move = moves.view(column)
            first.copy_(torch.where(move, mean, first))
            second.copy_(torch.where(move, square, second))
            weight.copy_(torch.where(move, weight - change, weight))
            if working.dtype != weight.dtype:
                working.copy_(weight)


class Momentum(Rule):
    """Stochastic gradient descent with momentum β1; the second moments rest."""

    def scales(self, models: Models, moves: Tensor) -> Tensor:
        """Count the step of those that move, and give momentum and learning rate, (3, K)."""
        models.steps.add_(moves)
        found = torch.stack((models.beta1, models.learning_rate, models.learning_rate))
        return found.to(models.weights[0].dtype)

    @torch.no_grad()
    def move(
        self, models: Models, gradients: Sequence[Tensor], moves: Tensor, scales: Tensor
    ) -> None:
        """Move the models of which `moves` is true."""
        tensors = (models.weights, models.working, models.first, gradients)
        for weight, working, first, gradient in zip(*tensors, strict=True):
            column = (-1,) + (1,) * (weight.ndim - 1)
            momentum, rate = (scale.view(column) for scale in scales[:2].unbind())
            move = moves.view(column)
            first.copy_(torch.where(move, momentum * first + gradient.to(weight.dtype), first))
            weight.copy_(torch.where(move, weight - rate * first, weight))
            if working.dtype != weight.dtype:
                working.copy_(weight)


ADAM = Rule(0.999, 1e-8, normalises_first=False)
LAPROP = Rule(0.9, 1e-15, normalises_first=True)
RULES = {"adam": ADAM, "laprop": LAPROP, "sgd": Momentum(0.0, 0.0, normalises_first=False)}
