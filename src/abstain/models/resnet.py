"""ResNet-18 for small images (He et al. 2016, with the 3×3 stem that is usual for CIFAR-10)."""

from torch import Tensor, nn
from torch.nn.functional import relu

from abstain.models.shapes import check_image, check_outputs

SMALLEST = 8
"""Three halvings leave one pixel of eight; below that the last stages would see only padding."""


class BasicBlock(nn.Module):
    """Two 3×3 convolutions beside a shortcut, which is a 1×1 convolution where the shape changes.

    >>> import torch
    >>> BasicBlock(8, 16, stride=2)(torch.zeros(2, 8, 4, 4)).shape
    torch.Size([2, 16, 2, 2])
    """

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__()
        # No biases: the batch norm that follows each convolution would subtract them again.
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Sequential()
        if stride != 1 or in_channels != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_channels, channels, 1, stride=stride, bias=False),
                nn.BatchNorm2d(channels),
            )

    def forward(self, x: Tensor) -> Tensor:
        """Give ReLU(shortcut + residual)."""
        residual = relu(self.bn1(self.conv1(x)))
        residual = self.bn2(self.conv2(residual))
        return relu(residual + self.shortcut(x))


class ResNet18(nn.Module):
    """Four stages of two `BasicBlock`s, 64 to 512 channels, no max-pool, then the mean over pixels.

    In training mode, images of 8×8 need batches of two or more: they end as one pixel, and a batch
    norm has no variance to take over a single number.

    Args:
        num_outputs: Classes, plus one where the model may abstain.
        input_shape: (channels, height, width), each side at least 8 pixels. Only the channels
            shape the weights; the network then takes any size.

    Shape:
        (N, channels, height, width) → (N, num_outputs).

    >>> import torch
    >>> ResNet18(11, (1, 8, 8)).eval()(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 11])
    """

    def __init__(self, num_outputs: int, input_shape: tuple[int, ...] = (3, 32, 32)) -> None:
        super().__init__()
        check_outputs(num_outputs)
        channels, _, _ = check_image("resnet18", input_shape, SMALLEST)
        self.conv = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(64)
        self.stages = nn.Sequential(
            BasicBlock(64, 64, stride=1),
            BasicBlock(64, 64, stride=1),
            BasicBlock(64, 128, stride=2),
            BasicBlock(128, 128, stride=1),
            BasicBlock(128, 256, stride=2),
            BasicBlock(256, 256, stride=1),
            BasicBlock(256, 512, stride=2),
            BasicBlock(512, 512, stride=1),
        )
        self.fc = nn.Linear(512, num_outputs)

    def forward(self, images: Tensor) -> Tensor:
        """Give the logits, the abstention output last."""
        x = relu(self.bn(self.conv(images)))
        x = self.stages(x).mean((2, 3))
        logits: Tensor = self.fc(x)
        return logits
