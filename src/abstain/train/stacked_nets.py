"""Networks of one architecture side by side: every weight has a first dimension, the model.

Images are kept with the channels last and weights as matrices (inputs, outputs), so that a
convolution of K models is one batched matrix product over the patches of their images.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import max_pool2d

from abstain.models import MLP, build_model

Weights = list[Tensor]

STACKED = ("mnist-cnn", "cifar-cnn", "mlp", "mlp-256")
"""The networks that `PatchNet` runs side by side."""


def build_one(
    network: str,
    *,
    input_shape: tuple[int, ...],
    num_outputs: int,
    vectors: Tensor | None,
    seed: int,
) -> nn.Module:
    """`build_model`, which knows no "mlp-256": one hidden layer, as Co-teaching+ used on MNIST."""
    if network == "mlp-256":
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            return MLP(num_outputs, input_shape, hidden=(256,))
    return build_model(
        network, input_shape=input_shape, num_outputs=num_outputs, vectors=vectors, seed=seed
    )


class PatchNet:
    """Convolutions, each with 2×2 pooling and ReLU, then linear layers with ReLU between them.

    `stack` brings the weights of plain modules into this layout, `forward` applies them.
    """

    def __init__(self, module: nn.Module) -> None:
        convolutions = [part for part in module.modules() if isinstance(part, nn.Conv2d)]
        self.kernels = [part.kernel_size[0] for part in convolutions]
        self.wants_images = bool(convolutions)
        # What the last one gives is flattened pixel by pixel here, and channel by channel there.
        self._flattened = convolutions[-1].out_channels if convolutions else 1

    def stack(self, modules: Sequence[nn.Module]) -> Weights:
        """The weights of all modules: for each layer (K, inputs, outputs) and (K, 1, outputs)."""
        stacked: Weights = []
        for layers in zip(*(self._layers(module) for module in modules), strict=True):
            weight = torch.stack([layer.weight.detach() for layer in layers])
            bias = torch.stack([layer.bias.detach() for layer in layers])
            if weight.ndim == 5:
                weight = weight.permute(0, 3, 4, 2, 1).flatten(1, 3)
            elif len(stacked) == 2 * len(self.kernels):
                weight = weight.reshape(*weight.shape[:2], self._flattened, -1)
                weight = weight.permute(0, 3, 2, 1).flatten(1, 2)
            else:
                weight = weight.transpose(1, 2)
            stacked += [weight.contiguous(), bias.unsqueeze(1)]
        return stacked

    def forward(self, weights: Weights, inputs: Tensor) -> Tensor:
        """(K, B, height, width, channels) or (K, B, columns) to logits (K, B, outputs)."""
        pairs = list(zip(weights[::2], weights[1::2], strict=True))
        x = inputs
        for kernel, (weight, bias) in zip(self.kernels, pairs, strict=False):
            x = conv_pool_relu(x, weight, bias, kernel)
        x = x.flatten(2)
        for weight, bias in pairs[len(self.kernels) : -1]:
            x = torch.baddbmm(bias, x, weight).relu()
        weight, bias = pairs[-1]
        return torch.baddbmm(bias, x, weight)

    @staticmethod
    def _layers(module: nn.Module) -> list[nn.Conv2d | nn.Linear]:
        return [part for part in module.modules() if isinstance(part, nn.Conv2d | nn.Linear)]


class LoopNet:
    """Any other module: one model after the other. Right, and no faster than that."""

    wants_images = False

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
    models, batch, height, width, _ = images.shape
    patches = images.unfold(2, kernel, 1).unfold(3, kernel, 1).movedim(4, -1)
    rows = patches.reshape(models, -1, weight.shape[1])
    maps = torch.baddbmm(bias, rows, weight)
    # Channels last in memory, channels first in the shape: what torch's pooling takes.
    maps = maps.view(models * batch, height - kernel + 1, width - kernel + 1, -1)
    pooled = max_pool2d(maps.permute(0, 3, 1, 2), 2).relu().permute(0, 2, 3, 1)
    return pooled.reshape(models, batch, *pooled.shape[1:])
