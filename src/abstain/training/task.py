"""What is trained on what: the data of a training, as batches on the device of this process."""

from dataclasses import dataclass

from torch import Tensor

from abstain.data import Encoder
from abstain.training.batches import Batches


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is trained on what: the same on every process, and never changed by the loop."""

    encoder: Encoder
    num_classes: int
    training: Batches
    given: Tensor
    """Labels of all samples, on the device; those of the training rows train."""
    true: Tensor | None = None
    """Where known, only for the clean and corrupt parts of the loss in the history."""
    weights: Tensor | None = None
    """How much each sample counts, on the device; alike where there are none."""
    hold_out: Batches | None = None
    """Rows held out for the validation stop, or for the warm-up; judged by their given labels."""
    everything: Batches | None = None
    """All rows: what is trained on after a warm-up that ends by itself."""
    test: Batches | None = None
    test_labels: Tensor | None = None
