"""The network to start with, when only the kind of data is known."""

from abstain.errors import AbstainError
from abstain.models.shapes import check_image
from abstain.models.vision import SMALLEST

LARGEST = 64
"""Above this side the first dense layer of mnist-cnn holds more than 4 million weights."""


def default_model(kind: str, input_shape: tuple[int, ...]) -> str:
    """Name a network that works on unknown data of this kind, untuned, on a laptop's CPU.

    - Tables and embeddings: `mlp`.
    - Texts: `bag-of-words`, which is quick, and needs no tuning. A backbone knows words better.
    - Images with a side below 16 pixels: `mlp`, for the small CNNs would have no pixel left.
    - Images up to 64×64, grey or colour: `mnist-cnn`. On a CPU it trains tens of times faster than
      `resnet18` (`cifar-cnn` is faster still, but has too few channels for many classes), and
      finding wrong labels needs a network that learns the common pattern early, not one that wins
      a benchmark. On a GPU, `resnet18` is the better choice for colour images: name it.
    - Larger images: `resnet18`, whose size does not grow with the image. It is slow on a CPU; make
      the images smaller there.

    >>> default_model("image", (1, 28, 28)), default_model("image", (1, 8, 8))
    ('mnist-cnn', 'mlp')
    """
    if kind == "table":
        return "mlp"
    if kind == "text":
        return "bag-of-words"
    if kind != "image":
        raise AbstainError(f"must be image, table or text, got {kind!r}", argument="kind")
    _, height, width = check_image("an image model", input_shape, smallest=1)
    if min(height, width) < SMALLEST:
        return "mlp"
    return "mnist-cnn" if max(height, width) <= LARGEST else "resnet18"
