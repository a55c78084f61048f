"""Backbones of the user's own: an ONNX file, or a torch module of a Python file."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from abstain.data import Kind
from abstain.embed.backbone import (
    Backbone,
    ImageBackbone,
    TextBackbone,
    in_batches,
    pooled,
    splitter,
    weights_digest,
)
from abstain.embed.transformer import without_truncation
from abstain.errors import AbstainError
from abstain.models.own import make_own
from abstain.support.optional import require

_IMAGENET: dict[str, Any] = {
    "image_mean": (0.485, 0.456, 0.406),
    "image_std": (0.229, 0.224, 0.225),
}
_SIZE = 224
_TOKENS = ("input_ids", "attention_mask", "token_type_ids")


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
        session = runtime.InferenceSession(str(path), providers=runtime.get_available_providers())
    except Exception as error:  # onnxruntime has classes of its own for each fault
        raise AbstainError(
            f"must be an ONNX network, got {path}: {error}", argument="backbone"
        ) from error
    with path.open("rb") as stream:
        identity = f"onnx-{hashlib.file_digest(stream, 'sha256').hexdigest()[:16]}"
    if kind == "text":
        return _texts(name, identity, session, path)
    entry, *others = session.get_inputs()
    if others or len(entry.shape) != 4:
        taken = ", ".join(f"{x.name} {x.shape}" for x in session.get_inputs())
        raise AbstainError(
            f"must take images (N, 3, height, width), got {path}, which takes {taken}",
            argument="backbone",
        )
    about = {**_IMAGENET, **(_beside(path, "preprocessor_config.json") or {})}
    side = entry.shape[-1] if isinstance(entry.shape[-1], int) else _SIZE
    return ImageBackbone(
        name,
        identity=f"{identity}-{side}",
        network=_Session(session, entry.name),
        size=side,
        mean=tuple(about["image_mean"]),
        std=tuple(about["image_std"]),
    )


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


def _texts(name: str, identity: str, session: Any, path: Path) -> Backbone:  # noqa: ANN401
    tokenizers = require("tokenizers", name)
    file = path.parent / "tokenizer.json"
    if not file.is_file():
        raise AbstainError(
            f"for texts must have tokenizer.json beside it, got none beside {path}",
            argument="backbone",
        )
    tokenizer = tokenizers.Tokenizer.from_file(str(file))
    whole = without_truncation(tokenizer)
    window = int((_beside(path, "config.json") or {}).get("max_position_embeddings", 512))
    tokenizer.enable_truncation(window)
    tokenizer.enable_padding()
    entries = [x.name for x in session.get_inputs()]
    if unknown := [name for name in entries if name not in _TOKENS]:
        raise AbstainError(
            f"must take {', '.join(_TOKENS)} or some of these, got {path}, which takes "
            f"{', '.join(unknown)}",
            argument="backbone",
        )

    def encode(texts: list[str]) -> Tensor:
        found = tokenizer.encode_batch(texts)
        numbers = {
            "input_ids": np.array([x.ids for x in found], np.int64),
            "attention_mask": np.array([x.attention_mask for x in found], np.int64),
            "token_type_ids": np.array([x.type_ids for x in found], np.int64),
        }
        hidden, *_ = session.run(None, {key: numbers[key] for key in entries})
        rows = torch.from_numpy(np.asarray(hidden)).float()
        if rows.ndim == 3:
            rows = pooled(rows, torch.from_numpy(numbers["attention_mask"]))
        return rows

    return TextBackbone(
        name,
        identity,
        lambda texts, device: in_batches(texts, encode).to(device),
        splitter(whole, window - 2),
    )


def _beside(path: Path, name: str) -> dict[str, Any] | None:
    file = path.parent / name
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


def from_python(name: str, kind: Kind) -> Backbone:
    """`PATH.py:NAME`: a class or function without arguments that makes a torch module.

    For images the module takes normalised (N, 3, size, size) and gives (N, columns); its attributes
    `size` (224 by default), `mean` and `std` (ImageNet's) say how. For texts it takes a list of
    them.
    """
    network = make_own(name, "backbone")
    identity = f"{Path(name.rpartition(':')[0]).stem}-{weights_digest(network)}"
    if kind == "text":

        def encode(texts: list[str], device: torch.device) -> Tensor:
            rows: Tensor = network.to(device).eval()(texts)
            return rows.to(device)

        return TextBackbone(name, identity, encode)
    size = int(getattr(network, "size", _SIZE))
    mean, std = (tuple(getattr(network, x, _IMAGENET[f"image_{x}"])) for x in ("mean", "std"))
    return ImageBackbone(name, f"{identity}-{size}-{mean}-{std}", network, size, mean, std)
