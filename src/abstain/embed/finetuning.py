"""A backbone that is trained too: images or texts in, its features, and a new last layer behind."""

import logging
from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from abstain.data import Inputs, Kind, LabeledData
from abstain.data.encoders.base import Encoder, LazyEncoded
from abstain.data.inputs import take
from abstain.data.readers.decoders import Decoders
from abstain.data.readers.images import LazyImages
from abstain.data.reading import MEMORY_BUDGET
from abstain.embed.backbones.base import (
    ABSENT,
    Backbone,
    ImageBackbone,
    TextBackbone,
    Transformer,
    check_pixels,
)
from abstain.embed.backbones.names import backbone_again
from abstain.errors import AbstainError
from abstain.support.wording import many

_log = logging.getLogger(__name__)
_SMALL_INPUT = 128
"""Side to which small images are scaled: on CIFAR-10 a step at 160 takes half as long again."""
_DROPOUT = 0.2
_READ = 32
"""Images that are read at once."""
_TOKENISED = 1024
"""Texts that are tokenised at once."""


class FineTuned(nn.Module):
    """A pretrained network with a last layer of its own.

    >>> network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> FineTuned(network, columns=3, num_outputs=11, rate=0.2)(torch.zeros(2, 3, 8, 8)).shape
    torch.Size([2, 11])
    """

    rate: float
    """Learning rate of the pretrained network, as a share of that of the new layer."""

    def __init__(self, network: nn.Module, columns: int, num_outputs: int, rate: float) -> None:
        super().__init__()
        self.network = network
        self.dropout = nn.Dropout(_DROPOUT)
        self.head = nn.Linear(columns, num_outputs)
        self.rate = rate

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits of normalised images, or of numbers of tokens."""
        logits: Tensor = self.head(self.dropout(self.network(inputs)))
        return logits


@dataclass(frozen=True)
class FineTuningEncoder(Encoder):
    """The encoder of a backbone that is trained too: all that comes before its network."""

    backbone: Backbone
    """As it was before it was trained."""
    columns: tuple[str, ...] = ()
    reason: str = ""
    """Why this backbone."""
    rate: ClassVar[float]
    """Learning rate of the backbone, as a share of that of the new layer."""

    @staticmethod
    def fit(data: LabeledData, backbone: Backbone, *, reason: str = "") -> "FineTuningEncoder":
        """The size of images, which follows from the first one."""
        if data.kind == "table":
            raise AbstainError(
                f"must be left out for {data.name}: only backbones of images and texts are "
                "trained, got a table",
                argument="finetune",
            )
        if not is_trainable(backbone):
            raise AbstainError(
                f"must be left out for {backbone.name}, which is no torch module with weights to "
                "train",
                argument="finetune",
                remedy="name one that is with {backbone}",
                backbone="hf:NAME",
            )
        if isinstance(backbone, ImageBackbone):
            backbone = backbone.for_data(data, _SMALL_INPUT)
        return _ENCODERS[data.kind](backbone, data.columns, reason)

    @staticmethod
    def restore(
        saved: dict[str, Any], folder: Path, backbone: str | None = None
    ) -> "FineTuningEncoder":
        """Rebuild from what `save` wrote; the weights are those of the run, all else is as then."""
        kind: Kind = saved["of"]
        network = backbone_again(saved, kind, folder, backbone)
        return _ENCODERS[kind](network, tuple(saved["columns"]), saved["reason"])

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        """The kind of the inputs."""
        return self.backbone.kind

    @property
    def backbone_used(self) -> str:  # type: ignore[override]
        """The backbone, and why it was chosen."""
        return f"{self.backbone.name}, fine-tuned, {self.reason}"

    @property
    @abstractmethod
    def network(self) -> nn.Module:
        """The pretrained network."""

    @abstractmethod
    def example(self) -> Tensor:
        """One input of the network, which may be of nothing."""

    def model(self, num_outputs: int, seed: int) -> FineTuned:
        """The backbone with a new last layer, to be trained; on the CPU."""
        # Checkpoints may be of half precision, in which small steps would be lost.
        network = deepcopy(self.network).cpu().float().requires_grad_(True).eval()
        features = network(self.example())
        features.sum().backward()
        for parameter in network.parameters():
            # Not the classes that it was trained for, nor the text side of a CLIP.
            parameter.requires_grad_(parameter.grad is not None)
        network.zero_grad()
        # As in `build_model`: the global generator is lent out and put back.
        with torch.device("cpu"), torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            return FineTuned(network, features.shape[1], num_outputs, self.rate).train()

    def as_json(self) -> dict[str, Any]:
        """Its backbone; the weights are those of the model."""
        return {
            "kind": "finetuning",
            "of": self.kind,
            "backbone": self.backbone.name,
            "identity": self.backbone.identity,
            "size": getattr(self.backbone, "size", None),
            "columns": self.columns,
            "reason": self.reason,
        }


class ImageFineTuning(FineTuningEncoder):
    """Images as bytes, scaled and normalised for the backbone on the device.

    Images in memory keep their size. Files are decoded once, at the size that the backbone takes.
    """

    backbone: ImageBackbone
    rate = 0.2

    @property
    def network(self) -> nn.Module:
        """The network to be trained, mostly of convolutions."""
        return self.backbone.network

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape in which the backbone takes images."""
        return 3, self.backbone.size, self.backbone.size

    def example(self) -> Tensor:
        """A black image."""
        return torch.zeros(1, *self.input_shape, device="cpu")

    def encode_one(self, sample: object, order: Sequence[int]) -> Tensor:
        """One image, in colour and at the size that the backbone takes."""
        image = torch.as_tensor(sample)[None]
        check_pixels(image)
        return self.backbone.scaled(image)[0]

    def to_model(self, batch: Tensor) -> Tensor:
        """Scaled and normalised."""
        return self.backbone.normalised(batch)

    def _encode(self, inputs: Inputs, columns: Sequence[str]) -> Inputs:
        if isinstance(inputs, Tensor):
            check_pixels(inputs)
            return inputs
        if isinstance(inputs, LazyImages):
            inputs = replace(inputs, channels=3, resize=(self.backbone.size,) * 2)
        # Processes that read them are given a copy, which is not to hold the weights.
        reading = replace(self, backbone=replace(self.backbone, network=nn.Identity()))
        lazy = LazyEncoded(inputs, reading)
        bytes_in_memory = len(inputs) * 3 * self.backbone.size**2
        return lazy if bytes_in_memory > MEMORY_BUDGET else _in_memory(lazy)


class TextFineTuning(FineTuningEncoder):
    """Texts as numbers of tokens; of a text that is longer than the window, its beginning."""

    backbone: TextBackbone
    rate = 0.03  # of 0.003: transformers are mostly trained on at about 0.0001

    @property
    def _transformer(self) -> Transformer:
        assert self.backbone.trainable is not None
        return self.backbone.trainable

    @property
    def network(self) -> nn.Module:
        """A transformer."""
        return self._transformer.network

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of the shortest text: each has as many tokens as it needs."""
        return (1,)

    def example(self) -> Tensor:
        """A text of one token."""
        return torch.zeros(1, 1, dtype=torch.int64, device="cpu")

    def encode_one(self, sample: object, order: Sequence[int]) -> Tensor:
        """The tokens of a text."""
        return self.encode_rows([sample], [0], order)[0]

    def encode_rows(self, inputs: Inputs, indices: Sequence[int], order: Sequence[int]) -> Tensor:
        """The tokens of several texts, as many as the longest has."""
        return self._transformer.tokens([str(text) for text in take(inputs, indices)]).int()

    def to_model(self, batch: Tensor) -> Tensor:
        """Cut off the tokens that no text of the batch fills."""
        return batch[:, : int((batch != ABSENT).sum(1).max())].long()

    def _encode(self, inputs: Inputs, columns: Sequence[str]) -> Inputs:
        self._warn_of_longer(inputs)
        lazy, rows, parts = LazyEncoded(inputs, self), range(len(inputs)), []
        for begin in rows[::_TOKENISED]:
            part = lazy.as_tensor(rows[begin : begin + _TOKENISED])
            if len(rows) * part[0].nbytes > MEMORY_BUDGET:
                return lazy
            parts.append(part)
        longest = max((part.shape[1] for part in parts), default=1)
        padded = [nn.functional.pad(x, (0, longest - x.shape[1]), value=ABSENT) for x in parts]
        return torch.cat(padded) if padded else torch.empty(0, 1, dtype=torch.int32)

    def _warn_of_longer(self, inputs: Inputs) -> None:
        split = self.backbone.split
        texts = (inputs[k] for k in range(len(inputs)))
        if split and (longer := sum(len(split(str(text))) > 1 for text in texts)):
            _log.warning(
                "%s longer than the window of %s: only the beginning is used",
                f"{many(longer, 'text')} {'is' if longer == 1 else 'are'}",
                self.backbone.name,
            )


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
    """Whether it is a torch module with weights, and not only numbers of words."""
    if isinstance(backbone, TextBackbone):
        return backbone.trainable is not None
    return isinstance(backbone, ImageBackbone) and any(True for _ in backbone.network.parameters())


_ENCODERS: dict[Kind, type[FineTuningEncoder]] = {"image": ImageFineTuning, "text": TextFineTuning}
