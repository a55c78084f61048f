"""Processes that decode images, where threads would wait for each other."""

import os
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from abstain.data.readers import decoding
from abstain.data.readers.images import LazyImages

# Each of them has one core, and no use for a GPU.
_ALONE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}

WORTH = 2_000
"""Images from which on it pays to start processes, each of which takes a fifth of a second."""


@dataclass(frozen=True)
class _Decoder:
    """A process that decodes, and the line to it."""

    process: subprocess.Popen[bytes]
    line: socket.socket

    @classmethod
    def start(cls) -> "_Decoder":
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", decoding.__file__],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                env={**os.environ, **_ALONE},
            )
        return cls(process, ours)

    def fill(self, pixels: Tensor, images: LazyImages, rows: Sequence[int]) -> bool:
        """Decode into a tensor; False where an image cannot be read, OSError if it has ended."""
        with self.line.makefile("wb") as line:
            pickle.dump((len(rows), images.channels, images.resize), line)
            for row in rows:  # one in memory at a time, as photos are large
                pickle.dump(images.encoded(row), line)
        answer = self.line.recv(1)
        if answer == decoding.UNREADABLE:
            return False
        if answer != decoding.READ:  # what follows would be taken for the pixels of others
            raise ConnectionError(f"no answer of a decoder: {answer!r}")
        left = pixels.numpy().reshape(-1).data
        while len(left):
            # It is waited for all of it outside of Python, whose lock others need meanwhile.
            count = self.line.recv_into(left, 0, socket.MSG_WAITALL)
            if not count:
                raise ConnectionError("a decoder has ended")
            left = left[count:]
        return True

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.line.close()


class Decoders:
    """Processes that decode images, one beside each thread that asks.

    Pillow decodes without Python's lock but needs it in between: on 16 cores, threads decode a
    third of what processes do. These are started when they are first needed. What they cannot
    decode, or where they cannot be started, the thread decodes itself.

    Args:
        images: How many there are to decode in all; for few of them, threads are as quick.
    """

    def __init__(self, images: int) -> None:
        self._own = threading.local()
        self._started: list[_Decoder] = []
        self._start = images >= WORTH

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._start = False
        for decoder in self._started:
            decoder.stop()

    def images(self, images: LazyImages, rows: Sequence[int], *, pinned: bool = False) -> Tensor:
        """Some images (rows, channels, height, width), of the size that they are scaled to.

        Args:
            images: Of which.
            rows: Which.
            pinned: Whether a GPU is to fetch them.
        """
        assert images.channels is not None
        assert images.resize is not None
        shape = (len(rows), images.channels, *images.resize)
        pixels = torch.empty(shape, dtype=torch.uint8, pin_memory=pinned)
        if not self._filled(pixels, images, rows):
            for index, row in enumerate(rows):
                pixels[index] = images[row]
        return pixels

    def _filled(self, pixels: Tensor, images: LazyImages, rows: Sequence[int]) -> bool:
        try:
            decoder = self._of_this_thread()
            return decoder is not None and decoder.fill(pixels, images, rows)
        except Exception:  # it was killed, or a file is gone, of which the images themselves tell
            self._own.decoder = None
            return False

    def _of_this_thread(self) -> _Decoder | None:
        if not hasattr(self._own, "decoder"):
            self._own.decoder = None
            if self._start:
                self._own.decoder = _Decoder.start()
                self._started.append(self._own.decoder)
        decoder: _Decoder | None = self._own.decoder
        return decoder
