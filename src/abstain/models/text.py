"""The mean of learnt word vectors, for texts where no backbone is to be had."""

from torch import Tensor, nn

from abstain.errors import AbstainError
from abstain.models.shapes import check_outputs

PADDING = 0
"""The token that only fills a text up to the length of the longest."""


class BagOfWords(nn.Module):
    """A linear layer on the mean of the words' vectors, which are learnt (Joulin et al., 2016).

    Args:
        num_outputs: Classes, plus one where the model may abstain.
        vocabulary: How many tokens there are, padding included.
        dimensions: The size of a word vector.

    Shape:
        (N, length) of int64 tokens → (N, num_outputs).

    >>> import torch
    >>> BagOfWords(3, vocabulary=50)(torch.tensor([[4, 7, 0], [0, 0, 0]])).shape
    torch.Size([2, 3])
    """

    def __init__(self, num_outputs: int, vocabulary: int, dimensions: int = 100) -> None:
        super().__init__()
        check_outputs(num_outputs)
        if vocabulary < 2:
            raise AbstainError(
                "bag-of-words needs a vocabulary of at least 2 tokens (padding and a word), "
                f"got {vocabulary}"
            )
        self.embedding = nn.EmbeddingBag(vocabulary, dimensions, mode="mean", padding_idx=PADDING)
        self.fc = nn.Linear(dimensions, num_outputs)

    def forward(self, tokens: Tensor) -> Tensor:
        """Give the logits, the abstention output last."""
        logits: Tensor = self.fc(self.embedding(tokens))
        return logits
