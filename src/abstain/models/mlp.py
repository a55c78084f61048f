"""A plain multilayer perceptron, for tables, embeddings and tiny images."""

from math import prod

from torch import Tensor, nn

from abstain.errors import AbstainError
from abstain.models.shapes import check_outputs


class MLP(nn.Module):
    """Linear layers with ReLU between them; inputs of any shape are flattened first.

    Args:
        num_outputs: Classes, plus one where the model may abstain.
        input_shape: The shape of one sample: (columns,), or (channels, height, width).
        hidden: The widths of the hidden layers; `()` is multinomial logistic regression.
        dropout: The share of hidden units dropped in training, in [0, 1).

    Shape:
        (N, *input_shape) → (N, num_outputs).

    >>> import torch
    >>> MLP(4, (30,))(torch.zeros(2, 30)).shape
    torch.Size([2, 4])
    """

    def __init__(
        self,
        num_outputs: int,
        input_shape: tuple[int, ...],
        *,
        hidden: tuple[int, ...] = (256, 256),
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_outputs(num_outputs)
        if len(input_shape) == 0 or min(input_shape) < 1:
            raise AbstainError(f"mlp needs an input_shape of positive sizes, got {input_shape}")
        if any(width < 1 for width in hidden):
            raise AbstainError(
                f"must be positive widths such as (256, 256), got {hidden}", argument="hidden"
            )
        if not 0 <= dropout < 1:
            raise AbstainError(f"must lie in [0, 1), got {dropout}", argument="dropout")
        self.layers = nn.Sequential(nn.Flatten())
        width = prod(input_shape)
        for next_width in hidden:
            self.layers.append(nn.Linear(width, next_width))
            self.layers.append(nn.ReLU())
            if dropout > 0:
                self.layers.append(nn.Dropout(dropout))
            width = next_width
        self.layers.append(nn.Linear(width, num_outputs))

    def forward(self, inputs: Tensor) -> Tensor:
        """Give the logits, the abstention output last."""
        logits: Tensor = self.layers(inputs)
        return logits
