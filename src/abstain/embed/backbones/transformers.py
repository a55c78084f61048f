"""Models of transformers: `hf:NAME`, from the hub, or `hf:FOLDER`; also those that pip brings.

Texts are read in windows of tokens, and their features are the mean over the tokens.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from abstain.data import Kind
from abstain.data.identity import weights_digest
from abstain.embed.backbones.base import (
    ABSENT,
    IMAGENET_MEAN,
    IMAGENET_STD,
    SIZE,
    Backbone,
    ImageBackbone,
    TextBackbone,
    Transformer,
    in_batches,
    per_channel,
    pooled,
    splitter,
)
from abstain.embed.backbones.opening import import_library, local_or_hub, opening_error
from abstain.support.optional import require

_FRAME = 2  # tokens that begin and end a text


def encoder_of(
    folder: Path | str, name: str, *, identity: str | None = None, window: int | None = None
) -> TextBackbone:
    """The encoder that a folder, or a model of the hub, holds.

    Args:
        folder: With config.json, model.safetensors and tokenizer.json; or the name on the hub.
        name: What to call it.
        identity: Part of the cache's key; by default that of its weights.
        window: Tokens that it takes at once; by default those of its tokenizer.
    """
    transformers = require("transformers", name)
    with quiet_loading():
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        check_tokenizer(tokenizer)
        network, digest = opened(folder)
    whole = without_truncation(tokenizer.backend_tokenizer)
    longest = min(tokenizer.model_max_length, _positions(network))
    window = min(window or longest, longest)
    trainable = Transformer(
        lambda texts: tokens_of(texts, tokenizer, window),
        MeanOfTokens(network, tokenizer.pad_token_id or 0),
    )

    def encode(texts: list[str], device: torch.device) -> Tensor:
        mean = trainable.network.to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            return in_batches(texts, lambda part: mean(trainable.tokens(part).to(device)))

    return TextBackbone(
        name,
        identity or f"{name}-{digest}-{tokenizer_digest(whole)}-{window}",
        encode,
        splitter(whole, window - _FRAME),
        trainable=trainable,
    )


class MeanOfTokens(nn.Module):
    """The last layer of a transformer, averaged over the tokens that are there."""

    def __init__(self, network: nn.Module, padding: int) -> None:
        super().__init__()
        self.network, self.padding = network, padding

    def forward(self, tokens: Tensor) -> Tensor:
        """Features of texts."""
        there = tokens != ABSENT
        hidden: Tensor = self.network(
            input_ids=tokens.where(there, self.padding), attention_mask=there.long()
        ).last_hidden_state
        return pooled(hidden.float(), there)


def tokens_of(texts: list[str], tokenizer: Any, window: int) -> Tensor:  # noqa: ANN401
    """Numbers of tokens (N, longest), of at most so many for a text."""
    rows = tokenizer(texts, truncation=True, max_length=window)["input_ids"]
    nothing = [tokenizer.pad_token_id or 0]  # of a text without a token there would be no mean
    return nn.utils.rnn.pad_sequence(
        [torch.tensor(row or nothing, dtype=torch.int64) for row in rows], True, ABSENT
    )


def opened(folder: Path | str) -> tuple[Any, str]:
    """A network of transformers, and a hash of its weights.

    Many checkpoints lack a pooler, which features do not use: transformers draws one at random.
    """
    transformers = require("transformers", str(folder))
    network, config = transformers.AutoModel.from_pretrained(
        folder, use_safetensors=True, output_loading_info=True
    )
    return network.eval(), weights_digest(network, without=config["missing_keys"])


def _positions(network: Any) -> int:  # noqa: ANN401
    """Count the positions for tokens; the first ones of RoBERTa and MPNet are for none."""
    named = (x for name, x in network.named_modules() if name.endswith("position_embeddings"))
    padding = getattr(next(named, None), "padding_idx", None)
    most: int = network.config.max_position_embeddings
    return most if padding is None else most - padding - 1


def check_tokenizer(tokenizer: Any) -> None:  # noqa: ANN401
    """Raise where it knows no word: transformers makes such a one if the files are not there."""
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise ValueError("no tokenizer: tokenizer.json or a vocabulary is missing")


def without_truncation(tokenizer: Any) -> Any:  # noqa: ANN401
    """A copy that gives all the tokens of a text."""
    whole = type(tokenizer).from_str(tokenizer.to_str())
    whole.no_truncation()
    return whole


def tokenizer_digest(tokenizer: Any) -> str:  # noqa: ANN401
    """A hash of all that a tokenizer does to texts."""
    return hashlib.blake2b(tokenizer.to_str().encode(), digest_size=10).hexdigest()


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Hide the bars that transformers draws while it reads weights."""
    from transformers.utils import logging

    drawn = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if drawn:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def from_transformers(name: str, model: str, kind: Kind) -> Backbone:
    """An image or text encoder of transformers."""
    model = local_or_hub(model)
    import_library("transformers", name)
    with opening_error(name, kind):
        if kind == "text":
            return encoder_of(model, name)
        with quiet_loading():
            network, digest = opened(model)
        # The processor itself would import torchvision, of which this needs nothing.
        reader = import_module("transformers.image_processing_base").ImageProcessingMixin
        config, _ = reader.get_image_processor_dict(model)
        size = config.get("crop_size") or config.get("size") or SIZE
        side = int(min(size.values())) if isinstance(size, dict) else int(size)
        mean = per_channel(config.get("image_mean") or IMAGENET_MEAN, "image_mean")
        std = per_channel(config.get("image_std") or IMAGENET_STD, "image_std")
    identity = f"{name}-{digest}-{side}-{mean}-{std}"
    return ImageBackbone(name, identity, _ImageFeatures(network), side, mean, std)


class _ImageFeatures(nn.Module):
    """One row per image, from whatever an encoder of transformers returns."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        names = (name.rpartition(".")[2] for name, _ in network.named_parameters())
        self.has_class_token = any(name in ("cls_token", "class_embedding") for name in names)

    def forward(self, images: Tensor) -> Tensor:
        if hasattr(self.network, "get_image_features"):  # CLIP and its like
            embedded: Any = self.network.get_image_features(pixel_values=images)  # type: ignore[operator]
            features: Tensor = getattr(embedded, "pooler_output", embedded)
            return features
        hidden: Tensor = self.network(pixel_values=images).last_hidden_state
        if hidden.ndim == 4:  # convolutions: (batch, channels, height, width)
            return hidden.mean((2, 3))
        return hidden[:, 0] if self.has_class_token else hidden.mean(1)
