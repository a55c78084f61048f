"""Whether samples are still those that decisions were made on."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor, as_tensor

from abstain.data import LabeledData
from abstain.data.readers.image_folder import FileBlobs
from abstain.data.readers.images import LazyImages
from abstain.errors import DataError
from abstain.showing.pictures import blob_of

CHECKED = 10_000
"""Files or texts, of all, that are compared at a glance."""


class Mark(NamedTuple):
    """The fingerprint of a sample: a stamp, and the digest of its content."""

    stamp: str
    """Size of a file and when it was written. As long as that stays, nothing is read."""
    digest: str
    """Digest of the content."""


class SampleFingerprint:
    """Compares samples with what they were: all of them at a glance, some to the last byte.

    Args:
        data: What a person is shown.
        rows: Where each label of the audit stands in it.
    """

    def __init__(self, data: LabeledData, rows: Sequence[int]) -> None:
        self._data = data
        self._rows = rows

    def fingerprint(self) -> str:
        """Tells whether the samples are still the same: texts, numbers, or sizes of files."""
        digest = hashlib.sha256()
        digest.update("\0".join(self._data.ids).encode("utf-8", "surrogatepass"))
        for inputs in (self._data.inputs, *self._data.texts.values()):
            if isinstance(inputs, LazyImages):
                if isinstance(inputs.blobs, FileBlobs):
                    step = max(1, len(inputs.blobs) // CHECKED)
                    for name in inputs.blobs.names[::step]:
                        path = inputs.blobs.root / name
                        size = path.stat().st_size if path.exists() else None
                        digest.update(f"{size}\0".encode())
            elif isinstance(inputs, Tensor):
                digest.update(np.ascontiguousarray(inputs.numpy()).data)
            else:
                step = max(1, len(inputs) // CHECKED)
                for k in range(0, len(inputs), step):
                    digest.update(f"{inputs[k]}\0".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def mark(self, row: int) -> Mark:
        """Take the mark of a sample, or raise an error that says why it cannot be read."""
        return Mark(self._stamp(row), self._digest(row))

    def version(self, row: int) -> str:
        """A name for the content of a sample, without reading a file; none if it is not there."""
        try:
            text = self._stamp(row) or self._digest(row)
        except DataError:
            return ""
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def has_changed(self, row: int, mark: Mark) -> bool:
        """Whether a sample is another one; its content is read only if its stamp is another."""
        try:
            if mark.stamp and mark.stamp == self._stamp(row):
                return False
            return self._digest(row) != mark.digest
        except DataError:
            return True

    def _stamp(self, row: int) -> str:
        inputs = self._data.inputs
        if not isinstance(inputs, LazyImages) or not isinstance(inputs.blobs, FileBlobs):
            return ""
        try:
            about = (inputs.blobs.root / inputs.blobs.names[self._rows[row]]).stat()
        except OSError as error:
            raise _unread(error) from error
        return f"{about.st_size} {about.st_mtime_ns}"

    def _digest(self, row: int) -> str:
        inputs, index = self._data.inputs, self._rows[row]
        if isinstance(inputs, LazyImages):
            try:
                content = blob_of(inputs, index)
            except OSError as error:
                raise _unread(error) from error
        elif self._data.kind == "text":
            content = str(inputs[index]).encode("utf-8", "surrogatepass")
        else:
            content = np.ascontiguousarray(as_tensor(inputs[index]).numpy()).tobytes()
        texts = "\0".join(str(column[index]) for column in self._data.texts.values())
        return hashlib.sha256(content + texts.encode("utf-8", "surrogatepass")).hexdigest()


def _unread(error: OSError) -> DataError:
    return DataError(f"the file cannot be read: {error.strerror or error}")
