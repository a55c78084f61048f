"""How far each given label can be trusted, by what the model has believed of it so far.

The small-stake loss weighs a label by the belief of the moment; a label that one lucky step made
believable is then memorised. So it is weighed by a memory too: the belief in the given label
over that in the likeliest one, both averaged over the last visits of the sample.

    loss_i = trust_i^d_i · √λ_i · (1 − q_y)        with λ_i = 1/Σq², d_i = (m − λ_i)/(m − 1)

An undecided model (λ near m) has no ground to distrust a label, and d is near 0; a decided one has
d near 1. Weights are held constant for the gradient.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

# Of the memory, at each visit: about three visits count.
_KEPT = 0.7


def trusted_losses(log_belief: Tensor, given: Tensor, trust: Tensor) -> Tensor:
    """The loss of each sample; a label that is fully trusted costs as the small stake, but √λ.

    Args:
        log_belief: (…, m) log-softmax over the classes.
        given: (…) labels.
        trust: (…) in (0, 1].

    >>> undecided = torch.zeros(1, 4).log_softmax(-1)
    >>> trusted_losses(undecided, torch.tensor([0]), torch.tensor([0.1]))
    tensor([1.5000])
    """
    classes = log_belief.shape[-1]
    effective = torch.exp(-torch.logsumexp(2 * log_belief.detach(), -1))
    decided = ((classes - effective) / (classes - 1)).clamp(0.0, 1.0)
    label = log_belief.gather(-1, given.unsqueeze(-1)).squeeze(-1)
    return trust**decided * effective.sqrt() * -torch.expm1(label)


def remembered(memory: Tensor, log_belief: Tensor, given: Tensor) -> Tensor:
    """A memory (…, 2) of the belief in the given label and in the likeliest, one visit later."""
    label = log_belief.gather(-1, given.unsqueeze(-1))
    visit = torch.cat((label, log_belief.amax(-1, keepdim=True)), -1).exp()
    return torch.lerp(visit.to(memory.dtype), memory, _KEPT)


def trust_from(memory: Tensor) -> Tensor:
    """The trust that a memory (…, 2) means: 1 where the given label is the likeliest."""
    return (memory[..., 0] / memory[..., 1]).clamp(max=1.0)


class Trust:
    """The memories of all samples, 8 bytes each in float32.

    Args:
        num_samples: Number of training samples.
        num_classes: m; before its first visit a sample is believed to be of any class.
        device: Where it is kept.
        dtype: Of the memories.

    >>> trust = Trust(num_samples=2, num_classes=3)
    >>> for _ in range(9):
    ...     trust.update(torch.tensor([0]), torch.tensor([[9.0, 0.0, 0.0]]), torch.tensor([1]))
    >>> trust.of(torch.tensor([0, 1]))
    tensor([0.0139, 1.0000])
    """

    def __init__(
        self,
        num_samples: int,
        num_classes: int,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        shape = num_samples, 2
        self._memory = torch.full(shape, 1 / num_classes, dtype=dtype, device=device)
        self._visited = torch.zeros(num_samples, dtype=torch.bool, device=device)

    def of(self, index: Tensor) -> Tensor:
        """The trust in the given labels of these samples."""
        return trust_from(self._memory[index])

    @torch.no_grad()
    def update(self, index: Tensor, classes: Tensor, given: Tensor) -> None:
        """Add a visit of these samples, none twice: logits of the classes, and labels."""
        log_belief = torch.log_softmax(classes.to(self._memory.dtype), -1)
        self._memory[index] = remembered(self._memory[index], log_belief, given)
        self._visited[index] = True

    def agree(self, add_up: Callable[[Tensor], Tensor]) -> None:
        """Let all processes have what each of them saw since they last agreed.

        Args:
            add_up: Adds a tensor up over all processes; no sample may have been visited by two.
        """
        visits = add_up(self._visited.to(self._memory.dtype)).unsqueeze(-1)
        seen = add_up(self._memory * self._visited.unsqueeze(-1))
        self._memory = torch.where(visits > 0, seen, self._memory)
        self._visited.zero_()

    def state_dict(self) -> dict[str, Tensor]:
        """What a checkpoint needs, once the processes agree."""
        return {"memory": self._memory}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over a state that `state_dict` gave."""
        self._memory.copy_(state["memory"])
