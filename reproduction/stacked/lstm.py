"""One LSTM layer over word vectors, with or without attention: the paper's IMDB network."""

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, pad

from abstain.errors import AbstainError
from abstain.models.shapes import check_outputs

PADDING = 0
"""The token that only fills a text up to the length of the longest; it stands at the end."""


def last_real_state(states: Tensor, last: Tensor) -> Tensor:
    """Pick (texts, hidden) of (texts, length, hidden): the state after each last real token.

    >>> states = torch.arange(6.0).reshape(2, 3, 1)
    >>> last_real_state(states, torch.tensor([0, 2])).squeeze(1)
    tensor([0., 5.])
    """
    rows = torch.arange(len(states), device=states.device)
    return states[rows, last]


def attend(states: Tensor, last: Tensor) -> Tensor:
    """Average the states of the real tokens, weighted by softmax of their product with the last.

    From (texts, length, hidden) and the position of each last real token to (texts, hidden).

    >>> attend(torch.ones(1, 3, 2), torch.tensor([1]))
    tensor([[1., 1.]])
    """
    # Scores of 256 terms reach into the tens, where bfloat16 rounds by an eighth and more; the
    # softmax would turn that into weights wrong by as much. So not below float32, autocast or not.
    with torch.autocast(states.device.type, enabled=False):
        wide = states.to(torch.promote_types(states.dtype, torch.float32))
        scores = torch.einsum("nlh,nh->nl", wide, last_real_state(wide, last))
        positions = torch.arange(states.shape[1], device=states.device)
        # Position 0 is never masked, so that the softmax of an empty text is not 0/0.
        scores = scores.masked_fill(positions > last[:, None], float("-inf"))
        return torch.einsum("nl,nlh->nh", scores.softmax(1), wide).to(states.dtype)


class TextLSTM(nn.Module):
    """An LSTM that reads word vectors; its last real state, or attention from it, is classified.

    Token 0 is padding and stands at the end of a text. How much of it there is changes nothing: an
    LSTM reads forward, so the state after the last real token has not seen what follows. A text
    without tokens is read as one padding token.

    Args:
        num_outputs: Classes, plus one where the model may abstain.
        vectors: Word vectors (tokens, dimensions), row 0 for padding. They stay frozen.
        vocabulary: How many tokens there are, padding included; needed where no vectors are given,
            and an embedding of `dimensions` is then learnt.
        dimensions: The size of the learnt embedding.
        hidden: The size of the LSTM's state.
        attention: Whether to classify the attention of the last state over all states.

    Shape:
        (N, length) of int64 tokens → (N, num_outputs).

    >>> TextLSTM(3, vocabulary=50)(torch.tensor([[4, 7, 0], [0, 0, 0]])).shape
    torch.Size([2, 3])
    """

    vectors: Tensor | None

    def __init__(
        self,
        num_outputs: int,
        *,
        vectors: Tensor | None = None,
        vocabulary: int | None = None,
        dimensions: int = 100,
        hidden: int = 256,
        attention: bool = False,
    ) -> None:
        super().__init__()
        check_outputs(num_outputs)
        if vectors is not None:
            vectors = _checked(vectors, vocabulary)
            dimensions = vectors.shape[1]
        elif vocabulary is None or vocabulary < 2:
            raise AbstainError(
                "lstm needs vectors, or a vocabulary of at least 2 tokens (padding and a word), "
                f"got {vocabulary}"
            )
        else:
            self.embedding = nn.Embedding(vocabulary, dimensions, padding_idx=PADDING)
        # A buffer travels with the model and its weights on disk, but no optimiser or functional
        # gradient can come across it.
        self.register_buffer("vectors", vectors)
        self.lstm = nn.LSTM(dimensions, hidden, batch_first=True)
        self.fc = nn.Linear(hidden, num_outputs)
        self.attention = attention

    def forward(self, tokens: Tensor) -> Tensor:
        """Give the logits, the abstention output last."""
        if tokens.shape[1] == 0:
            tokens = pad(tokens, (0, 1), value=PADDING)
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        last = torch.where(tokens != PADDING, positions, 0).amax(1)
        if tokens.device.type == "cpu" and len(tokens) > 0:
            # Reading a number back is free here, and short texts need fewer steps;
            # on a GPU it would make every batch wait.
            tokens = tokens[:, : int(last.max()) + 1]
        # Not packed: that wants the lengths on the CPU, and the state after the last real
        # token is the same.
        states, _ = self.lstm(self._embed(tokens))
        read = attend if self.attention else last_real_state
        logits: Tensor = self.fc(read(states, last))
        return logits

    def _embed(self, tokens: Tensor) -> Tensor:
        if self.vectors is not None:
            return embedding(tokens, self.vectors)
        vectors: Tensor = self.embedding(tokens)
        return vectors


def _checked(vectors: Tensor, vocabulary: int | None) -> Tensor:
    """Return a copy of the vectors that the model can own, or say what is wrong with them."""
    if vectors.ndim != 2 or not vectors.is_floating_point() or len(vectors) < 2:
        raise AbstainError(
            "must be floats of shape (tokens, dimensions), row 0 for padding, "
            f"got {vectors.dtype} of shape {tuple(vectors.shape)}",
            argument="vectors",
        )
    if vocabulary is not None and vocabulary != len(vectors):
        raise AbstainError(
            f"must have one row for each of the {vocabulary} tokens of the vocabulary, "
            f"got {len(vectors)} rows",
            argument="vectors",
        )
    if not vectors.isfinite().all():
        raise AbstainError(
            "must be finite, got NaN or infinity in at least one row", argument="vectors"
        )
    # The LSTM's weights have the default type; float16 vectors on disk must not clash with it.
    return vectors.detach().to(torch.get_default_dtype(), copy=True)
