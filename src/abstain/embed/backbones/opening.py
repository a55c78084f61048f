"""Opening a model of a library: the package, the place of its weights, and one line if it fails.

Weights come from the hub, once, or from a folder. A model that the cache of the hub has is taken
from there, as it is.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from abstain.data import Kind
from abstain.embed.backbones.base import Backbone, ImageBackbone, Samples
from abstain.embed.backbones.cached import cached_folder
from abstain.errors import AbstainError
from abstain.support.wording import beginning

_log = logging.getLogger(__name__)
_PACKAGES = {"open_clip": "open_clip_torch", "sentence_transformers": "sentence-transformers"}
_BY_TORCHVISION = ("timm", "open_clip")
_CPU = torch.device("cpu")


def import_library(module: str, name: str) -> Any:  # noqa: ANN401
    """Import the package of a library, or say which one to install."""
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
def opening_error(name: str, kind: Kind) -> Iterator[None]:
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


def check_kind(name: str, kind: Kind, able: Kind) -> None:
    """Raise for a backbone of texts where there are images, and the reverse."""
    if kind != able:
        raise AbstainError(f"must be one for {kind}s, got {name}, for {able}s", argument="backbone")


def local_folder(model: str) -> str:
    """The folder of a model that the cache of the hub has: to use it, nothing is asked of the hub.

    What looks like a path must be one: a library would look for it on the hub.
    """
    if is_path(model) and not Path(model).expanduser().is_dir():
        raise AbstainError(f"must name a folder that exists, got {model}", argument="backbone")
    return str(cached_folder(model) or model)


def local_or_hub(model: str) -> str:
    """Warn that the hub is asked: without a network, its library tries for a long time."""
    folder = local_folder(model)
    if not Path(folder).is_dir():
        _log.warning("%s is not on this machine: it is fetched from the hub, if it is there", model)
    return folder


def is_path(model: str) -> bool:
    """Whether a name means a file or a folder."""
    return model.startswith(("/", ".", "~"))


def with_scheme(model: str) -> str:
    """A folder as timm and open_clip name it; other names as they are."""
    folder = local_folder(model)
    return f"local-dir:{Path(folder).expanduser()}" if is_path(folder) else model


def check_torchvision(name: str) -> None:
    """Raise for a torchvision that cannot be imported: transformers opens no model beside it.

    pip installs it with timm and open_clip, and it may be built for another torch.
    """
    try:
        import_module("torchvision")
    except ModuleNotFoundError:
        pass  # timm and open_clip say so; the others do without
    except Exception as error:  # it fails in its own ways beside another torch
        raise AbstainError(
            f"{name} cannot be opened: the torchvision that is installed cannot be imported "
            f"({error}); install one that was built for torch {torch.__version__}, or, if neither "
            "timm nor open_clip is used, run: pip uninstall torchvision",
            argument="backbone",
        ) from error


def tried(backbone: Backbone) -> Backbone:
    """A backbone that gave a row of numbers for each of two samples: nobody else has tested it."""
    if isinstance(backbone, ImageBackbone):
        samples: Samples = torch.zeros(2, 3, backbone.size, backbone.size, dtype=torch.uint8)
        taken = f"normalised images (N, 3, {backbone.size}, {backbone.size})"
    else:
        samples, taken = ["one", "two words"], "a list of N texts"
    rule = f"must take {taken} and give a tensor (N, columns), got {backbone.name}, which"
    try:
        shape = tuple(backbone.features(samples, _CPU).shape)
    except Exception as error:  # whatever code of the user's raises, or onnxruntime
        raise AbstainError(
            f"{rule} raised {type(error).__name__} for two of them: {beginning(error)}",
            argument="backbone",
        ) from error
    if len(shape) != 2 or shape[0] != 2 or not shape[1]:
        raise AbstainError(f"{rule} gave {shape} for two of them", argument="backbone")
    return backbone
