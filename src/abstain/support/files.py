"""Files that are there whole or not at all, whenever the process is killed."""

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def publish(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file, then rename it into place, whole or not at all.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as place:
    ...     publish(Path(place, "a", "b.txt"), lambda path: path.write_text("whole"))
    ...     Path(place, "a", "b.txt").read_text()
    'whole'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}-{os.getpid()}-{secrets.token_hex(4)}{path.suffix}")
    try:
        temporary.touch()
        mode = temporary.stat().st_mode
        write(temporary)
        temporary.chmod(mode)  # safetensors makes files private, but a folder may be shared
        with temporary.open("rb+") as stream:
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def publish_text(path: Path, text: str, errors: str = "strict") -> None:
    """Write a text as UTF-8, whole or not at all."""
    publish(path, lambda temporary: temporary.write_text(text, encoding="utf-8", errors=errors))


def in_the_way(path: Path) -> Path | None:
    """Find the file or folder above a path that is not writable; None if the path can be made.

    To be asked before long work whose result is to be written there.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as place:
    ...     in_the_way(Path(place, "a", "b"))
    """
    there = next(x for x in (path, *path.absolute().parents) if x.exists())
    return None if there.is_dir() and os.access(there, os.W_OK | os.X_OK) else there
