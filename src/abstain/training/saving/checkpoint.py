"""Checkpoints: one file each, tensors and numbers together, whole or not there at all.

The file is in the safetensors format, with a JSON document in its header: loading runs no code.
It is written beside its place and moved there when it is safe on disk, so that a process killed
at any moment, or a full disk, leaves the checkpoint before it as it was.

`state.py` turns what training needs into the tensors and JSON that go in.
"""

import errno
import glob
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from abstain.errors import AbstainError

JSON: TypeAlias = bool | int | float | str | list["JSON"] | dict[str, "JSON"] | None
Part: TypeAlias = tuple[Mapping[str, Tensor], JSON]
"""Tensors and plain values of an object, from which it can be made again."""

_FORMAT = "abstain-checkpoint"
_VERSION = "1"
_SUFFIX = ".safetensors"
_MOST_JSON = 50_000_000  # safetensors reads no header above 100 MB, and a quote takes two bytes


@dataclass(frozen=True)
class Checkpoint:
    """The state that a run needs to go on: tensors by name, and the rest as JSON.

    >>> import torch
    >>> Checkpoint({"weight": torch.zeros(2)}, {"epoch": 3}).state["epoch"]
    3
    """

    tensors: dict[str, Tensor]
    state: dict[str, JSON]

    @classmethod
    def join(cls, parts: Mapping[str, Part]) -> "Checkpoint":
        """A checkpoint of several parts, each with tensors and JSON, as the packers return them.

        >>> import torch
        >>> whole = Checkpoint.join({"model": ({"weight": torch.zeros(2)}, None)})
        >>> whole.part("model")
        ({'weight': tensor([0., 0.])}, None)
        """
        return cls(
            {
                f"{part}/{name}": t
                for part, (tensors, _) in parts.items()
                for name, t in tensors.items()
            },
            {part: state for part, (_, state) in parts.items()},
        )

    def values(self, name: str) -> dict[str, Any]:
        """The plain values of a part that has some by name."""
        values = self.part(name)[1]
        assert isinstance(values, dict)
        return values

    def part(self, name: str) -> tuple[dict[str, Tensor], JSON]:
        """One of the parts that were joined."""
        if name not in self.state:
            raise AbstainError(f"the checkpoint must have a part {name!r}, got {list(self.state)}")
        prefix = f"{name}/"
        tensors = {
            key.removeprefix(prefix): t for key, t in self.tensors.items() if key.startswith(prefix)
        }
        return tensors, self.state[name]


def save_checkpoint(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Write a checkpoint, or leave everything as it was; makes the folder if need be.

    Tensors may be on any device, strided, and share memory; each is saved in full. The file is
    put together in memory first, and so needs as much of it again.

    Raises:
        AbstainError: If it cannot be written: names the cause, and the checkpoint to go back to.

    >>> from tempfile import TemporaryDirectory
    >>> folder = TemporaryDirectory()
    >>> path = Path(folder.name) / "run.safetensors"
    >>> import torch
    >>> save_checkpoint(path, Checkpoint({"weight": torch.ones(2)}, {"epoch": 3}))
    >>> load_checkpoint(path)
    Checkpoint(tensors={'weight': tensor([1., 1.])}, state={'epoch': 3})
    >>> folder.cleanup()
    """
    _save(Path(path), checkpoint, {})


def load_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read a checkpoint; its tensors are on the CPU.

    Raises:
        AbstainError: If there is none, or it is broken, or not a checkpoint of this version.
    """
    with _opened(Path(path)) as (file, header):
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return Checkpoint(tensors, json.loads(header["state"]))


class CheckpointFolder:
    """The last and the best checkpoint of a run, and nothing else.

    Only one process of a run may save.

    >>> from tempfile import TemporaryDirectory
    >>> temporary = TemporaryDirectory()
    >>> folder = CheckpointFolder(temporary.name)
    >>> folder.save_best(Checkpoint({}, {"epoch": 1}), score=0.9)
    True
    >>> folder.save_best(Checkpoint({}, {"epoch": 2}), score=0.8)
    False
    >>> folder.load_best().state["epoch"], folder.has_last
    (1, False)
    >>> temporary.cleanup()
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.last = Path(folder) / f"last{_SUFFIX}"
        self.best = Path(folder) / f"best{_SUFFIX}"

    @property
    def has_last(self) -> bool:
        """Whether there is a run to go on with."""
        return self.last.exists()

    def save_last(self, checkpoint: Checkpoint) -> None:
        """Replace the last checkpoint."""
        _save(self.last, checkpoint, {})

    def save_best(self, checkpoint: Checkpoint, score: float) -> bool:
        """Replace the best checkpoint if the score is higher than its own; whether it was.

        The score is kept in the file, so that a resumed run does not replace a better one.
        """
        score = float(score)
        best = -math.inf
        if self.best.exists():
            with _opened(self.best) as (_, header):
                best = float(header["score"])
        if not score > best:  # not `<=`: NaN is no better than any
            return False
        _save(self.best, checkpoint, {"score": repr(score)})
        return True

    def load_last(self) -> Checkpoint:
        """The last checkpoint."""
        return load_checkpoint(self.last)

    def load_best(self) -> Checkpoint:
        """The checkpoint with the highest score."""
        return load_checkpoint(self.best)


def _save(path: Path, checkpoint: Checkpoint, extra: Mapping[str, str]) -> None:
    state = json.dumps(checkpoint.state)
    if len(state) > _MOST_JSON:
        raise AbstainError(
            f"the state of a checkpoint must be at most {_MOST_JSON:,} characters of JSON, "
            f"got {len(state):,}; keep large things as tensors"
        )
    header = {"format": _FORMAT, "version": _VERSION, "state": state, **extra}
    content = save(_plain(checkpoint.tensors), header)
    try:
        _write(path, content)
    except OSError as error:
        good = _last_good(path)
        raise AbstainError(
            f"the checkpoint {path} cannot be saved ({error.strerror or error}): make room or "
            "choose another folder; "
            + (f"the last good checkpoint, {good}, is whole" if good else "there is none before it")
        ) from error


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors as safetensors takes them: dense, and no two in the same memory."""
    plain: dict[str, Tensor] = {}
    taken: set[int] = set()
    for name, tensor in tensors.items():
        dense = tensor.detach().cpu().contiguous()
        if dense.untyped_storage().data_ptr() in taken:
            dense = dense.clone()
        taken.add(dense.untyped_storage().data_ptr())
        plain[name] = dense
    return plain


def _write(path: Path, content: bytes) -> None:
    if path.exists() and not path.is_file():
        raise OSError(errno.EEXIST, "there is something that is not a file")  # a device, say
    with suppress(FileExistsError):  # a file there: to open one below it gives a better error
        path.parent.mkdir(parents=True, exist_ok=True)
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with suppress(OSError):
            if _is_abandoned(leftover):
                leftover.unlink()
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    try:
        with temporary.open("xb") as file:
            _lock(file)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink()
    _sync_folder(path.parent)


if sys.platform == "win32":  # where a file that is open cannot be removed, and needs no lock

    def _lock(file: IO[bytes]) -> bool:
        return True

    def _sync_folder(folder: Path) -> None:
        pass

else:
    import fcntl

    def _lock(file: IO[bytes]) -> bool:
        """Mark a file as being written: unlike a process number, a lock ends with its process."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # held by another, or a file system without locks
            return False
        return True

    def _sync_folder(folder: Path) -> None:
        """Make a move last: the name of a file is on disk only when its folder is."""
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno != errno.EINVAL:  # some network file systems sync no folders
                raise
        finally:
            os.close(descriptor)


def _is_abandoned(temporary: Path) -> bool:
    with temporary.open("rb+") as file:
        return _lock(file)


def _last_good(path: Path) -> Path | None:
    """The newest whole checkpoint in the folder."""
    with suppress(OSError):
        beside = filter(Path.is_file, path.parent.glob(f"*{path.suffix}"))
        for other in sorted(beside, key=lambda file: file.stat().st_mtime, reverse=True):
            with suppress(AbstainError), _opened(other):
                return other
    return None


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, dict[str, str]]]:
    """A checkpoint as safetensors opens it, and its header, with errors that give the remedy."""
    try:
        if path.exists() and not path.is_file():
            raise OSError("it is not a file")  # to open a pipe would wait for ever
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            _check_header(path, header)
            yield file, header
    except AbstainError:
        raise
    except FileNotFoundError:
        raise AbstainError(
            f"there is no checkpoint {path}: check the path, or start the run anew"
        ) from None
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise AbstainError(
            f"the checkpoint {path} is broken, or not one at all ({error}): "
            "remove it, and go on from another or start the run anew"
        ) from error


def _check_header(path: Path, header: Mapping[str, str]) -> None:
    if header.get("format") != _FORMAT:
        raise AbstainError(
            f"{path} is a safetensors file but not a checkpoint: "
            f"name one that a run saved, such as last{_SUFFIX}"
        )
    if header.get("version") != _VERSION:
        raise AbstainError(
            f"the checkpoint {path} must have version {_VERSION}, got {header.get('version')}: "
            "go on with the release of abstain that saved it, or start the run anew"
        )
