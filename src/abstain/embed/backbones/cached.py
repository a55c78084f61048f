"""Models of the hub that this machine has already: found by their files, without the network."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from abstain.data import Kind

MOST_WEIGHTS = 500_000_000
"""A model of more is for those who name it: it would take hours on most machines."""
LIBRARY_MODULES = "sentence_transformers."
"""Prefix of the library's own classes; others come with the model, as code."""


def cached_models(kind: Kind) -> list[str]:
    """Names of the encoders for images or for texts in the cache of the hub, smallest first.

    Image encoders of transformers have a preprocessor_config.json with the mean of pixels, models
    of sentence-transformers a modules.json. Those that need code of their own are left out.
    """
    by_size = []
    for model, folder in _snapshots():
        weights = weights_in(folder)
        if 0 < weights <= MOST_WEIGHTS and (library := _library(folder, kind)):
            by_size.append((weights, f"{library}:{model}"))
    return [name for _, name in sorted(by_size)]


def cached_folder(model: str) -> Path | None:
    """Find the folder of a model of the hub on this machine.

    One without weights was left by a fetch that was cut short, and its library goes on with that.
    """
    folders = (folder for name, folder in _snapshots() if name == model)
    return next(filter(_arrived, folders), None)


def _arrived(folder: Path) -> bool:
    """Whether weights are there, which the hub's library puts in place when they are whole."""
    return any(path.suffix in (".safetensors", ".bin") for path in folder.rglob("*"))


def weights_in(folder: Path) -> int:
    """Count the weights of a model, from the heads of its files.

    The weights of modules.json lie in the folder too, or in one of its first module.
    """
    from safetensors import SafetensorError, safe_open

    total = 0
    for path in (*folder.glob("*.safetensors"), *folder.glob("0_*/*.safetensors")):
        try:
            with safe_open(path, framework="pt") as file:
                for name in file.keys():  # noqa: SIM118
                    size = 1
                    for side in file.get_slice(name).get_shape():
                        size *= side
                    total += size
        except (OSError, SafetensorError):  # cut short while it was fetched
            return 0
    return total


def _library(folder: Path, kind: Kind) -> str | None:
    """The library of a model that gives features of this kind."""
    modules = modules_of(folder)
    if kind == "text":
        is_plain = all(name.startswith(LIBRARY_MODULES) for name in modules)
        return "st" if is_plain and modules and modules[0].endswith(".Transformer") else None
    config, pixels = (_json(folder / f"{x}config.json") for x in ("", "preprocessor_"))
    is_plain = isinstance(config, dict) and "auto_map" not in config
    is_of_images = isinstance(pixels, dict) and "image_mean" in pixels
    return "hf" if is_plain and is_of_images and not modules else None


def modules_of(folder: Path) -> list[str]:
    """The classes that modules.json names; none where it is none of sentence-transformers."""
    modules = _json(folder / "modules.json")
    return [module.get("type", "") for module in modules] if isinstance(modules, list) else []


def _snapshots() -> Iterator[tuple[str, Path]]:
    """Every model of the cache with the folder of its newest version."""
    for model in sorted(hub_cache().glob("models--*")):
        head = model / "refs" / "main"
        folder = model / "snapshots" / (head.read_text().strip() if head.is_file() else "")
        if head.is_file() and folder.is_dir():
            yield model.name.removeprefix("models--").replace("--", "/"), folder


def hub_cache() -> Path:
    """The folder in which Hugging Face's libraries keep models."""
    home = os.environ.get("HF_HOME") or Path(
        os.environ.get("XDG_CACHE_HOME", "~/.cache"), "huggingface"
    )
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home, "hub")).expanduser()


def _json(path: Path) -> Any:  # noqa: ANN401
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
