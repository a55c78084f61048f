"""LSTMs over word vectors side by side: the paper's IMDB network, K of them in one step.

All that does not wait for the step before is one batched product over all tokens: the inputs' part
of the gates, and the slopes of both weights. What is left to go through the text token by token is
the recurrence, and of its gradient only the slopes of the gates.
"""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from reproduction.stacked.lstm import PADDING, TextLSTM
from reproduction.stacked.nets import Weights, filled

_FUSED = (64, 128, 256)  # sizes of the state


class TextNet:
    """`TextLSTM` over frozen vectors, with or without attention.

    `stack` brings the weights of plain modules into this layout, `forward` applies them. To every
    word vector two ones are added, so that the two biases of an LSTM are two rows of its weights:
    they are added and their slopes are summed in products that are made anyway.
    """

    is_stacked = True
    wants_images = False
    # A text is large: of each token there are the four gates.
    at_once: Mapping[str, int] = {"cuda": 1 << 15, "cpu": 1 << 8}

    def __init__(self, module: nn.Module) -> None:
        assert isinstance(module, TextLSTM)
        assert module.vectors is not None
        ones = module.vectors.new_ones(len(module.vectors), 2)
        self._vectors = filled(torch.cat((module.vectors, ones), 1), 1)
        self._read = attend if module.attention else last_state
        self._num_outputs = module.fc.out_features
        self._cuts = True

    def stack(self, modules: Sequence[nn.Module]) -> Weights:
        """Stack modules: (K, dimensions + 2, 4H), (K, H, 4H), (K, H, outputs), (K, 1, outputs)."""
        all_weights = [dict(module.named_parameters()) for module in modules]

        def all_of(name: str) -> Tensor:
            return torch.stack([weights[name].detach() for weights in all_weights])

        biases = [all_of(f"lstm.bias_{part}_l0").unsqueeze(-1) for part in ("ih", "hh")]
        inputs = filled(torch.cat((all_of("lstm.weight_ih_l0"), *biases), -1), -1)
        out = [filled(all_of(name), 1) for name in ("fc.weight", "fc.bias")]
        matrices = inputs, all_of("lstm.weight_hh_l0"), out[0], out[1].unsqueeze(-1)
        return [matrix.mT.contiguous() for matrix in matrices]

    def forward(self, weights: Weights, inputs: Tensor) -> Tensor:
        """Tokens (K, B, length) to logits (K, B, outputs)."""
        into, recurrent, weight, bias = weights
        tokens = inputs.transpose(1, 2)
        positions = torch.arange(tokens.shape[1], device=tokens.device)[:, None]
        last = torch.where(tokens != PADDING, positions, 0).amax(1)
        if tokens.device.type == "cpu" and self._cuts:  # short texts need fewer steps
            tokens = tokens[:, : int(last.max()) + 1]
        self._vectors = self._vectors.to(into.dtype)
        states = _states(self._vectors[tokens], into, recurrent)
        return torch.baddbmm(bias, self._read(states, last), weight)[..., : self._num_outputs]


class PaddedTextNet(TextNet):
    """An LSTM that reads on through the padding; its state at the very end is classified."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module)
        self._read = final_state
        self._cuts = False


def final_state(states: Tensor, last: Tensor) -> Tensor:
    """(K, length, B, H) to (K, B, H): the state after the last token, padding or not."""
    return states[:, -1]


def last_state(states: Tensor, last: Tensor) -> Tensor:
    """(K, length, B, H) to (K, B, H): the state after the last real token of each text."""
    positions = torch.arange(states.shape[1], device=states.device)[:, None]
    is_last = (positions == last.unsqueeze(1)).unsqueeze(-1)
    # A sum, whose slope needs no scattering.
    return torch.where(is_last, states, 0).sum(1)


def attend(states: Tensor, last: Tensor) -> Tensor:
    """Compute `models.text.attend` for K models: (K, length, B, H) to (K, B, H)."""
    if _has_kernel(states, states.shape[-1]):
        from reproduction.stacked.text_kernels import attend as fused

        return fused(states, last)
    wide = states.to(torch.promote_types(states.dtype, torch.float32))
    scores = (wide * last_state(wide, last).unsqueeze(1)).sum(-1)
    positions = torch.arange(states.shape[1], device=states.device)[:, None]
    scores = scores.masked_fill(positions > last.unsqueeze(1), float("-inf"))
    return (scores.softmax(1).unsqueeze(-1) * wide).sum(1).to(states.dtype)


class _States(torch.autograd.Function):
    """The states of K LSTMs after each token."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        vectors: Tensor,
        into: Tensor,
        recurrent: Tensor,
        keep: bool,
    ) -> Tensor:
        models, length, batch, _ = vectors.shape
        gates = torch.bmm(vectors.flatten(1, 2), into).view(models, length, batch, -1)
        states, cells = recur(gates, recurrent, keep)
        ctx.save_for_backward(vectors, recurrent, gates, states, cells)
        return states

    @staticmethod
    def backward(ctx: Any, slopes: Tensor) -> tuple[None, Tensor, Tensor, None]:  # noqa: ANN401
        vectors, recurrent, gates, states, cells = ctx.saved_tensors
        slopes = recur_back(gates, cells, recurrent, slopes.contiguous())
        into = torch.bmm(vectors.flatten(1, 2).mT, slopes.flatten(1, 2))
        before, after = states[:, :-1].flatten(1, 2), slopes[:, 1:].flatten(1, 2)
        return None, into, torch.bmm(before.mT, after), None


def _states(vectors: Tensor, into: Tensor, recurrent: Tensor) -> Tensor:
    keep = torch.is_grad_enabled()
    states: Tensor = _States.apply(vectors, into, recurrent, keep)  # type: ignore[no-untyped-call]
    return states


def recur(gates: Tensor, weight: Tensor, keep: bool = True) -> tuple[Tensor, Tensor]:
    """States and cells (K, length, B, H) of LSTMs that begin with zeros.

    Args:
        gates: (K, length, B, 4H), of i, f, g and o what the inputs add to them; changed into what
            the gates are.
        weight: (K, H, 4H), what the state before adds to them.
        keep: Whether gates and cells are needed: else they may be anything.
    """
    if _has_kernel(weight, weight.shape[1]):
        from reproduction.stacked.text_kernels import recur as fused

        return fused(gates, weight, keep)
    states = gates.new_empty(*gates.shape[:-1], weight.shape[1])
    cells = torch.empty_like(states)
    state = cell = states.new_zeros(states[:, 0].shape)
    for step in range(gates.shape[1]):
        now = torch.baddbmm(gates[:, step], state, weight)
        i, f, g, o = now.chunk(4, -1)
        i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        cell = f * cell + i * g
        state = o * cell.tanh()
        gates[:, step] = torch.cat((i, f, g, o), -1)
        cells[:, step], states[:, step] = cell, state
    return states, cells


def recur_back(gates: Tensor, cells: Tensor, weight: Tensor, slopes: Tensor) -> Tensor:
    """The slopes of what `recur` was given as gates, in the memory of what it made of them.

    Args:
        gates: (K, length, B, 4H).
        cells: (K, length, B, H).
        weight: (K, H, 4H).
        slopes: (K, length, B, H), of the states.
    """
    if _has_kernel(weight, weight.shape[1]):
        from reproduction.stacked.text_kernels import recur_back as fused

        return fused(gates, cells, weight, slopes)
    state_carry = cell_carry = torch.zeros_like(cells[:, 0])
    for step in reversed(range(gates.shape[1])):
        i, f, g, o = gates[:, step].chunk(4, -1)
        before = cells[:, step - 1] if step else torch.zeros_like(state_carry)
        height = cells[:, step].tanh()
        state = slopes[:, step] + state_carry
        cell = cell_carry + state * o * (1 - height * height)
        cell_carry = cell * f
        parts = (
            cell * g * i * (1 - i),
            cell * before * f * (1 - f),
            cell * i * (1 - g * g),
            state * height * o * (1 - o),
        )
        now = torch.cat(parts, -1)
        gates[:, step] = now
        state_carry = torch.bmm(now, weight.mT)
    return gates


def _has_kernel(tensor: Tensor, hidden: int) -> bool:
    return tensor.is_cuda and hidden in _FUSED and find_spec("triton") is not None
