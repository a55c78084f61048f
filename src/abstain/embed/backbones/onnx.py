"""Networks in ONNX files: `onnx:FILE`, run by onnxruntime."""

import hashlib
import json
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from abstain.data import Kind
from abstain.embed.backbones.base import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    SIZE,
    Backbone,
    ImageBackbone,
    TextBackbone,
    in_batches,
    per_channel,
    pooled,
    splitter,
)
from abstain.embed.backbones.opening import tried
from abstain.embed.backbones.transformers import without_truncation
from abstain.errors import AbstainError
from abstain.support.optional import require

_WINDOW = 512
_UNLIMITED = 10**9
"""transformers writes 10³⁰ as the length of a tokenizer of which it knows none."""
_PROVIDERS = "CUDAExecutionProvider", "CPUExecutionProvider"
"""Those that are there, in this order. TensorRT compiles anew for inputs of every other shape."""
_ENTRIES = {
    "input_ids": "ids",
    "attention_mask": "attention_mask",
    "token_type_ids": "type_ids",
}
"""Inputs of an ONNX network for texts, by what a tokenizer calls them."""


def from_onnx(name: str, file: str, kind: Kind) -> Backbone:
    """An ONNX network, run by onnxruntime.

    One for images takes (N, 3, height, width). Mean and standard deviation of its pixels are those
    of `preprocessor_config.json` beside it, else ImageNet's. One for texts has its `tokenizer.json`
    beside it, and takes input_ids and attention_mask.
    """
    path = Path(file).expanduser()
    if not path.is_file():
        raise AbstainError(f"must name an ONNX file that exists, got {path}", argument="backbone")
    runtime = require("onnxruntime", name)
    try:
        there = runtime.get_available_providers()
        session = runtime.InferenceSession(
            str(path), providers=[x for x in _PROVIDERS if x in there]
        )
    except Exception as error:  # onnxruntime has classes of its own for each fault
        raise AbstainError(
            f"must be an ONNX network, got {path}: {error}", argument="backbone"
        ) from error
    if kind == "text":
        return _texts(name, session, path)
    entry, *others = session.get_inputs()
    if others or not _takes_images(entry):
        taken = ", ".join(f"{x.name}: {x.type} {x.shape}" for x in session.get_inputs())
        raise AbstainError(
            "must take images as tensor(float) (N, 3, side, side), where N may be any number, got "
            f"{path}, which takes {taken}; export it with that input",
            argument="backbone",
        )
    config = _beside(path, "preprocessor_config.json")
    mean = per_channel(config.get("image_mean", IMAGENET_MEAN), "image_mean")
    std = per_channel(config.get("image_std", IMAGENET_STD), "image_std")
    side = next((x for x in entry.shape[2:] if isinstance(x, int)), SIZE)
    identity = f"{_onnx_digest(path)}-{side}-{mean}-{std}"
    return tried(ImageBackbone(name, identity, _Session(session, entry.name), side, mean, std))


def _takes_images(entry: Any) -> bool:  # noqa: ANN401
    """Whether an input of an ONNX network takes images; what is no int there is free."""
    if len(entry.shape) != 4 or entry.type != "tensor(float)":
        return False
    count, channels, *sides = entry.shape
    fixed = {side for side in sides if isinstance(side, int)}
    return (
        not isinstance(count, int)
        and (channels == 3 or not isinstance(channels, int))
        and len(fixed) <= 1
    )


def _onnx_digest(network: Path, *others: Path) -> str:
    """Hash all files of a network: weights may lie beside it, in files that it names."""
    with network.open("rb") as stream, mmap(stream.fileno(), 0, access=ACCESS_READ) as content:
        beside = [x for x in sorted(network.parent.iterdir()) if x != network and x.is_file()]
        named = [x for x in beside if content.find(x.name.encode()) >= 0]
    digest = hashlib.sha256()
    for file in (network, *named, *others):
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return f"onnx-{digest.hexdigest()[:16]}"


class _Session(nn.Module):
    """An ONNX network as a module; it chooses its own device."""

    def __init__(self, session: Any, entry: str) -> None:  # noqa: ANN401
        super().__init__()
        self.session = session
        self.entry = entry

    def forward(self, images: Tensor) -> Tensor:
        features, *_ = self.session.run(None, {self.entry: images.float().cpu().numpy()})
        rows = torch.from_numpy(np.asarray(features))
        return (rows.mean((2, 3)) if rows.ndim == 4 else rows.flatten(1)).to(images.device)


def _texts(name: str, session: Any, path: Path) -> Backbone:  # noqa: ANN401
    file = path.parent / "tokenizer.json"
    tokenizer = _tokenizer(name, path, file)
    whole = without_truncation(tokenizer)
    # Some networks, as RoBERTa and MPNet, have more positions than they take tokens.
    limits = {"tokenizer_config.json": "model_max_length", "config.json": "max_position_embeddings"}
    stated = [_beside(path, x).get(limit) or _UNLIMITED for x, limit in limits.items()]
    window = int(min(stated)) if min(stated) < _UNLIMITED else _WINDOW
    tokenizer.enable_truncation(window)
    tokenizer.enable_padding()
    entries = [x.name for x in session.get_inputs()]
    if unknown := [x for x in entries if x not in _ENTRIES]:
        raise AbstainError(
            f"for texts must take {', '.join(_ENTRIES)} or some of them, got {path}, which takes "
            f"{', '.join(unknown)}; export it without",
            argument="backbone",
        )

    def encode(texts: list[str]) -> Tensor:
        tokens = tokenizer.encode_batch(texts)
        numbers = {
            key: np.array([getattr(x, name) for x in tokens], np.int64)
            for key, name in _ENTRIES.items()
        }
        hidden, *_ = session.run(None, {key: numbers[key] for key in entries})
        rows = torch.from_numpy(np.asarray(hidden)).float()
        if rows.ndim == 3:
            rows = pooled(rows, torch.from_numpy(numbers["attention_mask"]))
        return rows

    identity = f"{_onnx_digest(path, file)}-{window}"

    def in_parts(texts: list[str], device: torch.device) -> Tensor:
        return in_batches(texts, encode).to(device)

    return tried(TextBackbone(name, identity, in_parts, splitter(whole, window - 2)))


def _tokenizer(name: str, path: Path, file: Path) -> Any:  # noqa: ANN401
    tokenizers = require("tokenizers", name)
    if not file.is_file():
        raise AbstainError(
            f"for texts must have tokenizer.json beside it, got none beside {path}",
            argument="backbone",
        )
    try:
        return tokenizers.Tokenizer.from_file(str(file))
    except Exception as error:  # tokenizers raises nothing more exact
        raise AbstainError(
            f"for texts must have a whole tokenizer.json beside it, got {file}: {error}",
            argument="backbone",
        ) from error


def _beside(path: Path, name: str) -> dict[str, Any]:
    """Read a JSON file beside a network; nothing if there is none."""
    file = path.parent / name
    if not file.is_file():
        return {}
    try:
        config: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise AbstainError(
            f"must have a {name} beside it that can be read, got {file}: {error}",
            argument="backbone",
        ) from error
    return config
