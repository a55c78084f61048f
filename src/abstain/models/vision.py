"""The two small convolutional networks of the paper, one for MNIST and one for CIFAR-10.

Both pool before the ReLU. The maximum and the ReLU are monotone, so they commute: it is the same
function, and the ReLU sees a quarter of the numbers.
"""

from torch import Tensor, nn
from torch.nn.functional import max_pool2d, relu

from abstain.models.shapes import check_image, check_outputs

SMALLEST = 16
"""The smallest side that leaves a pixel after two rounds of a 5×5 convolution and halving."""


def _side(pixels: int) -> int:
    """The side of the feature map after two rounds of a 5×5 convolution and halving."""
    return ((pixels - 4) // 2 - 4) // 2


class MnistCNN(nn.Module):
    """Two convolutions (20 and 50 channels) and a hidden layer of 500: the paper's MNIST network.

    Args:
        num_outputs: Classes, plus one where the model may abstain.
        input_shape: (channels, height, width), each side at least 16 pixels.

    Shape:
        (N, channels, height, width) → (N, num_outputs).

    >>> import torch
    >>> MnistCNN(11)(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 11])
    """

    def __init__(self, num_outputs: int, input_shape: tuple[int, ...] = (1, 28, 28)) -> None:
        super().__init__()
        check_outputs(num_outputs)
        channels, height, width = check_image("mnist-cnn", input_shape, SMALLEST)
        self.conv1 = nn.Conv2d(channels, 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.fc1 = nn.Linear(50 * _side(height) * _side(width), 500)  # 800 for 28×28
        self.fc2 = nn.Linear(500, num_outputs)

    def forward(self, images: Tensor) -> Tensor:
        """Give the logits, the abstention output last."""
        x = relu(max_pool2d(self.conv1(images), 2))
        x = relu(max_pool2d(self.conv2(x), 2))
        x = relu(self.fc1(x.flatten(1)))
        logits: Tensor = self.fc2(x)
        return logits


class CifarCNN(nn.Module):
    """Two convolutions (6 and 16 channels) and two hidden layers: the paper's CIFAR-10 network.

    Args:
        num_outputs: Classes, plus one where the model may abstain.
        input_shape: (channels, height, width), each side at least 16 pixels.

    Shape:
        (N, channels, height, width) → (N, num_outputs).

    >>> import torch
    >>> CifarCNN(11)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 11])
    """

    def __init__(self, num_outputs: int, input_shape: tuple[int, ...] = (3, 32, 32)) -> None:
        super().__init__()
        check_outputs(num_outputs)
        channels, height, width = check_image("cifar-cnn", input_shape, SMALLEST)
        self.conv1 = nn.Conv2d(channels, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * _side(height) * _side(width), 120)  # 400 for 32×32
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, num_outputs)

    def forward(self, images: Tensor) -> Tensor:
        """Give the logits, the abstention output last."""
        x = relu(max_pool2d(self.conv1(images), 2))
        x = relu(max_pool2d(self.conv2(x), 2))
        x = relu(self.fc1(x.flatten(1)))
        x = relu(self.fc2(x))
        logits: Tensor = self.fc3(x)
        return logits
