"""Torch modules of the user's own: `PATH.py:NAME`."""

import hashlib
from pathlib import Path

import torch
from torch import Tensor

from abstain.data import Kind
from abstain.data.identity import weights_digest
from abstain.embed.backbones.base import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    SIZE,
    Backbone,
    ImageBackbone,
    TextBackbone,
    per_channel,
)
from abstain.embed.backbones.opening import tried
from abstain.errors import AbstainError
from abstain.models.own import make_own


def from_python(name: str, kind: Kind) -> Backbone:
    """`PATH.py:NAME`: a class or function without arguments that makes a torch module.

    For images the module takes normalised (N, 3, size, size) and gives (N, columns); its attributes
    `size` (224 by default), `mean` and `std` (ImageNet's) say how. For texts it takes a list of
    them.
    """
    network = make_own(name, "backbone")
    path, _, attribute = name.rpartition(":")
    # Other code makes other features of the same weights; a network may have none at all.
    code = hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
    identity = f"{Path(path).stem}:{attribute}-{code}-{weights_digest(network)}"
    if kind == "text":

        def encode(texts: list[str], device: torch.device) -> Tensor:
            rows: Tensor = network.to(device).eval()(texts)
            return rows.to(device)

        return tried(TextBackbone(name, identity, encode))
    size = getattr(network, "size", SIZE)
    if not isinstance(size, int) or size < 1:
        raise AbstainError(
            f"must have a whole number of pixels as its size, got {size!r}", argument="backbone"
        )
    mean = per_channel(getattr(network, "mean", IMAGENET_MEAN), "mean")
    std = per_channel(getattr(network, "std", IMAGENET_STD), "std")
    identity += f"-{size}-{mean}-{std}"
    return tried(ImageBackbone(name, identity, network, size, mean, std))
