"""Word vectors in GloVe's text format, or as a safetensors file with its words beside it."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from abstain.errors import DataError

_WORDS = "words.txt"


def read_vectors(path: Path, words: Sequence[str]) -> Tensor:
    """float32 vectors (words, dimensions), in the order of `words`; zero where one has none.

    Args:
        path: a GloVe `.txt` (word, then numbers, by spaces), a safetensors file with `words.txt`
            beside it (a word per row), or the folder of such a pair.
        words: the vocabulary.
    """
    path = Path(path).expanduser()
    if not path.exists():
        raise DataError(f"must name a file or folder that exists, got {path}", argument="vectors")
    if path.is_dir():
        files = sorted(path.glob("*.safetensors"))
        if len(files) != 1:
            raise DataError(
                f"{path} must hold one safetensors file and {_WORDS}, got {len(files)} of them"
            )
        path = files[0]
    rows = {word: row for row, word in enumerate(words)}
    vectors = _binary(path, rows) if path.suffix == ".safetensors" else _text(path, rows)
    if not bool(vectors.any()):
        raise DataError(
            f"vectors in {path} must know some words of the texts, got none in common; "
            "check that language and case (lower) are those of the texts"
        )
    return vectors


def _binary(path: Path, rows: dict[str, int]) -> Tensor:
    from safetensors.torch import load_file

    words_file = path.parent / _WORDS
    if not words_file.exists():
        raise DataError(f"{path.name} must have {_WORDS} beside it, got none in {path.parent}")
    words = words_file.read_text(encoding="utf-8").split("\n")
    tensors = load_file(path)
    known = tensors.get("vectors", next(iter(tensors.values())))
    if words and not words[-1]:
        words.pop()
    if known.ndim != 2 or len(words) != len(known):
        raise DataError(
            f"{words_file} must name each row of {path.name}, got {len(words)} words for a tensor "
            f"of shape {tuple(known.shape)}"
        )
    pairs = [(rows[word], row) for row, word in enumerate(words) if word in rows]
    vectors = torch.zeros(len(rows), known.shape[1])
    if pairs:
        here, there = torch.tensor(pairs).T
        vectors[here] = known[there].float()
    return vectors


def _text(path: Path, rows: dict[str, int]) -> Tensor:
    """Line by line: a file of millions of words gives only the wanted ones."""
    vectors: Tensor | None = None
    with path.open(encoding="utf-8") as stream:
        for number, line in enumerate(stream, start=1):
            word, *numbers = line.rstrip("\n").split(" ")
            if number == 1 and len(numbers) == 1:  # word2vec's first line: how many, how long
                continue
            if vectors is None:
                vectors = torch.zeros(len(rows), len(numbers))
            if word not in rows:
                continue
            try:
                vectors[rows[word]] = torch.tensor([float(x) for x in numbers])
            except (ValueError, RuntimeError):
                raise DataError(
                    f"line {number} of {path} must be a word and {vectors.shape[1]} numbers, "
                    f"got {line[:60]!r}"
                ) from None
    if vectors is None:
        raise DataError(f"{path} must hold word vectors, got an empty file")
    return vectors
