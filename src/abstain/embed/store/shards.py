"""Features on disk, in shards: made once, resumed after a kill, read without filling the memory.

A shard holds the features of 1,024 samples in a row, as float16. Its name is a hash of what these
samples are and of the backbone. So there is nothing to keep track of: a shard that is there is
whole and right, whoever made it, and a sample that changes makes its own shard anew.
"""

import hashlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from abstain.data import Inputs
from abstain.data.inputs import LazyRows
from abstain.errors import AbstainError
from abstain.support.files import publish

_log = logging.getLogger(__name__)
SHARD = 1024
_VERSION = 2  # raise it when preprocessing changes
_MAPPED = 1 << 15  # of 65,530 mappings that Linux allows a process; these hold 33 million samples


@dataclass(frozen=True)
class ShardFolder:
    """A folder of shards of a backbone."""

    folder: Path
    identity: str
    """Identity of the backbone."""

    def path(self, digests: Iterable[bytes]) -> Path:
        """The file for the features of these samples, whether it is there or not.

        Args:
            digests: Of the samples, as `sample_digests` gives them for some at a time.
        """
        digest = hashlib.sha256(f"{_VERSION}\0{self.identity}\0".encode())
        for some in digests:
            digest.update(some)
        return self.folder / f"{digest.hexdigest()[:40]}.safetensors"


def write_shard(path: Path, features: Tensor) -> None:
    """Write features (samples, columns), whole or not at all."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    tensors = {"features": features.to("cpu", torch.float16).contiguous()}
    try:
        publish(path, lambda temporary: save_file(tensors, temporary))
    except (OSError, SafetensorError) as error:
        raise AbstainError(
            f"the cache must be a folder that can be written, got {path.parent}: {error}; make "
            "room there, or set ABSTAIN_CACHE to another folder"
        ) from error


def is_whole(path: Path) -> bool:
    """Whether a shard is there and was not cut short since."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return "features" in file.keys()  # noqa: SIM118
    except FileNotFoundError:
        return False
    except (SafetensorError, OSError) as error:
        _mapped.cache_clear()
        _log.warning("the features in %s are damaged and are made again: %s", path, error)
        return False


@dataclass(frozen=True)
class Features(LazyRows):
    """Features that stay on disk, as rows of float32."""

    shards: tuple[Path, ...]
    samples: int
    columns: int

    def __post_init__(self) -> None:
        # All at once: each mapping leaves a small object, and where these lie scattered among large
        # ones, memory that is freed cannot be used again (10 GiB of it for ten million samples).
        for path in self.shards[:_MAPPED]:
            _mapped(path)

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int, /) -> Tensor:
        if not -self.samples <= index < self.samples:
            raise IndexError(index)
        return super().__getitem__(index % self.samples)

    def as_tensor(self, indices: Sequence[int]) -> Tensor:
        """Many rows, of shards that are mapped into memory."""
        # Row by row, as a batch in random order hardly ever takes two from one shard.
        rows = [_mapped(self.shards[k // SHARD])[k % SHARD] for k in indices]
        return torch.from_numpy(np.array(rows)).float()

    def in_memory(self) -> Tensor:
        """Load all features, float32 (samples, columns)."""
        features = torch.empty(self.samples, self.columns)
        for number, shard in enumerate(self.shards):
            rows = torch.from_numpy(_mapped(shard))
            features[number * SHARD : number * SHARD + len(rows)] = rows
        return features

    def within(self, budget: int) -> Inputs:
        """Load them if they take no more bytes than that."""
        return self.in_memory() if self.bytes_in_memory <= budget else self

    @property
    def bytes_in_memory(self) -> int:
        """The memory that `in_memory` would take."""
        return 4 * self.samples * self.columns


@lru_cache(_MAPPED)
def _mapped(path: Path) -> npt.NDArray[np.float16]:
    """A shard, mapped: its file is closed again, and its pages are the system's, not ours."""
    from safetensors.torch import load_file

    return load_file(path)["features"].numpy()
