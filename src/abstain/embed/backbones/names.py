"""Backbones by name: `backbone_named` opens one."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from abstain.data import Kind
from abstain.embed.backbones.base import Backbone, ImageBackbone
from abstain.embed.backbones.onnx import from_onnx
from abstain.embed.backbones.open_clip import from_open_clip
from abstain.embed.backbones.python import from_python
from abstain.embed.backbones.sentence_transformers import from_sentence_transformers
from abstain.embed.backbones.small import SMALL
from abstain.embed.backbones.timm import from_timm
from abstain.embed.backbones.transformers import from_transformers
from abstain.errors import AbstainError, DataError
from abstain.support.wording import did_you_mean

AUTO, NONE = "auto", "none"
LIBRARIES: dict[str, Callable[[str, str, Kind], Backbone]] = {
    "timm": from_timm,
    "hf": from_transformers,
    "st": from_sentence_transformers,
    "clip": from_open_clip,
}
"""Libraries by the word before the colon."""
_FORMS = "small:NAME, timm:NAME, hf:NAME, st:NAME, clip:NAME, onnx:FILE, PATH.py:NAME, auto or none"


def backbone_named(name: str, kind: Kind) -> Backbone:
    """The backbone of a name, for images or for texts.

    Args:
        name: `small:` (weights from pip), `timm:`, `hf:` (transformers), `st:`
            (sentence-transformers), `clip:` (open_clip) or `onnx:`, and the name there; or
            `PATH.py:NAME`, a torch module of your own.
        kind: Of the samples: some names stand for an image encoder and for a text encoder.

    >>> backbone_named("small:wordlama", "text")
    Traceback (most recent call last):
    abstain.errors.AbstainError: backbone must be small: and one of efficientnet-lite2, \
wordllama, minilm, got 'small:wordlama'; did you mean wordllama?
    """
    check_name(name)
    name = found_from_anywhere(name)
    if name.rpartition(":")[0].endswith(".py"):
        return from_python(name, kind)
    library, _, model = name.partition(":")
    if library == "small":
        if model not in SMALL:
            raise AbstainError(
                f"must be small: and one of {', '.join(SMALL)}, got {name!r}"
                f"{did_you_mean(model, SMALL)}",
                argument="backbone",
            )
        if SMALL[model].kind != kind:
            raise AbstainError(
                f"must be one for {kind}s, got {name}, for {SMALL[model].kind}s",
                argument="backbone",
            )
        return SMALL[model].open(name)
    return (
        from_onnx(name, model, kind) if library == "onnx" else LIBRARIES[library](name, model, kind)
    )


def backbone_again(
    saved: Mapping[str, Any], kind: Kind, folder: Path, named: str | None = None
) -> Backbone:
    """The backbone of a saved encoder, which must have the weights that it had then.

    Args:
        saved: What the encoder saved.
        kind: Of the samples.
        folder: Of the run, for errors.
        named: Its name here, where its weights lie elsewhere than then.
    """
    backbone = backbone_named(named or saved["backbone"], kind)
    if isinstance(backbone, ImageBackbone):
        backbone = backbone.at(saved["size"])
    before = saved["identity"].removeprefix(saved["backbone"])
    if backbone.identity.removeprefix(backbone.name) != before:
        raise DataError(
            f"{folder} must find the backbone that it was trained with, {saved['identity']}, "
            f"got {backbone.identity}; install that version, or train again"
        )
    return backbone


def found_from_anywhere(name: str) -> str:
    """A name whose file or folder is absolute: a run may be used from elsewhere.

    >>> found_from_anywhere("small:wordllama"), found_from_anywhere("hf:/models/vit")
    ('small:wordllama', 'hf:/models/vit')
    """
    path, _, attribute = name.rpartition(":")
    if path.endswith(".py"):
        return f"{Path(path).expanduser().absolute()}:{attribute}"
    library, _, model = name.partition(":")
    is_here = library in ("onnx", "hf", "st") or model.startswith((".", "~"))
    file = Path(model).expanduser()
    return f"{library}:{file.absolute()}" if is_here and file.exists() else name


def check_name(name: object) -> None:
    """Raise for what cannot name a backbone, before anything is read."""
    text = name if isinstance(name, str) else ""
    library, _, model = text.partition(":")
    known = library in (*LIBRARIES, "small", "onnx") and model
    if not (text in (AUTO, NONE) or known or text.rpartition(":")[0].endswith(".py")):
        named = [f"small:{x}" for x in SMALL]
        named += [f"{x}:{model}" for x in LIBRARIES if model]
        raise AbstainError(
            f"must be {_FORMS}, got {name!r}{did_you_mean(text, named)}", argument="backbone"
        )
