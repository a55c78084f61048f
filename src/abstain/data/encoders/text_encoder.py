"""Texts: lower-cased words, numbered by how often the training part uses them."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor

from abstain.data.contract import Inputs, Kind, LabeledData
from abstain.data.encoders.base import Encoder, LazyEncoded
from abstain.data.inputs import BLOCK
from abstain.errors import DataError
from abstain.support.optional import require

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PADDING, UNKNOWN = 0, 1
_TOKENIZER = "tokenizer.json"
_WORD = r"\w+"  # split at the apostrophe, too
_LINE_BREAK = r"<br\s*/?>"


@dataclass(frozen=True)
class TextEncoder(Encoder):
    """Tokens (N, length): 0 pads at the end, 1 is an unknown word, so `tokens != 0` masks."""

    tokenizer: "Tokenizer"
    length: int
    columns: tuple[str, ...] = ()
    kind: Kind = "text"

    @classmethod
    def fit(cls, data: LabeledData, *, length: int, vocabulary: int) -> Self:
        """Count the words of the training part."""
        if length < 1 or vocabulary < 3:
            raise DataError(
                "must be 1 or more and vocabulary 3 or more (padding, unknown and a word), "
                f"got {length} and {vocabulary}",
                argument="length",
            )
        require("tokenizers", "text")
        tokenizer = _trained(_texts(data.inputs), length, vocabulary)
        return cls(tokenizer, length, data.columns)

    @classmethod
    def restore(cls, saved: dict[str, Any], folder: Path) -> Self:
        """Rebuild from what `save` wrote."""
        require("tokenizers", "text")
        from tokenizers import Tokenizer

        try:
            tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
        except Exception as error:  # tokenizers raises bare Exception
            raise DataError(f"{folder} must hold {_TOKENIZER} whole, got: {error}") from error
        return cls(tokenizer, saved["length"], tuple(saved["columns"]))

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The number of tokens."""
        return (self.length,)

    @property
    def vocabulary(self) -> int:
        """The number of tokens, padding and unknown included."""
        return int(self.tokenizer.get_vocab_size())

    def encode_one(self, sample: object, order: Sequence[int]) -> Tensor:
        """The tokens of one text."""
        return self._tokens([str(sample)])[0]

    def to_model(self, batch: Tensor) -> Tensor:
        """Tokens as int64, which embeddings take everywhere."""
        return batch.long()

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write encoder.json and tokenizer.json."""
        self.tokenizer.save(str(Path(folder) / _TOKENIZER))
        super().save(folder)

    def as_json(self) -> dict[str, Any]:
        """Length and columns."""
        return {"kind": self.kind, "length": self.length, "columns": self.columns}

    def _encode(self, inputs: Inputs, columns: Sequence[str]) -> Inputs:
        if not isinstance(inputs, list | tuple):
            return LazyEncoded(inputs, self)
        tokens = torch.zeros((len(inputs), self.length), dtype=torch.int32)
        for start in range(0, len(inputs), BLOCK):
            tokens[start : start + BLOCK] = self._tokens(inputs[start : start + BLOCK])
        return tokens

    def _tokens(self, texts: Sequence[str]) -> Tensor:
        encoded = self.tokenizer.encode_batch_fast(list(texts))
        tokens = np.array([encoding.ids for encoding in encoded], dtype=np.int32)
        # A text without words is one unknown word: a mask that hides everything divides by zero.
        tokens[tokens[:, 0] == PADDING, 0] = UNKNOWN
        return torch.from_numpy(tokens)


def _trained(texts: Iterator[str], length: int, vocabulary: int) -> "Tokenizer":
    from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
    from tokenizers.models import WordLevel
    from tokenizers.trainers import WordLevelTrainer

    tokenizer = Tokenizer(WordLevel(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Replace(Regex(_LINE_BREAK), " "), normalizers.Lowercase()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_WORD), "removed", invert=True)
    trainer = WordLevelTrainer(
        vocab_size=vocabulary, special_tokens=["[PAD]", "[UNK]"], show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding(length=length, pad_id=PADDING, pad_token="[PAD]")
    return tokenizer


def _texts(inputs: Inputs) -> Iterator[str]:
    return (str(inputs[index]) for index in range(len(inputs)))
