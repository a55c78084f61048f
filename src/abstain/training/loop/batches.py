"""Which samples are seen when: one order per seed and epoch, whatever the number of processes."""

import math
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from accelerate import PartialState
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.data import DataLoader

from abstain.data import Encoder, Inputs, LabeledData
from abstain.data.inputs import resident, rows_at
from abstain.errors import AbstainError
from abstain.training.plan import Plan


@dataclass(frozen=True)
class Batch:
    """The part of a global batch that falls to one process."""

    index: Tensor
    """Positions of the samples, on the device; never empty."""
    inputs: Tensor
    """Inputs of these samples; where batches are filled up, others follow, which do not count."""
    counts: bool
    """False for a stand-in: this process had no sample left, but must take part in the step."""
    total: int
    """Samples in the global batch."""


@dataclass(frozen=True, kw_only=True)
class Batches:
    """Batches of encoded inputs: from a tensor on the device, or streamed through workers.

    The order of an epoch is drawn from (seed, epoch) alone, and every global batch is dealt out
    to the processes in turn: two processes see together what one would see.
    """

    inputs: Inputs
    rows: Tensor
    """The samples to visit, as positions in `inputs`, on the CPU."""
    size: int
    seed: int
    device: torch.device
    rank: int = 0
    world: int = 1
    workers: int = 0
    least: int = 1
    """Samples that a batch needs; where fewer are left at the end, they join the one before."""
    filled: bool = False
    """Whether a smaller batch gets inputs of others, so that all are of one size: a GPU chooses or
    compiles kernels for each size of a batch of images, which may take longer than an epoch."""

    def __len__(self) -> int:
        full, left = divmod(len(self.rows), self.size)
        return full + (left >= self.least) or min(left, 1)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from the `start`-th on."""
        order = epoch_order(self.rows, self.seed, epoch)
        yield from self._batches(self._cut(order)[start:])

    def in_order(self) -> Iterator[Batch]:
        """Every sample once, in the order of `rows`; for evaluation."""
        yield from self._batches(self._cut(self.rows))

    def _cut(self, rows: Tensor) -> list[Tensor]:
        return list(rows.tensor_split([self.size * place for place in range(1, len(self))]))

    def _batches(self, globals_: list[Tensor]) -> Iterator[Batch]:
        shares = [rows[self.rank :: self.world] for rows in globals_]
        # A last batch smaller than the number of processes leaves some without a sample.
        mine = [
            share if len(share) else rows[:1] for share, rows in zip(shares, globals_, strict=True)
        ]
        fetched = [self._filled(index) for index in mine] if self.filled else mine
        for rows, index, share, inputs in zip(
            globals_, mine, shares, self._fetch(fetched), strict=True
        ):
            yield Batch(
                index=index.to(self.device),
                inputs=inputs.to(self.device, non_blocking=True),
                counts=len(share) > 0,
                total=len(rows),
            )

    def _filled(self, index: Tensor) -> Tensor:
        missing = max(0, math.ceil(self.size / self.world) - len(index))
        others = self.rows.repeat(math.ceil(missing / len(self.rows)))
        return torch.cat([index, others[:missing]])

    def _fetch(self, indices: list[Tensor]) -> Iterator[Tensor]:
        if isinstance(self.inputs, Tensor):
            for index in indices:
                # Not by [index], which takes ten times longer.
                yield self.inputs.index_select(0, index.to(self.inputs.device))
            return
        loader = DataLoader(
            cast("torch.utils.data.Dataset[Tensor]", _BatchByBatch(self.inputs)),
            batch_size=None,
            # One after the other: as Python's, the numbers of an epoch would take much memory.
            sampler=map(Tensor.tolist, indices),
            num_workers=self.workers,
            pin_memory=self.device.type == "cuda",
            # Its own numbers: it would take one from those of the dropout each time it begins, and
            # a resumed epoch begins once more.
            generator=torch.Generator(),
            worker_init_fn=_leave_interrupts_to_the_loop,
        )
        try:
            yield from loader
        except AbstainError as error:
            # A worker's error comes back with its whole traceback as its text.
            raise type(error)(
                str(error).rstrip().rpartition(f"{type(error).__name__}: ")[2]
            ) from None


@dataclass(frozen=True)
class _BatchByBatch:
    """Encoded inputs, read a batch at once."""

    inputs: Inputs

    def __getitem__(self, indices: list[int], /) -> Tensor:
        return rows_at(self.inputs, indices)


def workers_for(encoder: Encoder) -> int:
    """Processes that read lazy inputs.

    None where a backbone has made features of them, or makes tokens: these are ready sooner than
    another process could hand them over.
    """
    return 0 if encoder.backbone_used and encoder.sees != "image" else min(4, os.cpu_count() or 1)


def epoch_order(rows: Tensor, seed: int, epoch: int) -> Tensor:
    """The samples in the order in which an epoch visits them.

    >>> epoch_order(torch.arange(5), seed=0, epoch=1)
    tensor([0, 4, 2, 3, 1])
    """
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    return rows[torch.randperm(len(rows), generator=generator)]


def _leave_interrupts_to_the_loop(_worker: int) -> None:
    """Ctrl-C reaches every process of a terminal; a worker has nothing to save, and is needed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


_EVALUATED_NUMBERS = 2**20


@dataclass(frozen=True, kw_only=True)
class Task:
    """The data of a training: the same on every process, and never changed by the loop."""

    encoder: Encoder
    num_classes: int
    training: Batches
    given: Tensor
    """Labels of all samples, on the device; those of the training rows train."""
    true: Tensor | None = None
    """True labels, where known: only for the clean and corrupt parts of the loss in the history."""
    weights: Tensor | None = None
    """Weight of each sample, on the device; None for equal weights."""
    hold_out: Batches | None = None
    """Rows held out for the validation stop, or for the warm-up, with their given labels."""
    everything: Batches | None = None
    """All rows: what is trained on after a warm-up that ends by itself."""
    test: Batches | None = None
    test_labels: Tensor | None = None


def make_task(
    data: LabeledData,
    test_data: LabeledData | None,
    encoder: Encoder,
    plan: Plan,
    state: PartialState,
) -> Task:
    """The data as batches on the device of this process."""
    assert plan.batch is not None
    inputs = resident(encoder.encode(data), state.device)
    held_out, rest = held_out_rows(plan, len(data))

    def batches(inputs: Any, rows: torch.Tensor, size: int) -> Batches:  # noqa: ANN401
        return Batches(
            inputs=inputs,
            rows=rows,
            size=size,
            seed=plan.seed_order,
            device=state.device,
            rank=state.process_index,
            world=state.num_processes,
            filled=state.device.type == "cuda" and encoder.sees == "image",
            workers=workers_for(encoder),
        )

    # Enough to keep small models busy, and no more activations than a step of the training has.
    fitting = _EVALUATED_NUMBERS // math.prod(encoder.input_shape)
    large = max(plan.batch, min(512, fitting))
    test = None
    if test_data is not None:
        test_inputs = resident(encoder.encode(test_data), state.device)
        test = batches(test_inputs, torch.arange(len(test_data)), large)
    return Task(
        encoder=encoder,
        num_classes=data.num_classes,
        training=batches(inputs, rest, plan.batch),
        given=data.given.to(state.device),
        true=None if data.true is None else data.true.to(state.device),
        weights=None if data.weights is None else data.weights.to(state.device),
        hold_out=batches(inputs, held_out, large) if len(held_out) else None,
        everything=batches(inputs, torch.arange(len(data)), plan.batch)
        if plan.warm_up_ends == "held-out"
        else None,
        test=test,
        test_labels=None if test_data is None else test_data.given.to(state.device),
    )


def normalisable(task: Task, model: torch.nn.Module) -> Task:
    """With two samples at least in every batch of every process, where the model has batch norms.

    Of a single one they know no spread.
    """
    kinds = {type(p).__name__ for p in model.modules() if isinstance(p, _BatchNorm)}
    if not kinds:
        return task
    least = 2 * task.training.world
    if (batch := min(task.training.size, len(task.training.rows))) < least:
        raise AbstainError(
            f"must be at least {least} for a model with {', '.join(sorted(kinds))}, two for "
            f"each process, got {batch}",
            argument="batch",
        )
    everything = None if task.everything is None else replace(task.everything, least=least)
    return replace(task, training=replace(task.training, least=least), everything=everything)


def held_out_rows(plan: Plan, samples: int) -> tuple[Tensor, Tensor]:
    """Held-out rows, if any, and the others."""
    count = plan.held_out(samples)
    if not count:
        return torch.arange(0), torch.arange(samples)
    generator = torch.Generator().manual_seed(plan.seed_order)
    order = torch.randperm(samples, generator=generator)
    return order[:count], order[count:]
