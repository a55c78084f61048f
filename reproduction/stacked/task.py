"""The input and output of a stack: `StackedTask`, `StackedResult`."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import Tensor

from abstain.training.plan import Plan


@dataclass(frozen=True, kw_only=True)
class StackedTask:
    """The data that all models of a stack share; they are brought to the device once."""

    inputs: Tensor
    """Encoded: bytes (N, channels, height, width), floats (N, …), or tokens (N, length)."""
    true: Tensor
    """(N) labels in which each run's recipe plants its errors."""
    test_inputs: Tensor
    test_labels: Tensor
    num_classes: int
    network: str
    """A name that `build_model` knows, or "mlp-256"; what is not a convolutional network for small
    images, a perceptron or an LSTM runs too, but one model after the other."""
    vectors: Tensor | None = None
    """Frozen word vectors, for texts."""


@dataclass(frozen=True, kw_only=True)
class StackedResult:
    """The result of a run of a stack; of a co-teaching pair, the means over its two networks."""

    recipe: Plan
    epochs: list[dict[str, float]]
    """A row per epoch: epoch, loss, train_accuracy, stake, payoff, clean_loss, corrupt_loss,
    test_accuracy, validation_accuracy; what there was nothing of is left out."""
    stop_epoch: float
    """Epochs that were trained; a stop may come within one."""
    outcome: str
    """Why it ended, in words."""
    test_accuracy: float
    """After the last step or, under the validation stop, of the best epoch, whose model that stop
    keeps; the share of the whole test set whose likeliest class is the label."""
    belief: npt.NDArray[np.float32] | None
    """(N) mean over the visits of the belief in the given label; NaN for what was held out."""
    rejection: npt.NDArray[np.float32] | None
    """(N) abstention at the last visit, likewise."""
    given: npt.NDArray[np.int64] | None
    """(N) labels that were trained on."""
    by_class: list[float] | None = None
    """Test accuracy of each class at the end."""
    precision: str = "fp32"
    """Precision of the matrix products."""
