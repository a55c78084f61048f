"""The base of all backbones: pretrained networks that turn images or texts into rows of numbers."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, Self, TypeAlias
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from abstain.data import Kind, LabeledData
from abstain.errors import AbstainError, DataError

Samples: TypeAlias = Sequence[object] | Tensor
"""Images or texts, as people know them."""
_SMALL_IMAGE, _SMALL_INPUT = 64, 160
"""Images up to 64 pixels hold no more than a network sees at 160, at half the cost of 224."""
_TEXTS = 64
"""Texts that a transformer sees at once."""
_OVERSHOOT = 0.25
"""Distance by which images may leave 0 … 1: scaling by splines goes a little beyond."""

ABSENT = -1
"""In the place of a token, where a text has ended and others go on."""

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Red, green and blue of the photos that most networks learnt from."""
SIZE = 224
"""Pixels a side that most networks of photos take."""

_placed: WeakKeyDictionary[nn.Module, torch.device] = WeakKeyDictionary()
"""The device of each network: to move it once more would take as long as to launch a batch."""


class Backbone(ABC):
    """A pretrained network, frozen.

    A backbone is given samples as people know them and does the rest: scaling, normalising,
    splitting into tokens, pooling.
    """

    kind: ClassVar[Kind]
    name: str
    """As a user names it: `small:wordllama`, `timm:resnet50`."""
    identity: str
    """Identity of the weights and the preprocessing, which with the samples decide the features."""

    @abstractmethod
    def features(self, samples: Samples, device: torch.device) -> Tensor:
        """Features (samples, columns) as float32, on the device."""

    def for_data(self, data: LabeledData) -> Self:
        """The backbone for the samples of a data set."""
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


@dataclass(frozen=True, repr=False, eq=False)
class ImageBackbone(Backbone):
    """A network for images of a fixed size, with the normalisation that it was trained with."""

    kind = "image"
    name: str
    identity: str
    network: nn.Module
    """Normalised images (N, 3, height, width) to features (N, columns)."""
    size: int
    """Height and width of the images that it takes."""
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD
    any_size: bool = False
    """Whether it takes images of other sizes too, as networks of convolutions do."""

    def for_images(self, height: int, width: int, small: int = _SMALL_INPUT) -> Self:
        """The backbone for images of this size: small ones need fewer pixels."""
        is_small = max(height, width) <= _SMALL_IMAGE
        return self.at(min(self.size, small)) if self.any_size and is_small else self

    def at(self, size: int) -> Self:
        """The backbone for another size of input than its own."""
        if size == self.size:
            return self
        return replace(self, size=size, identity=f"{self.identity}@{size}")

    def for_data(self, data: LabeledData, small: int = _SMALL_INPUT) -> Self:
        """The backbone for the images of a data set, chosen by its first one."""
        height, width = torch.as_tensor(data.inputs[0]).shape[-2:]
        return self.for_images(height, width, small)

    def features(self, samples: Samples, device: torch.device) -> Tensor:
        """Compute features of images (channels, height, width) of one size, bytes or 0 to 1."""
        if isinstance(samples, Tensor):
            images: Tensor = samples.to(device)
        else:
            images = torch.stack([torch.as_tensor(sample) for sample in samples]).to(device)
        check_pixels(images)
        if _placed.get(self.network) != device:
            self.network.to(device, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
            _placed[self.network] = device
        half = device.type == "cuda"
        with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, enabled=half):
            features: Tensor = self.network(self.normalised(images)).float()
        return features

    def normalised(self, images: Tensor) -> Tensor:
        """Images as the network takes them."""
        full = 255 if images.dtype == torch.uint8 else 1
        pixels = self.scaled(images.float() / full)
        mean, std = (_channels(x, pixels.device) for x in (self.mean, self.std))
        return ((pixels - mean) / std).contiguous(memory_format=torch.channels_last)

    def scaled(self, pixels: Tensor) -> Tensor:
        """Images in colour, and of the size that the network takes."""
        pixels = pixels.expand(-1, 3, -1, -1)
        if pixels.shape[-2:] == (self.size, self.size):
            return pixels
        shrinks = max(pixels.shape[-2:]) > self.size
        pixels = nn.functional.interpolate(
            pixels, (self.size, self.size), mode="bicubic", antialias=shrinks
        )
        return pixels.clamp(0, 1) if pixels.is_floating_point() else pixels


def not_pixels(images: Tensor) -> str | None:
    """Say why a backbone cannot take images (N, channels, height, width); None if it can.

    >>> not_pixels(torch.zeros(1, 3, 8, 8)), not_pixels(torch.full((1, 3, 8, 8), 200.0))
    (None, 'images must be bytes (uint8) or numbers from 0 to 1, got 200 to 200')
    """
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        return (
            "images must be grey or in colour, (1 or 3 channels, height, width), got the shape "
            f"{tuple(images.shape[1:])}"
        )
    if images.dtype == torch.uint8 or not images.numel():
        return None
    low, high = (float(x) for x in images.aminmax())
    if low >= -_OVERSHOOT and high <= 1 + _OVERSHOOT:
        return None
    return f"images must be bytes (uint8) or numbers from 0 to 1, got {low:g} to {high:g}"


def check_pixels(images: Tensor) -> None:
    """Raise for images that a backbone cannot take: it would see them as black, white or noise."""
    if why := not_pixels(images):
        raise DataError(why, remedy="train from scratch with {backbone}", backbone="none")


@cache
def _channels(values: tuple[float, ...], device: torch.device) -> Tensor:
    """A number per channel, kept: a GPU would stop and wait for each copy."""
    with torch.inference_mode(mode=False):  # for trainings too
        return torch.tensor(values, device=device)[:, None, None]


@dataclass(frozen=True)
class Transformer:
    """A text encoder as what can be trained: a tokenizer and a torch module behind it."""

    tokens: Callable[[list[str]], Tensor]
    """Texts, cut at the window, to numbers of tokens (N, longest), `ABSENT` behind their ends."""
    network: nn.Module
    """These numbers to features (N, columns)."""


@dataclass(repr=False, eq=False)
class TextBackbone(Backbone):
    """A network for texts; one that is longer than its window is the mean of its parts."""

    kind = "text"
    name: str
    identity: str
    encode: Callable[[list[str], torch.device], Tensor]
    """Texts that fit into the window to features (N, columns)."""
    split: Callable[[str], list[str]] | None = None
    """A text to parts that fit into the window; None where texts of any length do."""
    longer: int = 0
    """Number of texts split so far."""
    trainable: Transformer | None = None
    """None where it has no weights that can be trained."""

    def features(self, samples: Samples, device: torch.device) -> Tensor:
        """Compute features of texts."""
        split = self.split or (lambda text: [text])
        texts = [split(str(sample)) for sample in samples]
        parts = [part for text in texts for part in text]
        with torch.inference_mode():
            rows = self.encode(parts, device).float()
        # Not before: texts that do not fit into memory are given once more.
        self.longer += sum(len(text) > 1 for text in texts)
        if len(parts) == len(texts):
            return rows
        places = [text_of_part for text_of_part, text in enumerate(texts) for _ in text]
        return mean_by_text(rows, places, len(texts))


def in_batches(texts: list[str], encode: Callable[[list[str]], Tensor]) -> Tensor:
    """Rows of texts, some of about one length at a time: padding costs as much as words.

    >>> in_batches(["three", "a"], lambda few: torch.tensor([[len(x)] for x in few])).tolist()
    [[5], [1]]
    """
    order = sorted(range(len(texts)), key=lambda k: len(texts[k]))
    parts = (order[begin : begin + _TEXTS] for begin in range(0, len(order), _TEXTS))
    rows = torch.cat([encode([texts[k] for k in part]) for part in parts])
    return rows[torch.tensor(order, device=rows.device).argsort()]


def per_channel(values: Any, what: str) -> tuple[float, float, float]:  # noqa: ANN401
    """Mean or spread of red, green and blue, as the files of a model have them.

    >>> per_channel([0.5, 0.5, 0.4], "image_mean")
    (0.5, 0.5, 0.4)
    >>> per_channel(0.5, "image_mean")
    Traceback (most recent call last):
    abstain.errors.AbstainError: backbone must have three numbers as image_mean, got 0.5
    """
    try:
        red, green, blue = (float(value) for value in values)
    except (TypeError, ValueError):
        raise AbstainError(
            f"must have three numbers as {what}, got {values!r}", argument="backbone"
        ) from None
    return red, green, blue


def pooled(hidden: Tensor, mask: Tensor) -> Tensor:
    """The mean of the tokens that are there.

    >>> pooled(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([[1, 1, 0]])).tolist()
    [[2.0]]
    """
    weights = mask[..., None].to(hidden.dtype)
    return (hidden * weights).sum(1) / weights.sum(1).clamp(min=1)


def mean_by_text(rows: Tensor, places: Sequence[int], texts: int) -> Tensor:
    """The mean over the parts of each text.

    >>> mean_by_text(torch.tensor([[1.0], [3.0], [7.0]]), [0, 0, 1], 2).tolist()
    [[2.0], [7.0]]
    """
    text_of_part = torch.as_tensor(places, device=rows.device)
    total = torch.zeros(texts, rows.shape[1], device=rows.device).index_add_(0, text_of_part, rows)
    return total / torch.bincount(text_of_part, minlength=texts)[:, None]


def splitter(tokenizer: Any, window: int) -> Callable[[str], list[str]]:  # noqa: ANN401
    """Cut texts into parts of at most so many tokens, the two that frame a text not counted.

    Args:
        tokenizer: Of the package tokenizers.
        window: The most tokens of a part.
    """

    def split(text: str) -> list[str]:
        if len(text.encode()) <= window:  # a token has one byte at least
            return [text]
        places = tokenizer.encode(text, add_special_tokens=False).offsets
        if len(places) <= window:
            return [text]
        ends = [places[min(k + window, len(places)) - 1][1] for k in range(0, len(places), window)]
        ends = [*dict.fromkeys(ends)]  # the tokens of one character may lie in two windows
        return [text[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]

    return split
