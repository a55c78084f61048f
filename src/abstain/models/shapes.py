"""Checks of the shapes that a network is built for, shared by all networks."""

from abstain.errors import AbstainError


def check_image(name: str, input_shape: tuple[int, ...], smallest: int) -> tuple[int, int, int]:
    """Return (channels, height, width), or say why this network cannot take such inputs.

    >>> check_image("mnist-cnn", (1, 28, 28), 16)
    (1, 28, 28)
    >>> check_image("mnist-cnn", (1, 8, 8), 16)
    Traceback (most recent call last):
    abstain.errors.AbstainError: mnist-cnn needs images of at least 16×16 pixels, got 8×8; \
use mlp, or enlarge the images
    """
    if len(input_shape) != 3 or min(input_shape) < 1:
        raise AbstainError(
            f"{name} needs an input_shape of (channels, height, width), got {input_shape}; "
            "use mlp for tables and features of a backbone, and bag-of-words for texts"
        )
    channels, height, width = input_shape
    if min(height, width) < smallest:
        raise AbstainError(
            f"{name} needs images of at least {smallest}×{smallest} pixels, got {height}×{width}; "
            "use mlp, or enlarge the images"
        )
    return channels, height, width


def check_outputs(num_outputs: int) -> None:
    """Refuse fewer than two outputs."""
    if num_outputs < 2:
        raise AbstainError(
            f"must be at least 2, got {num_outputs}; "
            "it is the number of classes plus one for abstention",
            argument="num_outputs",
        )
