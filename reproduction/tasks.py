"""The data sets as tensors, as a device without any data library can take them.

Images come from the cache of `abstain.data`: a set that was decoded once (`abstain data get mnist`)
loads from there without its source. Texts become tokens and word vectors once, and are kept in one
file of the same folder, so that neither a tokenizer nor the texts are needed after that. To train
elsewhere, copy the cache folder and name it in `ABSTAIN_CACHE`.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from abstain.data import BUILTIN, LabeledData, fit_encoder, load
from abstain.data.cache import cache_folder
from abstain.data.encoders import TextEncoder
from abstain.errors import AbstainError, DataError
from abstain.support.files import publish
from reproduction.word_vectors import read_vectors

_TOKENS = "abstain-paper-{}-tokens.safetensors"


@dataclass(frozen=True, kw_only=True)
class Task:
    """A data set and a network; images are bytes, texts are tokens with a vector for each."""

    data: str
    network: str
    inputs: Tensor
    true: Tensor
    test_inputs: Tensor
    test_labels: Tensor
    num_classes: int
    vectors: Tensor | None = None


def task_loader(data_dir: Path | None = None) -> Callable[[str, str], Task]:
    """Make a loader of tasks by their names; the last data set stays in memory."""

    @lru_cache(maxsize=1)
    def tensors(data: str) -> dict[str, Tensor]:
        texts = BUILTIN[data].kind == "text"
        return load_tokens(data, data_dir) if texts else _images(data, data_dir)

    def load_task(data: str, network: str) -> Task:
        classes = len(BUILTIN[data].classes)
        return Task(data=data, network=network, num_classes=classes, **tensors(data))

    return load_task


def load_tokens(data: str, data_dir: Path | None = None) -> dict[str, Tensor]:
    """Texts as tokens, and the vectors of these: from the cache, or else encoded into it."""
    from safetensors.torch import load_file, save_file

    path = cache_folder() / _TOKENS.format(data)
    if not path.exists():
        tensors = _tokens(data, data_dir)
        try:
            publish(path, lambda temporary: save_file(tensors, temporary))
        except OSError:
            return _widened(tensors)  # a cache that cannot be written costs time, not the run
    return _widened(load_file(path))


def _images(data: str, data_dir: Path | None) -> dict[str, Tensor]:
    train, test = _splits(data, data_dir)
    if not (isinstance(train.inputs, Tensor) and isinstance(test.inputs, Tensor)):
        raise DataError(f"{data} must fit into memory to be trained on here")
    return {
        "inputs": train.inputs,
        "true": train.given,
        "test_inputs": test.inputs,
        "test_labels": test.given,
    }


def _tokens(data: str, data_dir: Path | None) -> dict[str, Tensor]:
    train, test = _splits(data, data_dir)
    folders = (data_dir, os.environ.get("ABSTAIN_DATA"))
    glove = [place for x in folders if x and (place := Path(x).expanduser() / "glove").exists()]
    if not glove:
        raise AbstainError(
            f"{data} needs GloVe vectors: put a folder glove beside that of the set, with one "
            "safetensors file and words.txt"
        )
    encoder = fit_encoder(train)
    assert isinstance(encoder, TextEncoder)
    vocabulary = encoder.tokenizer.get_vocab()
    vectors = read_vectors(glove[0], sorted(vocabulary, key=vocabulary.__getitem__))
    # 50,000 words fit into 16 bits, and GloVe has no more digits than half precision keeps.
    return {
        "inputs": _narrow(encoder.encode(train)),
        "true": train.given,
        "test_inputs": _narrow(encoder.encode(test)),
        "test_labels": test.given,
        "vectors": vectors.half(),
    }


def _splits(data: str, data_dir: Path | None) -> tuple[LabeledData, LabeledData]:
    train = load(data, data_dir=data_dir)
    return train, load(data, data_dir=data_dir, split="test", classes=train.classes)


def _narrow(tokens: object) -> Tensor:
    assert isinstance(tokens, Tensor)
    return tokens.to(torch.uint16)


def _widened(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    wide = {name: tensors[name].to(torch.int32) for name in ("inputs", "test_inputs")}
    return {**tensors, **wide, "vectors": tensors["vectors"].float()}
