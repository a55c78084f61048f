"""Encoded images to uint8 tensors (channels, height, width): all at once, or one when asked for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from abstain.data.contract import Inputs
from abstain.data.readers.blobs import Blobs, ReadOnce
from abstain.data.readers.decoding import decode, header_of
from abstain.errors import DataError
from abstain.support.optional import require
from abstain.support.wording import beginning, many, some

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
_CHUNK = 256
_KEPT = 1 / 4
"""Share of the memory for decoded inputs in which files of images are kept while they are used."""
_LEAST = 8  # pixels a side, where it only matters that all of an image can be read
_QUICK = 64  # pixels a side, with which a small network trains in minutes on a CPU
_T = TypeVar("_T")


@dataclass(frozen=True)
class Images:
    """Images that were read: the inputs, the blobs that were kept, and the ids that were not."""

    inputs: Inputs
    keep: list[int]
    skipped: tuple[str, ...]
    scaled: bool = False
    """Whether they had several sizes and were scaled to one that nobody asked for."""


@dataclass(frozen=True)
class LazyImages:
    """Images that are decoded one by one, for data that do not fit in memory."""

    blobs: Blobs
    channels: int | None
    resize: tuple[int, int] | None = None
    names: Sequence[str] = ()
    """Name of each in errors; its number by default."""
    read: ReadOnce = field(default=None, compare=False, repr=False)  # type: ignore[assignment]
    """The way by which all stages read them; by default nothing is kept in memory."""

    def __post_init__(self) -> None:
        if self.read is None:
            object.__setattr__(self, "read", ReadOnce(self.blobs))

    def __len__(self) -> int:
        return len(self.blobs)

    def subset(self, rows: Sequence[int]) -> "LazyImages":
        """Some of the images."""
        names = [self.names[row] for row in rows] if self.names else ()
        read = self.read.subset(rows)
        return replace(self, blobs=self.blobs.subset(rows), names=names, read=read)

    def encoded(self, index: int) -> bytes:
        """One image as its file has it."""
        return self.read[index]

    def digests(self, rows: range) -> bytes:
        """Sixteen bytes for the file of each of some images."""
        return self.read.digests(rows)

    def forget(self) -> None:
        """Give back the memory in which files are kept while they are used."""
        self.read.forget()

    def size(self, index: int) -> tuple[int, int]:
        """Height and width of one image as its file has it, before any scaling."""
        return self.read.size(index)

    def __getitem__(self, index: int, /) -> Tensor:
        try:
            return torch.from_numpy(decode(self.encoded(index), self.channels, self.resize))
        except IndexError:
            raise
        except Exception as error:  # its header was whole: what follows is not
            name = self.names[index] if self.names else index
            raise DataError(
                f"image {name} must be readable, got: {error}",
                remedy="replace it, or leave such images out with {skip_bad}",
                skip_bad=True,
            ) from error


def read_images(
    blobs: Blobs,
    ids: Sequence[str],
    *,
    image_size: int | tuple[int, int] | None,
    skip_bad: bool,
    memory_budget: int,
    where: str,
    own_size: bool = False,
) -> Images:
    """Decode all images when they fit in the budget; else look at each header and stay lazy.

    Images of several sizes are scaled to `image_size`, or to a common size by default; with
    `own_size`, each keeps its own.
    """
    require("PIL", "an image")
    if len(blobs) == 0:
        raise DataError(f"{where} must hold images, got none")
    if own_size:
        room = int(_KEPT * memory_budget)
        of_any_size = _lazy(blobs, ids, None, skip_bad=skip_bad, where=where, room=room)
        assert of_any_size is not None
        return of_any_size

    def read(resize: tuple[int, int] | None) -> Images | None:
        way = _lazy if _decoded_bytes(blobs, resize) > memory_budget else _eager
        return way(blobs, ids, resize, skip_bad=skip_bad, where=where)

    images = read(_pair(image_size))
    if images is None:
        scaled = read(_common_size(blobs))
        assert scaled is not None  # of one size now
        images = replace(scaled, scaled=True)
    return images


def list_images(
    blobs: Blobs,
    ids: Sequence[str],
    *,
    image_size: int | tuple[int, int] | None,
    skip_bad: bool,
    memory_budget: int,
    where: str,
    own_size: bool = False,
) -> Images:
    """Images to be shown, each decoded when asked for; only bad ones to be left out are sought."""
    require("PIL", "an image")
    headers = _parallel(_whole_header, blobs) if skip_bad else ()
    bad = {index for index, header in enumerate(headers) if isinstance(header, Exception)}
    keep = [index for index in range(len(blobs)) if index not in bad]
    kept = blobs.subset(keep) if bad else blobs
    names = [ids[index] for index in keep] if bad else ids
    inputs = LazyImages(kept, None, _pair(image_size), names)
    return Images(inputs, keep, tuple(ids[index] for index in sorted(bad)))


def _pair(size: int | tuple[int, int] | None) -> tuple[int, int] | None:
    return (size, size) if isinstance(size, int) else size


def _common_size(blobs: Blobs) -> tuple[int, int]:
    """The median height and width, but no more than what is quick."""
    headers = [x for x in _parallel(header_of, blobs) if not isinstance(x, Exception)]
    height, width = (int(np.median([header[side] for header in headers])) for side in (0, 1))
    return min(_QUICK, height), min(_QUICK, width)


def _eager(
    blobs: Blobs,
    ids: Sequence[str],
    resize: tuple[int, int] | None,
    *,
    skip_bad: bool,
    where: str,
) -> Images | None:
    """All images, decoded; None where they have several sizes."""
    keep: list[int] = []
    bad: dict[int, Exception] = {}
    inputs = torch.empty(0, dtype=torch.uint8)
    for index, array in enumerate(_parallel(lambda blob: decode(blob, None, resize), blobs)):
        if isinstance(array, Exception):
            bad[index] = array
            continue
        if not keep:
            inputs = torch.empty((len(blobs), *array.shape), dtype=torch.uint8)
        elif array.shape[1:] != inputs.shape[2:]:
            return None
        elif len(array) > inputs.shape[1]:  # the first colour image among grey ones
            inputs = inputs.expand(-1, len(array), -1, -1).contiguous()
        inputs[len(keep)] = torch.from_numpy(array)  # grey spreads over three channels
        keep.append(index)
    skipped = _check_readable(bad, len(blobs), ids, skip_bad=skip_bad, where=where)
    return Images(inputs[: len(keep)], keep, skipped)


def _lazy(
    blobs: Blobs,
    ids: Sequence[str],
    resize: tuple[int, int] | None,
    *,
    skip_bad: bool,
    where: str,
    room: int | None = None,
) -> Images | None:
    """All images, to be decoded when asked for.

    Args:
        blobs: The images.
        ids: Their names.
        resize: The size they are scaled to, if they are.
        skip_bad: Leave out those that cannot be read.
        where: The source, for errors.
        room: Bytes of memory for their files, where each keeps its size; None for images of one
            size, and the result is None where they have several.
    """
    read = ReadOnce(blobs, room or 0)
    keep, grey = [], True
    bad: dict[int, Exception] = {}
    sizes = set()
    look = _whole_header if skip_bad else header_of
    for index, header in enumerate(_parallel(look, read)):
        if isinstance(header, Exception):
            bad[index] = header
        else:
            keep.append(index)
            read.note_size(index, *header[:2])
            sizes.add(resize or header[:2])
            grey = grey and header[2]
    if len(sizes) > 1 and room is None:
        return None
    skipped = _check_readable(bad, len(blobs), ids, skip_bad=skip_bad, where=where)
    images = LazyImages(blobs, 1 if grey else 3, resize, ids, read)
    return Images(images.subset(keep) if bad else images, keep, skipped)


def _decoded_bytes(blobs: Blobs, resize: tuple[int, int] | None) -> int:
    """The memory that all images would take, estimated by the first one that can be read."""
    for index in range(min(len(blobs), 100)):
        try:
            first = decode(blobs[index], None, resize)
        except Exception:  # whatever a broken file makes the decoder raise: it is named later
            continue
        return first.size * len(blobs)
    return 0


def _parallel(work: Callable[[bytes], _T], blobs: Blobs) -> Iterator[_T | Exception]:
    """Results in order, an exception in the place of what failed; PIL decodes without the GIL."""

    def chunk(start: int) -> list[_T | Exception]:
        results: list[_T | Exception] = []
        for index in range(start, min(start + _CHUNK, len(blobs))):
            try:
                results.append(work(blobs[index]))
            except Exception as error:
                results.append(error)
        return results

    with ThreadPoolExecutor() as pool:
        for results in pool.map(chunk, range(0, len(blobs), _CHUNK)):
            yield from results


def _whole_header(blob: bytes) -> tuple[int, int, bool]:
    """The header of an image of which the rest can be read too."""
    decode(blob, 1, (_LEAST, _LEAST))
    return header_of(blob)


def _check_readable(
    bad: Mapping[int, Exception], count: int, ids: Sequence[str], *, skip_bad: bool, where: str
) -> tuple[str, ...]:
    names = tuple(ids[index] for index in bad)
    if bad and not skip_bad:
        raise DataError(
            f"{where} must hold readable images, got {len(bad)} unreadable: {some(names)} "
            f"(the first: {_why(next(iter(bad.values())))})",
            remedy="replace them, or leave them out with {skip_bad}",
            skip_bad=True,
        )
    if len(bad) == count:
        raise DataError(f"{where} must hold readable images, got none among {many(count, 'file')}")
    return names


def _why(error: Exception) -> str:
    """Say why an image cannot be read; for other files, Pillow names an address in memory."""
    if isinstance(error, FileNotFoundError):
        return f"{error.filename} is not there"
    if type(error).__name__ == "UnidentifiedImageError":
        return "no image"
    return beginning(error).rstrip(".")
