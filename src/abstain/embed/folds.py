"""Out-of-sample probabilities from features: five linear heads in one pass, each blind to a fold.

All heads see every batch; the loss of a head leaves out the samples of its own fold. So one reading
of the features trains all of them, and the head that predicts a sample never saw its label.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from abstain.data import Inputs
from abstain.data.inputs import blocks, resident, rows_at
from abstain.support.optimizers import AdamW

FOLDS = 5
_EPOCHS, _LEAST_STEPS = 10, 1000
_BATCH = 512
_RATE, _DECAY = 1e-2, 1e-2
_SPREAD = 1e-6  # of a column that is the same for all samples


def out_of_sample(
    features: Inputs,
    given: Tensor,
    num_classes: int,
    *,
    seed: int = 0,
    device: torch.device | None = None,
) -> Tensor:
    """Probabilities (N, m) of every sample, by a head that was not trained on its label.

    Args:
        features: Rows of numbers, in memory or not.
        given: (N,) labels.
        num_classes: How many classes there are.
        seed: Of folds and order.
        device: Where to compute; a GPU if there is one.

    >>> rows = torch.eye(2).repeat(50, 1) + 0.1 * torch.randn(100, 2)
    >>> given = torch.arange(100) % 2
    >>> given[0] = 1  # a wrong label
    >>> probabilities = out_of_sample(rows, given, 2)
    >>> probabilities.shape, bool(probabilities[0, 0] > 0.5)
    (torch.Size([100, 2]), True)
    """
    generator = torch.Generator().manual_seed(seed)
    device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
    features = resident(features, device)
    fold = folds_of(given.cpu(), generator).to(device)
    given = given.to(device)
    mean, std = _moments(features)
    mean, std = mean.to(device), std.to(device)
    # The heads side by side, so that one product gives the logits of all.
    weights = torch.zeros(len(mean), FOLDS * num_classes, device=device, requires_grad=True)
    biases = torch.zeros(FOLDS * num_classes, device=device, requires_grad=True)
    optimizer = AdamW([weights, biases], lr=_RATE, weight_decay=_DECAY)
    per_epoch = math.ceil(len(given) / _BATCH)
    epochs = max(_EPOCHS, math.ceil(_LEAST_STEPS / per_epoch))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * per_epoch)

    def logits(rows: Tensor) -> Tensor:
        together = torch.addmm(biases, (rows - mean) / std, weights)
        return together.view(len(rows), FOLDS, num_classes)

    best, least = torch.empty(0), math.inf
    folds = torch.arange(FOLDS, device=device)
    for _ in range(epochs):
        order = torch.randperm(len(given), generator=generator)
        for rows, taken in _batches(features, order, device):
            losses = torch.nn.functional.cross_entropy(
                logits(rows).transpose(1, 2),
                given[taken, None].expand(-1, FOLDS),
                reduction="none",
            )
            seen = fold[taken, None] != folds
            optimizer.zero_grad()
            ((losses * seen).sum(0) / seen.sum(0).clamp(min=1)).sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
        with torch.no_grad():
            log_beliefs = torch.empty(len(given), num_classes, device=device)
            for rows, taken in _batches(features, torch.arange(len(given)), device):
                blind = logits(rows)[torch.arange(len(taken), device=device), fold[taken]]
                log_beliefs[taken] = blind.log_softmax(-1)
            loss = float(torch.nn.functional.nll_loss(log_beliefs, given))
        if loss < least:
            best, least = log_beliefs.exp(), loss
    return best.cpu()


def folds_of(given: Tensor, generator: torch.Generator) -> Tensor:
    """(N,) the fold of each sample; every class is spread evenly over the folds.

    >>> folds = folds_of(torch.tensor([0] * 5 + [1] * 10), torch.Generator().manual_seed(0))
    >>> folds[:5].sort().values.tolist(), folds[5:].bincount().tolist()
    ([0, 1, 2, 3, 4], [2, 2, 2, 2, 2])
    """
    order = torch.randperm(len(given), generator=generator)
    order = order[given[order].argsort(stable=True)]
    fold = torch.empty_like(order)
    fold[order] = torch.arange(len(given)) % FOLDS
    return fold


def _moments(features: Inputs) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the columns."""
    count, total, squares = 0, torch.zeros(()), torch.zeros(())
    for rows in blocks(features):
        numbers = rows.double()
        count += len(rows)
        total = total.to(rows.device) + numbers.sum(0)
        squares = squares.to(rows.device) + (numbers**2).sum(0)
    mean = total / count
    spread = (squares / count - mean**2).clamp(min=_SPREAD**2).sqrt()
    return mean.float(), spread.float()


def _batches(
    features: Inputs, order: Tensor, device: torch.device
) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows of features and their numbers, in an order."""
    for taken in order.split(_BATCH):  # type: ignore[no-untyped-call]
        if isinstance(features, Tensor):
            rows = features[taken.to(features.device)]
        else:
            rows = rows_at(features, taken.tolist())
        yield rows.to(device).float(), taken.to(device)
