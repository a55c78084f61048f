"""Which samples are seen when: one order per seed and epoch, whatever the number of processes."""

import math
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from abstain.data import Encoder, Inputs
from abstain.data.inputs import rows_at
from abstain.errors import AbstainError


@dataclass(frozen=True)
class Batch:
    """The part of a global batch that falls to one process."""

    index: Tensor
    """Positions of the samples, on the device; never empty."""
    inputs: Tensor
    """Of these samples; where batches are filled up, others follow, which do not count."""
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
    return 0 if encoder.seen_by and encoder.sees != "image" else min(4, os.cpu_count() or 1)


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
