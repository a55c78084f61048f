"""Models of open_clip: `clip:MODEL/WEIGHTS`, `clip:hf-hub:OWNER/NAME`, or `clip:FOLDER`."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from abstain.data import Kind
from abstain.data.identity import weights_digest
from abstain.embed.backbones.base import (
    Backbone,
    ImageBackbone,
    TextBackbone,
    in_batches,
)
from abstain.embed.backbones.opening import import_library, is_path, opening_error, with_scheme
from abstain.errors import AbstainError


def from_open_clip(name: str, model: str, kind: Kind) -> Backbone:
    """A model of open_clip, for images or for texts.

    Named `clip:MODEL/WEIGHTS` (a tag of open_clip, or a file), `clip:hf-hub:OWNER/NAME`, or by its
    folder.
    """
    package = import_library("open_clip", name)
    whole = is_path(model) or model.startswith(("hf-hub:", "local-dir:"))
    architecture, _, weights = (with_scheme(model), "", "") if whole else model.partition("/")
    if not whole and not weights:  # open_clip would take random ones
        raise AbstainError(
            f"must name its weights, clip:MODEL/WEIGHTS, got {name}", argument="backbone"
        )
    with opening_error(name, kind):
        network = package.create_model(
            architecture, pretrained=weights or None, require_pretrained=True
        )
    digest = weights_digest(network)
    if kind == "text":
        tokenizer = package.get_tokenizer(architecture)

        def encode(texts: list[str], device: torch.device) -> Tensor:
            side = network.to(device).eval()
            return in_batches(texts, lambda part: side.encode_text(tokenizer(part).to(device)))

        return TextBackbone(name, f"{name}-{digest}-text", encode, _halver(tokenizer))
    config = package.get_model_preprocess_cfg(network)
    side = int(config["size"] if isinstance(config["size"], int) else min(config["size"]))
    mean, std = tuple(config["mean"]), tuple(config["std"])
    identity = f"{name}-{digest}-{side}-{mean}-{std}"
    return ImageBackbone(name, identity, _ImagesOf(network), side, mean, std)


def _halver(tokenizer: Callable[[list[str]], Tensor]) -> Callable[[str], list[str]]:
    """Cuts texts that fill the window into halves, until all fit.

    Tokenizers of open_clip cut what is too long, and do not say where.
    """
    padding = int(tokenizer([""])[0, -2])

    def split(text: str) -> list[str]:
        words = text.split()
        pieces, between = (words, " ") if len(words) > 1 else (text, "")  # scripts without spaces
        # Not by the last token, which may end a text and be the padding too.
        if len(pieces) < 2 or int(tokenizer([text])[0, -2]) == padding:
            return [text]
        middle = len(pieces) // 2
        return split(between.join(pieces[:middle])) + split(between.join(pieces[middle:]))

    return split


class _ImagesOf(nn.Module):
    """The image side of a CLIP."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.network.encode_image(images)  # type: ignore[operator]
        return features
