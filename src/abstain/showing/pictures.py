"""Pictures, decoded and encoded again: whatever lies in a file, what is served is a picture."""

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import as_tensor

from abstain.data import Inputs
from abstain.data.readers.image_folder import FileBlobs
from abstain.data.readers.images import LazyImages
from abstain.errors import DataError
from abstain.support.optional import require

LARGEST_PICTURE = 100_000_000
"""Pixels that a picture may have to be decoded, and bytes that its file may have."""
SMALLEST = 160
_SIDES = (SMALLEST, 640, 2048)


def picture_of(inputs: Inputs, index: int, side: int) -> tuple[bytes, str]:
    """One of some pictures, at most `side` pixels high and wide, and its media type."""
    side = next((known for known in _SIDES if known >= side), _SIDES[-1])
    if isinstance(inputs, LazyImages):
        image = _opened(require("PIL.Image", "pictures"), blob_of(inputs, index), side)
    else:
        image = image_of(as_tensor(inputs[index]).numpy())
    return encoded(image, side, sharp=256, quality=88)


def encoded(
    image: Any,  # noqa: ANN401
    side: int,
    *,
    sharp: int,
    quality: int,
    optimize: bool = False,
) -> tuple[bytes, str]:
    """A picture, made smaller in place if it is larger than `side`, and its media type.

    Few pixels are sharp and small as PNG; photographs are smaller as JPEG.
    """
    if max(image.size) > side:
        image.thumbnail((side, side))
    stream = io.BytesIO()
    if max(image.size) <= sharp:
        image.save(stream, "PNG", optimize=optimize)
        return stream.getvalue(), "image/png"
    image.save(stream, "JPEG", quality=quality)
    return stream.getvalue(), "image/jpeg"


def blob_of(images: LazyImages, index: int) -> bytes:
    """The bytes of an image, unless its file leads out of the folder of the data."""
    blobs = images.blobs
    if isinstance(blobs, FileBlobs):
        root = os.path.realpath(blobs.root)
        path = Path(os.path.realpath(blobs.root / blobs.names[index]))
        if not path.is_relative_to(root):
            raise DataError("a link out of the folder of the data is not followed")
        if path.stat().st_size > LARGEST_PICTURE:
            raise DataError("the file is too large to be shown")
    return blobs[index]


def _opened(image_of: Any, blob: bytes, side: int) -> Any:  # noqa: ANN401
    """A picture upright, of which no more is decoded than is shown."""
    from PIL import ImageOps

    try:
        image = image_of.open(io.BytesIO(blob))
        width, height = image.size
        if width * height > LARGEST_PICTURE:
            raise DataError(f"{width} × {height} pixels are too many to be shown")
        image.draft(None, (side, side))
        image = ImageOps.exif_transpose(image)
        if image.mode.startswith("I"):  # 16 bits: keep the upper eight, PIL would clip
            image = image_of.fromarray((np.asarray(image) >> 8).astype(np.uint8))
        return image.convert("L" if image.mode in ("1", "L") else "RGB")
    except DataError:
        raise
    except Exception as error:  # whatever a broken file makes the decoder raise
        raise DataError(f"the picture cannot be read: {error}") from error


def image_of(pixels: npt.NDArray[Any]) -> Any:  # noqa: ANN401
    """An image from an array (channels, height, width) of whatever numbers."""
    chosen = pixels if len(pixels) == 3 else pixels[:1]
    if chosen.dtype != np.uint8:
        low, high = float(chosen.min()), float(chosen.max())
        chosen = ((chosen - low) / (high - low or 1.0) * 255).round().astype(np.uint8)
    flat = chosen.transpose(1, 2, 0) if len(chosen) == 3 else chosen[0]
    return require("PIL.Image", "pictures").fromarray(np.ascontiguousarray(flat))
