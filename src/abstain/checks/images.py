"""Images that are dark, blurry, of odd size or shape, or hold next to nothing."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from abstain.checks.rules import Floats, Issues, low, odd
from abstain.data import Inputs
from abstain.data.readers.decoders import Decoders
from abstain.data.readers.images import LazyImages
from abstain.errors import DataError

_SIDE = 256
"""Pixels to which larger images are scaled: what a camera sees at 12 megapixels looks blurry."""
_BRIGHT = 0.99
"""Quantile of the pixels: of a photo that is not dark, the brightest are bright."""
_LEVELS = 32
"""Levels of grey, by which information is measured."""
_BATCH, _FILES = 256, 32
"""Images in memory that are measured at once, and others, which may be larger."""


@dataclass(frozen=True)
class Measures:
    """Measures of each of N images; NaN where an image is missing."""

    brightness: Floats
    """Brightness of the brightest hundredth of the pixels, from 0 to 1."""
    sharpness: Floats
    """Spread of the Laplacian over that of the pixels, so that low contrast is not blur.

    NaN where the image is blank, which is neither sharp nor blurry.
    """
    information: Floats
    """Entropy of the levels of grey, in bits."""
    contrast: Floats
    """Spread of the pixels; 0 where the image is blank."""
    height: Floats
    width: Floats
    """As stored, before any scaling."""


def measure(inputs: Inputs) -> Measures:
    """Measure all images; those on disk are decoded in parallel.

    >>> images = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
    >>> images[1, :, ::2] = 255
    >>> found = measure(images)
    >>> found.brightness.tolist(), found.information.tolist(), found.contrast.tolist()
    ([0.0, 1.0], [0.0, 1.0], [0.0, 0.5])
    """
    if torch.cuda.is_available():
        with suppress(torch.OutOfMemoryError):  # others may use it, too
            return _measure(inputs, torch.device("cuda"))
    return _measure(inputs, torch.device("cpu"))


def image_issues(measures: Measures, *, own_size: bool) -> Iterator[tuple[str, Issues]]:
    """Every issue with its name: what is a third of the usual, or three times as much.

    Args:
        measures: Of all images.
        own_size: Whether the sizes are those of the images, not of a common scale.
    """
    yield "dark", low(measures.brightness)
    yield "blurry", low(measures.sharpness)
    yield "low_information", low(measures.information)
    if own_size:
        yield "odd_size", odd(np.sqrt(measures.height * measures.width))
        longer = np.maximum(measures.height, measures.width)
        yield "odd_aspect_ratio", odd(longer / np.minimum(measures.height, measures.width))


def _measure(inputs: Inputs, device: torch.device) -> Measures:
    scaled = _scale(inputs)

    def batch(begin: int) -> Measures:
        rows = range(begin, min(begin + size, len(inputs)))
        if isinstance(inputs, LazyImages):
            return _measured_files(inputs, rows, decoders, device)
        if isinstance(inputs, Tensor):
            return _measured(scaled(inputs[begin : rows.stop].to(device)))
        each = (torch.as_tensor(inputs[k])[None] for k in rows)
        return _joined([_measured(scaled(image.to(device))) for image in each])

    size = _BATCH if isinstance(inputs, Tensor) else _FILES
    with Decoders(len(inputs)) as decoders, ThreadPoolExecutor() as pool:
        return _joined([*pool.map(batch, range(0, len(inputs), size))])


def _measured_files(
    images: LazyImages, rows: range, decoders: Decoders, device: torch.device
) -> Measures:
    """Measure images that are not in memory, those of one size at once."""
    measures = {x.name: np.full(len(rows), np.nan, np.float32) for x in fields(Measures)}
    of_size: dict[tuple[int, int], list[int]] = {}
    for row in rows:
        with suppress(Exception):  # what is only shown may be missing, broken or too large to open
            of_size.setdefault(images.size(row), []).append(row)
    for (height, width), same_size in of_size.items():
        scaled = replace(images, channels=1, resize=_scaled_size(height, width))
        try:
            pixels = decoders.images(scaled, same_size)
        except DataError:  # one of them breaks off behind its header
            if not (same_size := [row for row in same_size if _can_be_read(scaled, row)]):
                continue
            pixels = decoders.images(scaled, same_size)
        measured = _measured(pixels.to(device).float() / 255, (height, width))
        for name, values in measures.items():
            values[[row - rows.start for row in same_size]] = getattr(measured, name)
    return Measures(**measures)


def _can_be_read(images: LazyImages, row: int) -> bool:
    try:
        images[row]
    except DataError:
        return False
    return True


def _scaled_size(height: int, width: int) -> tuple[int, int]:
    """Height and width at which an image is measured; of one that is thin, a pixel is left."""
    shrunk = min(1, _SIDE / max(height, width))
    return max(1, round(height * shrunk)), max(1, round(width * shrunk))


def _joined(parts: Sequence[Measures]) -> Measures:
    return Measures(
        **{x.name: np.concatenate([getattr(y, x.name) for y in parts]) for x in fields(Measures)}
    )


def _scale(inputs: Inputs) -> Callable[[Tensor], Tensor]:
    """Scale to 0 … 1; images given as floats by the range of the first ones."""
    first = inputs[:_BATCH] if isinstance(inputs, Tensor) else torch.as_tensor(inputs[0])
    if not first.is_floating_point():
        return lambda images: images.float() / 255
    low_end, high_end = float(first.min()), float(first.max())
    span = max(high_end - low_end, 1e-12)
    return lambda images: ((images.float() - low_end) / span).clamp(0, 1)


def _measured(images: Tensor, size: tuple[int, int] | None = None) -> Measures:
    """Measure images (B, channels, height, width) from 0 to 1."""
    count = len(images)
    height, width = size or images.shape[2:]
    grey = images.mean(dim=1, keepdim=True)
    if max(grey.shape[2:]) > _SIDE:
        grey = torch.nn.functional.interpolate(grey, _scaled_size(*grey.shape[2:]), mode="area")
    flat = grey.flatten(1)
    contrast = flat.std(dim=1, correction=0)
    contrast = contrast.where(flat.amax(1) > flat.amin(1), 0)  # rounding is no contrast
    rank = max(1, round(_BRIGHT * flat.shape[1]))
    edge = torch.nn.functional.pad(grey, (1, 1, 1, 1), mode="replicate")
    around = edge[..., :-2, 1:-1] + edge[..., 2:, 1:-1] + edge[..., 1:-1, :-2] + edge[..., 1:-1, 2:]
    laplacian = (around - 4 * grey).flatten(1).std(dim=1, correction=0)
    level = (flat * _LEVELS).long().clamp(max=_LEVELS - 1)
    levels = level + _LEVELS * torch.arange(count, device=flat.device)[:, None]
    share = torch.bincount(levels.flatten(), minlength=_LEVELS * count).view(count, -1)
    entropy = -torch.special.xlogy(share / flat.shape[1], share / flat.shape[1]).sum(1)
    measures = {
        "brightness": flat.kthvalue(rank, dim=1).values,
        "sharpness": (laplacian / contrast).where(contrast > 0, torch.nan),
        "information": (entropy / np.log(2)).abs(),
        "contrast": contrast,
    }
    return Measures(
        **{name: values.cpu().numpy() for name, values in measures.items()},
        height=np.full(count, height, np.float32),
        width=np.full(count, width, np.float32),
    )
