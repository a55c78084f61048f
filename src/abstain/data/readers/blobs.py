"""Encoded images by number, each read once as far as memory reaches."""

import threading
from collections.abc import Sequence
from typing import Protocol, Self

import numpy as np

from abstain.data.identity import digest
from abstain.data.readers.decoding import header_of

_DIGEST = 16


class Blobs(Protocol):
    """Encoded images by number."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> bytes: ...
    def subset(self, keep: Sequence[int]) -> Self:
        """The same images, fewer of them."""
        ...


class ReadOnce:
    """Encoded images that are opened once, as far as their bytes fit into some room.

    Digest and size of each are noted when it is read first, so that a later stage need not open it
    for these again.

    Args:
        blobs: The images.
        room: Bytes that may be kept in memory.
    """

    def __init__(self, blobs: Blobs, room: int = 0) -> None:
        self._blobs = blobs
        self._numbers: Sequence[int] = range(len(blobs))
        self._facts = _Facts(len(blobs), room)

    def __len__(self) -> int:
        return len(self._blobs)

    def __getitem__(self, index: int, /) -> bytes:
        number = self._numbers[index]
        blob = self._facts.kept.get(number)
        if blob is None:
            blob = self._blobs[index]
            self._facts.note(number, blob)
        return blob

    def subset(self, keep: Sequence[int]) -> "ReadOnce":
        """Fewer of the images, of which the same is known."""
        part = ReadOnce.__new__(ReadOnce)
        part._blobs = self._blobs.subset(keep)
        part._numbers = [self._numbers[k] for k in keep]
        part._facts = self._facts
        return part

    def __reduce__(self) -> tuple[type["ReadOnce"], tuple[Blobs]]:
        """Travel without what is known: a process that is given a copy reads its own."""
        return ReadOnce, (self._blobs,)

    def digests(self, rows: range) -> bytes:
        """Sixteen bytes for the content of each of some images."""
        for row in rows:
            if not self._facts.is_known[self._numbers[row]]:
                self[row]
        digests: bytes = self._facts.digests[[self._numbers[row] for row in rows]].tobytes()
        return digests

    def size(self, index: int) -> tuple[int, int]:
        """Height and width of an image as it is seen."""
        sizes, number = self._facts.sizes, self._numbers[index]
        if not sizes[number, 0]:
            sizes[number] = header_of(self[index])[:2]
        height, width = sizes[number].tolist()
        return height, width

    def note_size(self, index: int, height: int, width: int) -> None:
        """Keep the size of an image whose header was read."""
        self._facts.sizes[self._numbers[index]] = height, width

    def forget(self) -> None:
        """Give the memory back: from here on every image is opened when it is asked for."""
        self._facts.room = 0
        self._facts.kept.clear()


class _Facts:
    """Digests, sizes and kept bytes of all images, whichever of them are asked for."""

    def __init__(self, count: int, room: int) -> None:
        self.kept: dict[int, bytes] = {}
        self.room = room
        self.digests = np.zeros((count, _DIGEST), np.uint8)
        self.is_known = np.zeros(count, np.bool_)
        self.sizes = np.zeros((count, 2), np.int32)
        self._lock = threading.Lock()

    def note(self, number: int, blob: bytes) -> None:
        self.digests[number] = np.frombuffer(digest(blob), np.uint8)
        self.is_known[number] = True
        with self._lock:
            if len(blob) <= self.room and number not in self.kept:
                self.kept[number] = blob
                self.room -= len(blob)
