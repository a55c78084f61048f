"""Images changed at random, in batches on the device, in the ways that leave their labels right.

Which ways these are is not assumed but measured, by the loss on held-out labels: a mirrored cat is
a cat, a mirrored 3 is none.
"""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import torch
from torch import Generator, Tensor
from torch.nn.functional import adaptive_avg_pool2d, cross_entropy

from abstain.embed.backbones.base import ImageBackbone
from abstain.embed.store.pipeline import features_of
from abstain.errors import AbstainError
from abstain.support.optimizers import AdamW
from abstain.training.loop.batches import Task

Augmentation: TypeAlias = Callable[[Tensor, Generator | None], Tensor]
"""Images (N, channels, height, width) of any type, changed by draws of a generator on their device;
without one, by torch's own."""

_PADDING, _ERASED = 8, 4  # parts of the side
_JUDGED = 2_000
_THUMBNAIL = 16  # pixels a side, of images that no backbone sees
_AT_ONCE = 128
_STEPS, _RATE, _DECAY = 100, 1e-2, 0.1
# Of what a head learns from images as they are, a safe change may hide this share.
_HIDDEN = 0.1


def cropped(images: Tensor, generator: Generator | None = None) -> Tensor:
    """Each moved by up to an eighth of its side; what comes in is a reflection."""
    count, _, height, width = images.shape
    rows, columns = (
        _reflected(_moved(count, side, images.device, generator), side) for side in (height, width)
    )
    taken = images.gather(2, rows[:, None, :, None].expand(images.shape))
    return taken.gather(3, columns[:, None, None, :].expand(images.shape))


def mirrored(images: Tensor, generator: Generator | None = None) -> Tensor:
    """Half of them with left and right exchanged."""
    chosen = torch.rand(len(images), generator=generator, device=images.device) < 0.5
    return torch.where(chosen[:, None, None, None], images.flip(-1), images)


def erased(images: Tensor, generator: Generator | None = None) -> Tensor:
    """Half of them without a square of a quarter of the side: it gets the mean of the image."""
    count, _, height, width = images.shape
    draws = torch.rand(3, count, generator=generator, device=images.device)
    rows = _square(draws[0], height, max(height, width) // _ERASED)
    columns = _square(draws[1], width, max(height, width) // _ERASED)
    gone = rows[:, :, None] & columns[:, None, :] & (draws[2] < 0.5)[:, None, None]
    mean = images.float().mean((2, 3), keepdim=True).to(images.dtype)
    return torch.where(gone[:, None], mean, images)


AUGMENTATIONS: Mapping[str, Augmentation] = MappingProxyType(
    {"crop": cropped, "mirror": mirrored, "erase": erased}
)
"""Augmentations by name, in the order in which they are applied."""


def known_augmentations(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names, where all are known.

    >>> known_augmentations(("crop", "flip"))
    Traceback (most recent call last):
    abstain.errors.AbstainError: augment must name some of crop, mirror, erase, got 'flip'
    """
    for name in names:
        if name not in AUGMENTATIONS:
            raise AbstainError(
                f"must name some of {', '.join(AUGMENTATIONS)}, got {name!r}", argument="augment"
            )
    return names


def augmented(images: Tensor, names: tuple[str, ...], generator: Generator | None = None) -> Tensor:
    """Images changed in the ways that are named."""
    for name, change in AUGMENTATIONS.items():
        if name in names:
            images = change(images, generator)
    return images


def safe_augmentations(
    task: Task, backbone: ImageBackbone | None, device: torch.device
) -> tuple[str, ...]:
    """The changes that held-out labels allow, by at most 2,000 samples of a training.

    Args:
        task: Has the images, as bytes or numbers, and their labels.
        backbone: Sees the images; without one, the pixels of a thumbnail do.
        device: Where to compute.
    """
    order = torch.randperm(len(task.given), generator=Generator().manual_seed(0))[:_JUDGED]
    inputs = task.training.inputs
    if isinstance(inputs, Tensor):
        images = inputs.index_select(0, order.to(inputs.device)).to(device)
    else:
        images = torch.stack([torch.as_tensor(inputs[k]) for k in order.tolist()]).to(device)

    def features(images: Tensor) -> Tensor:
        if backbone is None:
            return _thumbnails(images)
        # As many at once as in the training, for which a GPU gets ready anyway.
        size = task.training.size if device.type == "cuda" else _AT_ONCE
        return features_of(images, backbone, device, size)

    return safe_of(images, task.given[order.to(task.given.device)].to(device), features)


def safe_of(images: Tensor, given: Tensor, features: Callable[[Tensor], Tensor]) -> tuple[str, ...]:
    """The names of safe augmentations.

    A linear head learns the labels of one half of the images as they are. How far its loss on the
    other half lies below that of a guess is what it can see. A change is safe if, of the images so
    changed, it sees nearly as much.

    Args:
        images: (N, channels, height, width), in random order.
        given: Their labels; some may be wrong.
        features: Of the images: rows of numbers.
    """
    half = len(images) // 2
    counts = torch.bincount(given[:half]).float()
    shares = (counts + 1) / (counts + 1).sum()
    given = given.clamp(max=len(counts) - 1)  # a class that only the other half has cannot be known
    if half < 1:
        return ()
    held_out = images[half:]
    own, others = features(images[:half]), features(held_out)
    head, plain = _taught(own, given[:half], others, given[half:], len(counts))
    untaught = float(-shares.log()[given[half:]].mean())
    if plain >= untaught:  # it sees nothing by which anything could be measured
        return ()
    generator = Generator(images.device).manual_seed(0)

    def loss(change: Augmentation) -> float:
        return float(cross_entropy(head(features(change(held_out, generator))), given[half:]))

    most = plain + _HIDDEN * (untaught - plain)
    return tuple(name for name, change in AUGMENTATIONS.items() if loss(change) <= most)


def _taught(
    own: Tensor, given: Tensor, others: Tensor, held_out: Tensor, classes: int
) -> tuple[Callable[[Tensor], Tensor], float]:
    """A linear head where its held-out loss is least, and that loss."""
    spread, mean = torch.std_mean(own, 0, correction=0)
    spread = spread.clamp(min=1e-6 + 0.1 * float(spread.mean()))  # of pixels that hardly change
    weights = torch.zeros(own.shape[1] + 1, classes, device=own.device, requires_grad=True)

    def logits(rows: Tensor, weights: Tensor) -> Tensor:
        return torch.addmm(weights[-1], (rows - mean) / spread, weights[:-1])

    optimizer = AdamW([weights], lr=_RATE, weight_decay=_DECAY)
    best, least = weights.detach().clone(), math.inf
    for _ in range(_STEPS):
        optimizer.zero_grad()
        cross_entropy(logits(own, weights), given).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        with torch.no_grad():
            loss = float(cross_entropy(logits(others, weights), held_out))
        if loss < least:
            best, least = weights.detach().clone(), loss
    return lambda rows: logits(rows, best), least


def _thumbnails(images: Tensor) -> Tensor:
    height, width = images.shape[-2:]
    size = min(_THUMBNAIL, height), min(_THUMBNAIL, width)
    scale = 255 if images.dtype == torch.uint8 else 1
    return (adaptive_avg_pool2d(images.float(), size) / scale).flatten(1)


def _moved(count: int, side: int, device: torch.device, generator: Generator | None) -> Tensor:
    """(count, side) the pixels that each line of an image takes the place of."""
    most = side // _PADDING
    moves = torch.randint(-most, most + 1, (count, 1), generator=generator, device=device)
    return torch.arange(side, device=device) + moves


def _reflected(places: Tensor, side: int) -> Tensor:
    """Places beyond an edge as those at the same distance before it."""
    return (side - 1) - ((side - 1) - places.abs()).abs()


def _square(draws: Tensor, side: int, length: int) -> Tensor:
    """(N, side) whether a line is in a stretch of this length that begins where a draw says."""
    begin = (draws * (side - length + 1)).long()[:, None]
    places = torch.arange(side, device=draws.device)
    return (places >= begin) & (places < begin + length)
