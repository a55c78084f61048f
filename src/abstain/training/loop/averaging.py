"""A second copy of a model whose weights are averages over its last steps.

A step at a constant learning rate leaves the weights somewhere around where they tend to; their
average lies nearer, is steadier from epoch to epoch, and costs one addition per weight.
"""

import copy

import torch
from torch import Tensor, nn

# Early on, what weighs is not the horizon but that the first steps are soon forgotten.
_HEAD = 9.0


def step_weight(steps: Tensor, horizon: Tensor) -> Tensor:
    """How much of a model enters its average after some steps.

    >>> step_weight(torch.tensor([1, 10_000]), horizon=torch.tensor(100))
    tensor([0.8182, 0.0100])
    """
    return torch.maximum(1 / horizon, _HEAD / (_HEAD + 1 + steps))


def copied(model: nn.Module) -> nn.Module:
    """A copy with weights of its own; those of a recurrent layer lie together, as a GPU wants."""
    copy_of_it = copy.deepcopy(model)
    for module in copy_of_it.modules():
        if isinstance(module, nn.RNNBase):
            module.flatten_parameters()
    return copy_of_it


class Averaged:
    """An exponential moving average of a model.

    Torch's `swa_utils.AveragedModel` averages either no buffer or every one, counters and frozen
    word vectors too, and replaces the average by the model in its first update.

    Args:
        model: Whose weights are averaged, on the device where it stays.
        horizon: Steps over which it averages.

    >>> model = nn.Linear(1, 1)
    >>> averaged = Averaged(model, horizon=10)
    >>> averaged.update()
    >>> torch.equal(averaged.model.weight, model.weight)
    True
    """

    def __init__(self, model: nn.Module, horizon: float) -> None:
        self.horizon = max(1.0, horizon)
        self.model = copied(model).eval().requires_grad_(False)
        self.steps = 0
        # Looked up once: to go through all modules would take longer than to add the weights.
        self._own, self._followed = _moving(self.model), _moving(model)

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights of the model after a step."""
        self.steps += 1
        steps = torch.tensor(self.steps, dtype=torch.float64)
        weight = step_weight(steps, torch.tensor(self.horizon, dtype=torch.float64)).item()
        torch._foreach_lerp_(self._own, self._followed, weight)

    @torch.no_grad()
    def settle(self, model: nn.Module) -> nn.Module:
        """The average, ready to be used: with whatever else the model keeps as it is there."""
        own = dict(self.model.named_buffers())
        moving = {id(tensor) for tensor in self._own}
        for name, buffer in model.named_buffers():
            if id(own[name]) not in moving:
                own[name].copy_(buffer)
        return self.model

    @torch.no_grad()
    def restart(self, model: nn.Module) -> None:
        """Begin again at a model."""
        self.model.load_state_dict(model.state_dict())
        self.steps = 0


def _moving(model: nn.Module) -> list[Tensor]:
    """What training changes and an average makes sense of: the weights, and normalising figures."""
    figures = [
        buffer
        for part in model.modules()
        if isinstance(part, nn.modules.batchnorm._NormBase)
        for buffer in (part.running_mean, part.running_var)
        if buffer is not None
    ]
    # The parameters themselves: what wraps a model may give them other memory.
    return [*model.parameters(), *figures]
