"""One encoded image to pixels, by Pillow and NumPy alone.

As a program it decodes for another process, and starts at once: it imports neither torch nor
the package around it (`decoders.py`).
"""

import io
import pickle
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

READ, UNREADABLE = b"\1", b"\0"
"""First byte of an answer."""


def decode(
    blob: bytes, channels: int | None = None, resize: tuple[int, int] | None = None
) -> NDArray[np.uint8]:
    """One image as uint8 (channels, height, width): grey stays one channel by default.

    Args:
        blob: the encoded image.
        channels: 1 or 3; None keeps grey grey and makes everything else RGB.
        resize: (height, width) to scale to.
    """
    image = _upright(blob, None if resize is None else max(resize))
    grey = channels == 1 or (channels is None and _is_grey(image))
    if image.mode.startswith("I"):  # 16 bits: keep the upper eight, PIL would clip
        image = _from_array((np.asarray(image) >> 8).astype(np.uint8))
    image = image.convert("L" if grey else "RGB")
    if resize is not None and image.size != (resize[1], resize[0]):
        image = image.resize((resize[1], resize[0]))
    array = np.array(image, dtype=np.uint8)
    return array[None] if grey else np.ascontiguousarray(array.transpose(2, 0, 1))


def header_of(blob: bytes) -> tuple[int, int, bool]:
    """Height and width of an image as it is seen, and whether it is grey."""
    from PIL import Image

    image = Image.open(io.BytesIO(blob))
    height, width = image.height, image.width
    if _turned(image) >= 5:  # by a quarter
        height, width = width, height
    return height, width, _is_grey(image)


def _upright(blob: bytes, side: int | None = None) -> "Image":
    """An image as the camera saw it, not smaller than `side` unless it is."""
    from PIL import Image, ImageOps

    image: Image.Image = Image.open(io.BytesIO(blob))
    if side is not None:
        # A photo of 12 megapixels is read ten times as fast where an eighth of its side will do.
        image.draft(None, (side, side))
    return ImageOps.exif_transpose(image) if _turned(image) != 1 else image


def _turned(image: "Image") -> int:
    """The orientation of a camera, from 1 (upright) to 8; only formats of cameras hold it."""
    turned = image.getexif().get(0x0112, 1) if image.format in ("JPEG", "MPO") else 1
    return turned if turned in range(1, 9) else 1


def _is_grey(image: "Image") -> bool:
    return image.mode in ("1", "L", "LA") or image.mode.startswith("I")


def _from_array(array: NDArray[np.uint8]) -> "Image":
    from PIL import Image

    return Image.fromarray(array)


def serve() -> None:
    """Answer (count, channels, resize) and so many blobs by `READ` and the bytes of all pixels."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    asked, answer = sys.stdin.buffer, sys.stdout.buffer
    with suppress(EOFError, OSError):  # that process has ended
        while True:
            count, *form = pickle.load(asked)
            pixels = [_pixels(pickle.load(asked), *form) for _ in range(count)]
            read = [x for x in pixels if x is not None]
            answer.writelines([READ, *read] if len(read) == count else [UNREADABLE])
            answer.flush()


def _pixels(blob: bytes, channels: int, resize: tuple[int, int]) -> bytes | None:
    """Decode to bytes; None for what cannot be read: the process that asks says why."""
    try:
        return decode(blob, channels, resize).tobytes()
    except Exception:
        return None


if __name__ == "__main__":
    serve()
