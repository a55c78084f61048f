"""A backbone that is trained too: images in, its features, and a new last layer behind them."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from abstain.data import Inputs, Kind, LabeledData
from abstain.data.encoders.base import Encoder, LazyEncoded
from abstain.data.readers.decoders import Decoders
from abstain.data.readers.images import LazyImages
from abstain.data.reading import MEMORY_BUDGET
from abstain.embed.backbone import Backbone, ImageBackbone, check_pixels
from abstain.embed.names import backbone_again
from abstain.errors import AbstainError

_SMALL_INPUT = 128
"""At which small images are seen: on CIFAR-10 a step at 160 takes half as long again."""
_DROPOUT = 0.2
_READ = 32
"""Images that are read at once."""


class FineTuned(nn.Module):
    """A pretrained network with a last layer of its own.

    >>> network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> FineTuned(network, columns=3, num_outputs=11)(torch.zeros(2, 3, 8, 8)).shape
    torch.Size([2, 11])
    """

    def __init__(self, network: nn.Module, columns: int, num_outputs: int) -> None:
        super().__init__()
        self.network = network
        self.dropout = nn.Dropout(_DROPOUT)
        self.head = nn.Linear(columns, num_outputs)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of normalised images."""
        logits: Tensor = self.head(self.dropout(self.network(images)))
        return logits


@dataclass(frozen=True)
class FineTuningEncoder(Encoder):
    """Images as bytes, scaled and normalised for the backbone on the device.

    Images in memory keep their size. Files are decoded once, at the size that the backbone takes.
    """

    backbone: ImageBackbone
    columns: tuple[str, ...] = ()
    reason: str = ""
    """Why this backbone."""
    kind: Kind = "image"

    @classmethod
    def fit(cls, data: LabeledData, backbone: Backbone, *, reason: str = "") -> "FineTuningEncoder":
        """The size at which a data set is seen is judged by its first image."""
        _check_trainable(data, backbone)
        assert isinstance(backbone, ImageBackbone)
        return cls(backbone.for_data(data, _SMALL_INPUT), data.columns, reason)

    @classmethod
    def restore(
        cls, about: dict[str, Any], folder: Path, backbone: str | None = None
    ) -> "FineTuningEncoder":
        """Rebuild from what `save` wrote; the weights are those of the run, all else is as then."""
        found = backbone_again(about, "image", folder, backbone)
        assert isinstance(found, ImageBackbone)
        return cls(found, tuple(about["columns"]), about["reason"])

    @property
    def seen_by(self) -> str:  # type: ignore[override]
        """By what images are seen, and why."""
        return f"{self.backbone.name}, fine-tuned, {self.reason}"

    @property
    def input_shape(self) -> tuple[int, ...]:
        """As the backbone takes images."""
        return 3, self.backbone.size, self.backbone.size

    def model(self, num_outputs: int, seed: int) -> FineTuned:
        """The backbone with a new last layer, to be trained; on the CPU."""
        network = deepcopy(self.backbone.network).cpu().requires_grad_(True).eval()
        features = network(torch.zeros(1, *self.input_shape, device="cpu"))
        features.sum().backward()
        for parameter in network.parameters():
            # Not the classes that it was trained for, nor the text side of a CLIP.
            parameter.requires_grad_(parameter.grad is not None)
        network.zero_grad()
        # As in `build_model`: the global generator is lent out and put back.
        with torch.device("cpu"), torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            return FineTuned(network, features.shape[1], num_outputs).train()

    def encode_one(self, sample: object, order: Sequence[int]) -> Tensor:
        """One image, in colour and at the size that the backbone takes."""
        image = torch.as_tensor(sample)[None]
        check_pixels(image)
        image = image.expand(-1, 3, -1, -1)
        if image.shape[1:] != self.input_shape:
            size = self.input_shape[1:]
            image = nn.functional.interpolate(image, size, mode="bicubic", antialias=True)
        return image[0]

    def to_model(self, batch: Tensor) -> Tensor:
        """Scaled and normalised."""
        return self.backbone.normalised(batch)

    def about(self) -> dict[str, Any]:
        """Its backbone; the weights are those of the model."""
        return {
            "kind": "finetuning",
            "backbone": self.backbone.name,
            "identity": self.backbone.identity,
            "size": self.backbone.size,
            "columns": self.columns,
            "reason": self.reason,
        }

    def _encode(self, inputs: Inputs, columns: Sequence[str]) -> Inputs:
        if isinstance(inputs, Tensor):
            check_pixels(inputs)
            return inputs
        if isinstance(inputs, LazyImages):
            inputs = replace(inputs, channels=3, resize=(self.backbone.size,) * 2)
        lazy = LazyEncoded(inputs, self)
        bytes_in_memory = len(inputs) * 3 * self.backbone.size**2
        return lazy if bytes_in_memory > MEMORY_BUDGET else _in_memory(lazy)


def _in_memory(images: LazyEncoded) -> Tensor:
    """All images, decoded by threads or processes."""
    if not len(images):
        return torch.empty(0, *images.encoder.input_shape, dtype=torch.uint8)
    files, rows = images.inputs, range(len(images))
    first = images[0]
    decoded = torch.empty(len(rows), *first.shape, dtype=first.dtype)

    def put(part: range) -> None:
        if isinstance(files, LazyImages):
            decoded[part.start : part.stop] = decoders.images(files, part)
        else:
            decoded[part.start : part.stop] = images.as_tensor(part)

    with Decoders(len(rows)) as decoders, ThreadPoolExecutor() as pool:
        for _ in pool.map(put, (rows[begin : begin + _READ] for begin in rows[::_READ])):
            pass
    return decoded


def is_trainable(backbone: Backbone) -> bool:
    """Whether it is a torch module for images, with weights."""
    return isinstance(backbone, ImageBackbone) and any(True for _ in backbone.network.parameters())


def _check_trainable(data: LabeledData, backbone: Backbone) -> None:
    if data.kind != "image":
        raise AbstainError(
            f"must be left out for {data.name}: only backbones of images are trained, got "
            f"{data.kind}s",
            argument="finetune",
        )
    if not is_trainable(backbone):
        raise AbstainError(
            f"must be left out for {backbone.name}, which is no torch module with weights to train",
            argument="finetune",
        )
