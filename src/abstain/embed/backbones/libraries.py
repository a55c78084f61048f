"""Backbones of the libraries of the field: timm, transformers, sentence-transformers, open_clip.

Weights come from the hub, once, or from a folder: `timm:FOLDER`, `hf:FOLDER`, `st:FOLDER`,
`clip:FOLDER`. What the cache of the hub has is taken from there, as it is. Each backbone keeps its
own preprocessing and pooling.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from abstain.data import Kind
from abstain.embed.backbones.base import (
    ABSENT,
    Backbone,
    ImageBackbone,
    TextBackbone,
    Transformer,
    in_batches,
    per_channel,
    splitter,
    weights_digest,
)
from abstain.embed.backbones.cached import LIBRARY_MODULES, cached_folder, modules_of
from abstain.embed.backbones.transformers import (
    check_tokenizer,
    check_torchvision,
    encoder_of,
    opened,
    quiet_loading,
    tokenizer_digest,
    tokens_of,
    without_truncation,
)
from abstain.errors import AbstainError
from abstain.support.wording import beginning, some

_log = logging.getLogger(__name__)
_PACKAGES = {"open_clip": "open_clip_torch", "sentence_transformers": "sentence-transformers"}
_BY_TORCHVISION = ("timm", "open_clip")


def from_timm(name: str, model: str, kind: Kind) -> Backbone:
    """An image model of timm, without its last layer."""
    _check_kind(name, kind, "image")
    timm = _library("timm", name)
    with _found(name, kind):
        network = timm.create_model(_with_scheme(model), pretrained=True, num_classes=0)
    about = timm.data.resolve_model_data_config(network)
    size, mean, std = about["input_size"][-1], tuple(about["mean"]), tuple(about["std"])
    return ImageBackbone(
        name,
        identity=f"{name}-{weights_digest(network)}-{size}-{mean}-{std}",
        network=network,
        size=size,
        mean=mean,
        std=std,
        # Transformers with patches of a fixed number may still lack the first of the two.
        any_size=not network.pretrained_cfg.get("fixed_input_size", False)
        and not hasattr(network, "patch_embed"),
    )


def _on_this_machine(model: str) -> str:
    """The folder of a model that the cache of the hub has: to use it, nothing is asked of the hub.

    What looks like a path must be one: a library would look for it on the hub.
    """
    if _is_path(model) and not Path(model).expanduser().is_dir():
        raise AbstainError(f"must name a folder that exists, got {model}", argument="backbone")
    return str(cached_folder(model) or model)


def _on_this_machine_or_hub(model: str) -> str:
    """The same; that the hub is asked is said, as without a network it is asked for a long time."""
    found = _on_this_machine(model)
    if not Path(found).is_dir():
        _log.warning("%s is not on this machine: it is fetched from the hub, if it is there", model)
    return found


def _is_path(model: str) -> bool:
    return model.startswith(("/", ".", "~"))


def _with_scheme(model: str) -> str:
    """A folder as timm and open_clip name it; other names as they are."""
    here = _on_this_machine(model)
    return f"local-dir:{Path(here).expanduser()}" if _is_path(here) else model


def from_transformers(name: str, model: str, kind: Kind) -> Backbone:
    """An image or text encoder of transformers."""
    model = _on_this_machine_or_hub(model)
    _library("transformers", name)
    with _found(name, kind):
        if kind == "text":
            return encoder_of(model, name)
        with quiet_loading():
            network, digest = opened(model)
        # The processor itself would import torchvision, of which this needs nothing.
        reader = import_module("transformers.image_processing_base").ImageProcessingMixin
        about, _ = reader.get_image_processor_dict(model)
        size = about.get("crop_size") or about.get("size") or 224
        side = int(min(size.values())) if isinstance(size, dict) else int(size)
        mean = per_channel(about.get("image_mean") or (0.485, 0.456, 0.406), "image_mean")
        std = per_channel(about.get("image_std") or (0.229, 0.224, 0.225), "image_std")
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
            found: Any = self.network.get_image_features(pixel_values=images)  # type: ignore[operator]
            features: Tensor = getattr(found, "pooler_output", found)
            return features
        hidden: Tensor = self.network(pixel_values=images).last_hidden_state
        if hidden.ndim == 4:  # convolutions: (batch, channels, height, width)
            return hidden.mean((2, 3))
        return hidden[:, 0] if self.has_class_token else hidden.mean(1)


def from_sentence_transformers(name: str, model: str, kind: Kind) -> Backbone:
    """A model of sentence-transformers, with its own pooling and normalisation."""
    _check_kind(name, kind, "text")
    model = _on_this_machine_or_hub(model)
    library = _library("sentence_transformers", name)
    foreign = [x for x in modules_of(Path(model)) if not x.startswith(LIBRARY_MODULES)]
    if foreign:  # before 6.0 the library runs them where they lie in a folder, as the hub's cache
        raise AbstainError(
            "must have modules of sentence-transformers alone, as others are code that comes with "
            f"it, got {name}, which has {some(foreign)}",
            argument="backbone",
        )
    with _found(name, kind), quiet_loading():
        network = library.SentenceTransformer(model, device="cpu")
        check_tokenizer(network.tokenizer)
    window = int(network.max_seq_length or 512)

    def encode(texts: list[str], device: torch.device) -> Tensor:
        rows: Tensor = network.to(device).encode(
            texts, convert_to_tensor=True, show_progress_bar=False, device=str(device)
        )
        return rows.clone()  # it was made in inference mode of its own

    tokenizer = network.tokenizer
    whole = without_truncation(tokenizer.backend_tokenizer)
    # A pooler that its checkpoint lacks is drawn at random, and no pooling uses it.
    poolers = [weight for weight in network.state_dict() if ".pooler." in weight]
    pooling = "-".join(str(getattr(module, "pooling_mode", "")) for module in network)
    digest = f"{weights_digest(network, poolers)}-{tokenizer_digest(whole)}"
    prompt = network.prompts.get(network.default_prompt_name, "")  # put before each text
    identity = f"{name}-{digest}-{window}{pooling}{prompt}"
    trainable = Transformer(
        lambda texts: tokens_of([prompt + text for text in texts], tokenizer, window),
        _Sentences(network, tokenizer.pad_token_id or 0),
    )
    left = window - 2 - len(whole.encode(prompt, add_special_tokens=False))
    return TextBackbone(name, identity, encode, splitter(whole, left), trainable=trainable)


class _Sentences(nn.Module):
    """A model of sentence-transformers behind its tokenizer."""

    def __init__(self, network: nn.Module, padding: int) -> None:
        super().__init__()
        self.network, self.padding = network, padding

    def forward(self, tokens: Tensor) -> Tensor:
        there = tokens != ABSENT
        ids = tokens.where(there, self.padding)
        features: Tensor = self.network({"input_ids": ids, "attention_mask": there.long()})[
            "sentence_embedding"
        ]
        return features


def from_open_clip(name: str, model: str, kind: Kind) -> Backbone:
    """A model of open_clip, for images or for texts.

    Named `clip:MODEL/WEIGHTS` (a tag of open_clip, or a file), `clip:hf-hub:OWNER/NAME`, or by its
    folder.
    """
    library = _library("open_clip", name)
    whole = _is_path(model) or model.startswith(("hf-hub:", "local-dir:"))
    architecture, _, weights = (_with_scheme(model), "", "") if whole else model.partition("/")
    if not whole and not weights:  # open_clip would take random ones
        raise AbstainError(
            f"must name its weights, clip:MODEL/WEIGHTS, got {name}", argument="backbone"
        )
    with _found(name, kind):
        network = library.create_model(
            architecture, pretrained=weights or None, require_pretrained=True
        )
    digest = weights_digest(network)
    if kind == "text":
        tokenizer = library.get_tokenizer(architecture)

        def encode(texts: list[str], device: torch.device) -> Tensor:
            side = network.to(device).eval()
            return in_batches(texts, lambda part: side.encode_text(tokenizer(part).to(device)))

        return TextBackbone(name, f"{name}-{digest}-text", encode, _halver(tokenizer))
    about = library.get_model_preprocess_cfg(network)
    side = int(about["size"] if isinstance(about["size"], int) else min(about["size"]))
    mean, std = tuple(about["mean"]), tuple(about["std"])
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


LIBRARIES: dict[str, Callable[[str, str, Kind], Backbone]] = {
    "timm": from_timm,
    "hf": from_transformers,
    "st": from_sentence_transformers,
    "clip": from_open_clip,
}
"""By the word before the colon."""


def _library(module: str, name: str) -> Any:  # noqa: ANN401
    package = _PACKAGES.get(module, module)
    check_torchvision(name)
    try:
        return import_module(module)
    except (ImportError, RuntimeError) as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == module
        why = "which is not installed" if missing else f"which cannot be imported ({error})"
        beside = f", with a torchvision built for torch {torch.__version__}"
        raise AbstainError(
            f"{name} needs the package {package}, {why}; run: pip install {package}"
            f"{beside if module in _BY_TORCHVISION else ''}",
            argument="backbone",
        ) from error


@contextmanager
def _found(name: str, kind: Kind) -> Iterator[None]:
    """Say that a model is not there, whatever its library raises for that.

    What the libraries log meanwhile (every try to reach the hub) is left out: the error says it.
    """
    disabled = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    except AbstainError:
        raise
    except Exception as error:
        got = f"got {name} ({type(error).__name__}: {beginning(error)})"
        if Path(name.partition(":")[2]).expanduser().is_dir():
            raise AbstainError(
                f"must name a folder that holds a whole model for {kind}s, {got}",
                argument="backbone",
            ) from error
        raise AbstainError(
            f"must name a model that is there, {got}; without a network, name the folder that "
            "holds it",
            argument="backbone",
        ) from error
    finally:
        logging.disable(disabled)


def _check_kind(name: str, kind: Kind, able: Kind) -> None:
    if kind != able:
        raise AbstainError(f"must be one for {kind}s, got {name}, for {able}s", argument="backbone")
