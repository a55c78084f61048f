"""Features on disk, in shards: made once, resumed after a kill, read without filling the memory.

A shard holds the features of 1,024 samples in a row, as float16. Its name is a hash of what these
samples are and of the backbone. So there is nothing to keep track of: a shard that is there is
whole and right, whoever made it, and a sample that changes makes its own shard anew.
"""

import hashlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from abstain.data import Inputs
from abstain.support.files import publish

_log = logging.getLogger(__name__)
SHARD = 1024
_VERSION = 1  # raise it when preprocessing changes
_OPEN_SHARDS = 64


@dataclass(frozen=True)
class Store:
    """A folder of shards of a backbone."""

    folder: Path
    identity: str
    """Of the backbone."""

    def path(self, digests: Iterable[bytes]) -> Path:
        """The file for the features of these samples, whether it is there or not.

        Args:
            digests: Of the samples, as `digests_of` gives them for some at a time.
        """
        digest = hashlib.sha256(f"{_VERSION}\0{self.identity}\0".encode())
        for some in digests:
            digest.update(some)
        return self.folder / f"{digest.hexdigest()[:40]}.safetensors"


def digests_of(contents: Iterable[bytes | memoryview]) -> bytes:
    """What samples are, in bytes, as 16 bytes each."""
    return b"".join(hashlib.blake2b(content, digest_size=16).digest() for content in contents)


def write_shard(path: Path, features: Tensor) -> None:
    """Write features (samples, columns), whole or not at all."""
    from safetensors.torch import save_file

    tensors = {"features": features.to("cpu", torch.float16).contiguous()}
    publish(path, lambda temporary: save_file(tensors, temporary))


def is_whole(path: Path) -> bool:
    """Whether a shard is there and was not cut short since."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return "features" in file.keys()  # noqa: SIM118
    except FileNotFoundError:
        return False
    except (SafetensorError, OSError) as error:
        _log.warning("the features in %s are damaged and are made again: %s", path, error)
        return False


@dataclass(frozen=True)
class Features:
    """Features that stay on disk, as rows of float32."""

    shards: tuple[Path, ...]
    samples: int
    columns: int

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int, /) -> Tensor:
        if not -self.samples <= index < self.samples:
            raise IndexError(index)
        shard, row = divmod(index % self.samples, SHARD)
        return _opened(self.shards[shard])[row].float()

    def __getitems__(self, indices: Sequence[int], /) -> list[Tensor]:
        """Many rows at once, which a torch DataLoader asks for when it can."""
        return [self[index] for index in indices]

    def in_memory(self) -> Tensor:
        """All of them, float32 (samples, columns)."""
        features = torch.empty(self.samples, self.columns)
        for number, shard in enumerate(self.shards):
            rows = _read(shard)
            features[number * SHARD : number * SHARD + len(rows)] = rows
        return features

    def within(self, budget: int) -> Inputs:
        """In memory where they take no more bytes than that."""
        return self.in_memory() if self.bytes_in_memory <= budget else self

    @property
    def bytes_in_memory(self) -> int:
        """What `in_memory` would take."""
        return 4 * self.samples * self.columns


def _read(path: Path) -> Tensor:
    from safetensors.torch import load_file

    return load_file(path)["features"]


@cache
def _cache() -> dict[Path, Tensor]:
    return {}


def _opened(path: Path) -> Tensor:
    """A shard, mapped into memory; only so many at once."""
    shards = _cache()
    if path not in shards:
        if len(shards) >= _OPEN_SHARDS:
            del shards[next(iter(shards))]
        shards[path] = _read(path)
    return shards[path]
