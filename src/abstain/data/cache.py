"""Decoded data on disk: one safetensors file per source and split, its JSON in the file's header.

One file, so that one atomic rename publishes it whole: two processes may build the same entry at
once and the later one wins with equal content. A file cut short fails the size check that
safetensors makes on opening, and is built again. Tensors are memory-mapped when read.
"""

import json
import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from abstain.data.contract import LabeledData, NumberedIds
from abstain.support.files import publish

_log = logging.getLogger(__name__)


def cache_folder(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """The folder of decoded data: the argument, `ABSTAIN_CACHE`, or the user's cache folder.

    >>> cache_folder("somewhere").as_posix()
    'somewhere'
    """
    chosen = cache_dir or os.environ.get("ABSTAIN_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "abstain"


def cached(stem: str, key: str, folder: Path, build: Callable[[], LabeledData]) -> LabeledData:
    """The entry under this key, built and written when it is not there or cannot be read.

    Lazy inputs are not written: they would not fit. A folder that cannot be written to costs time,
    not the run.
    """
    path = folder / f"{stem}-{key}.safetensors"
    data = read_entry(path)
    if data is None:
        data = build()
        store(path, data)
    return data


def store(path: Path, data: LabeledData) -> None:
    """Write an entry if it can be written."""
    try:
        write_entry(path, data)
    except OSError as error:
        _log.warning("decoded data are not cached in %s: %s", path.parent, error)


def newest(stem: str, folder: Path) -> LabeledData | None:
    """The entry of a source that cannot be reached now, whatever its key."""
    paths = sorted(folder.glob(f"{stem}-*.safetensors"), key=lambda path: -path.stat().st_mtime)
    return next((data for path in paths if (data := read_entry(path)) is not None), None)


def write_entry(path: Path, data: LabeledData) -> None:
    """Write decoded data; nothing happens for lazy inputs."""
    tensors = {"given": data.given}
    if isinstance(data.inputs, Tensor):
        tensors["inputs"] = data.inputs.contiguous()
    elif isinstance(data.inputs, list):
        tensors |= _packed("inputs", data.inputs)
    else:
        return
    ids: object = None
    if isinstance(data.ids, NumberedIds):
        ids = [data.ids.total, data.ids.prefix, data.ids.width]
    else:
        tensors |= _packed("ids", data.ids)
    entry = {
        "classes": data.classes,
        "kind": data.kind,
        "name": data.name,
        "ids": ids,
        "skipped": data.skipped,
        "scaled": data.scaled,
        "columns": data.columns,
    }
    _write(path, tensors, {"abstain": json.dumps(entry)})


def read_entry(path: Path) -> LabeledData | None:
    """Decoded data, or None where there are none or the file is damaged."""
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            entry = json.loads(file.metadata()["abstain"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        _log.warning("cache entry %s is damaged and will be built again: %s", path, error)
        return None
    ids = NumberedIds(*entry["ids"]) if entry["ids"] else _unpacked("ids", tensors)
    inputs = tensors["inputs"] if "inputs" in tensors else _unpacked("inputs", tensors)
    return LabeledData(
        inputs=inputs,
        given=tensors["given"],
        classes=tuple(entry["classes"]),
        ids=ids,
        kind=entry["kind"],
        name=entry["name"],
        skipped=tuple(entry["skipped"]),
        scaled=entry["scaled"],
        columns=tuple(entry["columns"]),
    )


def _write(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    from safetensors.torch import save_file

    publish(path, lambda temporary: save_file(tensors, temporary, metadata=metadata))


def _packed(name: str, texts: Iterable[str]) -> dict[str, Tensor]:
    """Texts as one run of UTF-8 bytes and the ends of each."""
    parts = [text.encode("utf-8", "surrogatepass") for text in texts]
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    run = np.frombuffer(bytearray(b"".join(parts)), dtype=np.uint8)
    return {f"{name}.bytes": torch.from_numpy(run), f"{name}.ends": torch.from_numpy(ends)}


def _unpacked(name: str, tensors: dict[str, Tensor]) -> list[str]:
    run = tensors[f"{name}.bytes"].numpy().tobytes()
    ends = tensors[f"{name}.ends"].tolist()
    starts = [0, *ends[:-1]]
    return [run[a:b].decode("utf-8", "surrogatepass") for a, b in zip(starts, ends, strict=True)]
