"""Networks of one architecture side by side: every weight has a first dimension, the model.

Images are kept with the channels last and weights as matrices (inputs, outputs), so that a
convolution of K models is one batched matrix product over the patches of their images.
"""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import max_pool2d

from abstain.models import MLP, build_model
from reproduction.stacked.lstm import TextLSTM

Weights = list[Tensor]

STACKED = ("mnist-cnn", "cifar-cnn", "mlp", "mlp-256")
"""The networks that `PatchNet` runs side by side."""


class Net(Protocol):
    """An architecture that K models share."""

    is_stacked: bool
    """Whether it runs side by side, or one model after the other."""
    wants_images: bool
    """Whether it reads images, channels last."""
    at_once: Mapping[str, int]
    """Number of samples times models to evaluate at a time, by the type of the device."""

    def stack(self, modules: Sequence[nn.Module]) -> Weights:
        """The weights of all modules, each with a first dimension K."""
        ...

    def forward(self, weights: Weights, inputs: Tensor) -> Tensor:
        """(K, B, …) to logits (K, B, outputs)."""
        ...


def build_one(
    network: str,
    *,
    input_shape: tuple[int, ...],
    num_outputs: int,
    vectors: Tensor | None,
    seed: int,
) -> nn.Module:
    """`build_model`, which knows neither the LSTM of IMDB nor the "mlp-256" of Co-teaching+."""
    if network == "mlp-256":
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            return MLP(num_outputs, input_shape, hidden=(256,))
    if network in ("lstm", "lstm-attention", "lstm-padded"):
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            attention = network == "lstm-attention"
            return TextLSTM(num_outputs, vectors=vectors, attention=attention)
    return build_model(network, input_shape=input_shape, num_outputs=num_outputs, seed=seed)


class PatchNet:
    """Convolutions, each with 2×2 pooling and ReLU, then linear layers with ReLU between them.

    `stack` brings the weights of plain modules into this layout, `forward` applies them. Widths are
    filled up with zeros, since a GPU multiplies matrices of odd sizes several times more slowly.
    That changes nothing, then or later: a unit whose weights are all zero gives 0, and the
    weights on its output are zero too, so that the gradients of its weights are 0 as well.
    """

    is_stacked = True
    at_once: Mapping[str, int] = {"cuda": 1 << 15, "cpu": 1 << 11}

    def __init__(self, module: nn.Module) -> None:
        layers = self._layers(module)
        self.kernels = [part.kernel_size[0] for part in layers if isinstance(part, nn.Conv2d)]
        self.wants_images = bool(self.kernels)
        self._num_outputs = len(layers[-1].weight)

    def stack(self, modules: Sequence[nn.Module]) -> Weights:
        """The weights of all modules: for each layer (K, inputs, outputs) and (K, 1, outputs)."""
        stacked: Weights = []
        before = 0
        for layers in zip(*(self._layers(module) for module in modules), strict=True):
            weight = torch.stack([layer.weight.detach() for layer in layers])
            bias = torch.stack([layer.bias.detach() for layer in layers])
            if before:
                # What a convolution gives is flattened pixel by pixel here, but channel by channel
                # there: so its channels become a dimension of their own, if they are none yet.
                weight = weight.reshape(*weight.shape[:2], before, *weight.shape[3:], -1)
                weight = filled(weight, 2)
            weight = filled(weight, 1).movedim(1, -1).movedim(1, -2).flatten(1, -2)
            stacked += [weight.contiguous(), filled(bias, 1).unsqueeze(1)]
            before = bias.shape[1]
        return stacked

    def forward(self, weights: Weights, inputs: Tensor) -> Tensor:
        """(K, B, height, width, channels) or (K, B, …) to logits (K, B, outputs)."""
        pairs = list(zip(weights[::2], weights[1::2], strict=True))
        x = inputs
        for kernel, (weight, bias) in zip(self.kernels, pairs, strict=False):
            x = conv_pool_relu(x, weight, bias, kernel)
        x = x.flatten(2)
        for weight, bias in pairs[len(self.kernels) : -1]:
            x = torch.baddbmm(bias, x, weight).relu()
        weight, bias = pairs[-1]
        return torch.baddbmm(bias, x, weight)[..., : self._num_outputs]

    @staticmethod
    def _layers(module: nn.Module) -> list[nn.Conv2d | nn.Linear]:
        return [part for part in module.modules() if isinstance(part, nn.Conv2d | nn.Linear)]


def filled(tensor: Tensor, dim: int) -> Tensor:
    """With zeros added along a dimension, up to the next multiple of 8: loads of 16 bytes."""
    shape = list(tensor.shape)
    shape[dim] = -shape[dim] % 8
    return torch.cat((tensor, tensor.new_zeros(shape)), dim)


class LoopNet:
    """Any other module: one model after the other. Right, and no faster than that."""

    is_stacked = False
    wants_images = False
    at_once = PatchNet.at_once

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._names = [name for name, _ in module.named_parameters()]

    def stack(self, modules: Sequence[nn.Module]) -> Weights:
        """The weights of all modules, each with a first dimension K."""
        all_weights = [dict(module.named_parameters()) for module in modules]
        return [torch.stack([w[name].detach() for w in all_weights]) for name in self._names]

    def forward(self, weights: Weights, inputs: Tensor) -> Tensor:
        """(K, B, …) to logits (K, B, outputs)."""
        logits = [
            functional_call(self._module, dict(zip(self._names, own, strict=True)), (x,))
            for own, x in zip(zip(*(w.unbind() for w in weights), strict=True), inputs, strict=True)
        ]
        return torch.stack(logits)


def conv_pool_relu(images: Tensor, weight: Tensor, bias: Tensor, kernel: int) -> Tensor:
    """relu(pool(conv(x))) of K models, pooling by 2×2: a matrix product over all patches.

    Args:
        images: (K, B, height, width, channels).
        weight: (K, kernel · kernel · channels, outputs).
        bias: (K, 1, outputs).
        kernel: Side of the convolution.
    """
    if images.is_cuda and find_spec("triton"):
        from reproduction.stacked.kernels import conv_pool_relu as fused

        return fused(images, weight, bias, kernel)
    models, batch, height, width, _ = images.shape
    patches = images.unfold(2, kernel, 1).unfold(3, kernel, 1).movedim(4, -1)
    rows = patches.reshape(models, -1, weight.shape[1])
    maps = torch.baddbmm(bias, rows, weight)
    # Channels last in memory, channels first in the shape: what torch's pooling takes.
    maps = maps.view(models * batch, height - kernel + 1, width - kernel + 1, -1)
    pooled = max_pool2d(maps.permute(0, 3, 1, 2), 2).relu().permute(0, 2, 3, 1)
    return pooled.reshape(models, batch, *pooled.shape[1:])
