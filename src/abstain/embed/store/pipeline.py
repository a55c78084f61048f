"""Samples in, features out: read ahead by threads, computed in batches, written meanwhile."""

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from abstain.data import Inputs
from abstain.data.inputs import take
from abstain.data.readers.decoders import Decoders
from abstain.data.readers.images import LazyImages
from abstain.embed.backbones.base import Backbone, ImageBackbone, Samples
from abstain.errors import AbstainError

_log = logging.getLogger(__name__)
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_BATCH = {"cuda": 256, "cpu": 32}
_TEXTS = 1024
_READ = 32
"""Images that a thread reads at once."""


@dataclass
class Cost:
    """The time that features took, and what limited it."""

    made: int = 0
    """Samples whose features were not there yet."""
    seconds: float = 0.0
    """Seconds that they took."""
    network: float = 0.0
    """Seconds that the network alone would have taken for them, by its fastest batch."""

    @property
    def limit(self) -> str:
        """The part of the work that took most of the time."""
        return "the network" if self.network > self.seconds / 2 else "reading"


class Pipeline:
    """A backbone that is fed.

    Args:
        inputs: Of the data set.
        backbone: Sees them.
        device: Where it computes.
        threads: Read the samples.
        cost: Takes in where the time goes.
        decoders: Decode files of images for a GPU, for which threads alone are too slow.
        advance: Takes in how many samples every batch held.
    """

    def __init__(
        self,
        inputs: Inputs,
        backbone: Backbone,
        device: torch.device,
        threads: ThreadPoolExecutor,
        cost: Cost,
        decoders: Decoders | None = None,
        advance: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._inputs, self._backbone, self._device = _sized(inputs, backbone), backbone, device
        self._threads, self._cost, self._decoders = threads, cost, decoders
        self._advance = advance
        self._pinned = device.type == "cuda"
        self._is_image = isinstance(backbone, ImageBackbone)
        self._batch = _BATCH[device.type] if self._is_image else _TEXTS

    def features(self, wanted: Iterable[range]) -> Iterator[tuple[range, Tensor]]:
        """The features of samples in a row (float16, on the device), for each row of samples."""
        read = in_order(self._threads, self._read, self._parts(wanted), ahead=2 * threads_to_read())
        made: list[Tensor] = []
        count, began, clock = 0, time.perf_counter(), _Clock(self._device)
        for rows, at_end, samples in self._batches(read):
            with clock.batch(len(samples)):
                made.append(self._computed(samples).half())
            count += len(samples)
            self._advance(len(samples))
            if at_end:
                features, made = torch.cat(made), []
                yield rows, features
        self._cost.made += count
        self._cost.seconds += time.perf_counter() - began
        self._cost.network += clock.seconds_per_sample() * count

    def _parts(self, wanted: Iterable[range]) -> Iterator[tuple[range, range]]:
        """Samples that a thread reads at once, and to which row of samples they belong."""
        for rows in wanted:
            size = min(_READ, self._batch) if self._is_image else self._batch
            for begin in rows[::size]:
                yield rows, range(begin, min(begin + size, rows.stop))

    def _read(self, part: tuple[range, range]) -> tuple[range, range, Samples]:
        """Images are stacked, and lie where a GPU fetches them while it works."""
        rows, part_rows = part
        inputs = self._inputs
        if self._pinned and self._decoders and isinstance(inputs, LazyImages):
            return rows, part_rows, self._decoders.images(inputs, part_rows, pinned=True)
        if isinstance(inputs, Tensor | list):
            samples: Samples = inputs[part_rows.start : part_rows.stop]
        else:
            samples = take(inputs, part_rows)
        if self._is_image:
            images = samples if isinstance(samples, Tensor) else _stacked(samples)
            samples = images.pin_memory() if self._pinned else images
        return rows, part_rows, samples

    def _batches(
        self, read: Iterator[tuple[range, range, Samples]]
    ) -> Iterator[tuple[range, bool, Samples]]:
        """Yield a batch for the backbone, and whether a row of samples ends with it."""
        parts: list[Samples] = []
        for rows, part_rows, samples in read:
            if isinstance(samples, Tensor):
                samples = samples.to(self._device, non_blocking=True)
            parts.append(samples)
            at_end = part_rows.stop == rows.stop
            if at_end or sum(map(len, parts)) >= self._batch:
                # Images come in parts, each on the device; texts at once.
                are_parts = isinstance(samples, Tensor)
                yield rows, at_end, torch.cat(cast("list[Tensor]", parts)) if are_parts else samples
                parts = []

    def _computed(self, samples: Samples) -> Tensor:
        """Features, by halves where a batch does not fit into the memory of the device."""
        try:
            return features_of(samples, self._backbone, self._device, self._batch)
        except torch.OutOfMemoryError:
            if self._batch == 1:
                raise AbstainError(
                    f"must fit into the memory of the device, got {self._backbone.name}, which "
                    "does not even for one sample; take a smaller one",
                    argument="backbone",
                ) from None
        # No longer within the error, whose frames hold what the larger batch took.
        self._batch = (min(self._batch, len(samples)) + 1) // 2
        torch.cuda.empty_cache()
        _log.warning("the device has too little memory: batches of %d from here on", self._batch)
        return self._computed(samples)


class _Clock:
    """A clock for batches, which a GPU measures itself: nobody waits for it."""

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self._begun: list[tuple[int, Any, Any]] = []

    @contextmanager
    def batch(self, samples: int) -> Iterator[None]:
        begin = self._now()
        yield
        self._begun.append((samples, begin, self._now()))

    def seconds_per_sample(self) -> float:
        """Seconds for a sample of the fastest batch."""
        if self._on_gpu:
            torch.cuda.synchronize()
        return min((self._between(*ends) / size for size, *ends in self._begun), default=0.0)

    def _now(self) -> Any:  # noqa: ANN401
        if not self._on_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def _between(self, begin: Any, end: Any) -> float:  # noqa: ANN401
        return float(begin.elapsed_time(end) / 1000 if self._on_gpu else end - begin)


def features_of(samples: Samples, backbone: Backbone, device: torch.device, size: int) -> Tensor:
    """Features in batches of one size.

    A GPU compiles kernels for every size of a batch of images, which takes seconds: so the last
    batch is filled up there.
    """
    parts = []
    for begin in range(0, len(samples), size):
        part = samples[begin : begin + size]
        count = len(part)
        if isinstance(part, Tensor) and device.type == "cuda" and count < size:
            part = torch.cat([part, part[:1].expand(size - count, *part.shape[1:])])
        parts.append(backbone.features(part, device)[:count])
    return torch.cat(parts)


def in_order(
    threads: ThreadPoolExecutor,
    work: Callable[[_Item], _Result],
    items: Iterable[_Item],
    ahead: int,
) -> Iterator[_Result]:
    """Yield the result of some work for each item, done by threads for so many items ahead.

    >>> with ThreadPoolExecutor(2) as threads:
    ...     list(in_order(threads, abs, [-3, 2, -1], ahead=2))
    [3, 2, 1]
    """
    pending: deque[Future[_Result]] = deque()
    for item in items:
        pending.append(threads.submit(work, item))
        if len(pending) > ahead:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


def threads_to_read() -> int:
    """The number of threads that decode."""
    return min(32, (os.cpu_count() or 1) + 2)


@contextmanager
def reading_threads() -> Iterator[ThreadPoolExecutor]:
    """Threads that decode; PIL does so without Python's lock."""
    with ThreadPoolExecutor(threads_to_read()) as pool:
        try:
            yield pool
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _sized(inputs: Inputs, backbone: Backbone) -> Inputs:
    """Files of images are decoded at the size that the backbone takes."""
    if isinstance(inputs, LazyImages) and isinstance(backbone, ImageBackbone):
        return replace(inputs, channels=3, resize=(backbone.size, backbone.size))
    return inputs


def _stacked(images: Sequence[object]) -> Tensor:
    return torch.stack([torch.as_tensor(image) for image in images])
