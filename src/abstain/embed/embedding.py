"""From data to features: decoded ahead, embedded in batches, kept in shards."""

import logging
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text
from torch import Tensor

from abstain.data import Inputs, LabeledData
from abstain.data.cache import cache_folder
from abstain.data.inputs import contents, take
from abstain.data.readers.images import LazyImages
from abstain.embed.backbone import Backbone, ImageBackbone, TextBackbone
from abstain.embed.shards import SHARD, Features, Store
from abstain.errors import AbstainError
from abstain.support.wording import many

_log = logging.getLogger(__name__)
_BATCH = {"cuda": 256, "cpu": 32}
_TEXTS = 1024
_TIMED = {"cuda": 256, "cpu": 16}
_AHEAD = 4
"""Batches that are decoded while the network works on one."""


@dataclass
class Cost:
    """Where the time went."""

    made: int = 0
    """Samples whose features were not there yet."""
    waiting: float = 0.0
    """Seconds in which the network waited for decoded samples."""
    network: float = 0.0
    """Seconds in which it worked."""

    @property
    def limit(self) -> str:
        """What took the longer."""
        return "decoding" if self.waiting > self.network else "the network"


def embed(
    data: LabeledData,
    backbone: Backbone,
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    device: torch.device | None = None,
    show: bool = False,
    cost: Cost | None = None,
) -> Features:
    """The features of every sample, from the cache where they are there.

    Args:
        data: Images or texts.
        backbone: What to see them by.
        cache_dir: Where features are kept; else `ABSTAIN_CACHE`, else the user's cache folder.
        device: Where to compute; a GPU if there is one.
        show: Show progress, where there is a terminal.
        cost: Takes in where the time went.
    """
    if data.kind != backbone.kind:
        raise AbstainError(
            f"must be one for {data.kind}s, which {data.name} holds, got {backbone.name}, one for "
            f"{backbone.kind}s",
            argument="backbone",
        )
    device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
    cost = cost or Cost()
    longer = backbone.longer if isinstance(backbone, TextBackbone) else 0
    store = Store(cache_folder(cache_dir) / "features")
    batch = Batch(_BATCH[device.type] if data.kind == "image" else _TEXTS)
    shards: list[Path] = []
    with _bar(len(data), data.name, backbone.name, show=show) as advance, _decoders() as pool:
        for begin in range(0, len(data), SHARD):
            rows = range(begin, min(begin + SHARD, len(data)))

            def make(rows: range = rows) -> Tensor:
                cost.made += len(rows)
                return _features(data.inputs, backbone, rows, device, batch, pool, cost, advance)

            made = cost.made
            shards.append(store.shard(backbone.identity, contents(data, rows), make))
            if cost.made == made:
                advance(len(rows))
    if isinstance(backbone, TextBackbone) and backbone.longer > longer:
        _log.warning(
            "%s of %s longer than the window of %s: each is the mean of its parts",
            many(backbone.longer - longer, "text is", "texts are"),
            data.name,
            backbone.name,
        )
    features = Features(tuple(shards), len(data), 0)
    columns = features[0].shape[0] if len(data) else 0
    return Features(tuple(shards), len(data), columns)


def seconds_to_embed(
    data: LabeledData, backbone: Backbone, *, device: torch.device | None = None
) -> float:
    """About what the features of all samples take, by the second of two equal batches."""
    device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch = Batch(min(len(data), _TIMED[device.type]))
    seconds = math.inf
    with _decoders() as pool:
        for _ in range(2):  # in the first the device gets ready
            began = time.perf_counter()
            rows = range(batch.size)
            _features(data.inputs, backbone, rows, device, batch, pool, Cost(), lambda _: None)
            seconds = time.perf_counter() - began
    return seconds / batch.size * len(data)


@dataclass
class Batch:
    """How many samples a network is given at once; fewer where they do not fit into memory."""

    size: int


def _features(
    inputs: Inputs,
    backbone: Backbone,
    rows: range,
    device: torch.device,
    batch: Batch,
    pool: ThreadPoolExecutor,
    cost: Cost,
    advance: Callable[[int], None],
) -> Tensor:
    parts: list[Tensor] = []
    for samples in _ahead(inputs, backbone, rows, batch.size, pool, cost):
        began = time.perf_counter()
        features = _in_memory(backbone, samples, device, batch)
        parts.append(features.half().cpu())
        cost.network += time.perf_counter() - began
        advance(len(samples))
    made = torch.cat(parts)
    if not bool(made.isfinite().all()):
        raise AbstainError(
            f"{backbone.name} must give finite numbers, got NaN or infinity for sample "
            f"{rows[int((~made.isfinite()).any(1).nonzero()[0])]}",
        )
    return made


def _in_memory(
    backbone: Backbone, samples: Sequence[object], device: torch.device, batch: Batch
) -> Tensor:
    """Features, by halves where a batch does not fit into the memory of the device."""
    try:
        return torch.cat(
            [
                backbone.features(samples[begin : begin + batch.size], device)
                for begin in range(0, len(samples), batch.size)
            ]
        )
    except torch.OutOfMemoryError:
        if batch.size == 1:
            raise AbstainError(
                f"must fit into the memory of the device, got {backbone.name}, which does not even "
                "for one sample; take a smaller one",
                argument="backbone",
            ) from None
        batch.size = (batch.size + 1) // 2
        torch.cuda.empty_cache()
        _log.warning("the device has too little memory: batches of %d from here on", batch.size)
        return _in_memory(backbone, samples, device, batch)


def _ahead(
    inputs: Inputs,
    backbone: Backbone,
    rows: range,
    size: int,
    pool: ThreadPoolExecutor,
    cost: Cost,
) -> Iterator[Sequence[object]]:
    """Batches of samples, the next ones decoded by threads meanwhile."""
    if isinstance(inputs, Tensor | list):  # in memory: nothing to wait for
        yield from (inputs[x : min(x + size, rows.stop)] for x in rows[::size])  # type: ignore[misc]
        return
    if hasattr(inputs, "__getitems__"):  # texts of a file: nothing to decode
        yield from (take(inputs, rows[x : x + size]) for x in range(0, len(rows), size))
        return
    read = _reader(inputs, backbone)
    starts = list(rows[::size])
    pending: list[list[Future[object]]] = []
    for number in range(len(starts) + _AHEAD):
        if number < len(starts):
            own = range(starts[number], min(starts[number] + size, rows.stop))
            pending.append([pool.submit(read, row) for row in own])
        if number >= _AHEAD or number >= len(starts):
            if not pending:
                return
            began = time.perf_counter()
            samples = [future.result() for future in pending.pop(0)]
            cost.waiting += time.perf_counter() - began
            yield samples


def _reader(inputs: Inputs, backbone: Backbone) -> Callable[[int], object]:
    """How one sample is read; files are decoded at the size that the backbone takes."""
    if isinstance(inputs, LazyImages) and isinstance(backbone, ImageBackbone):
        sized = LazyImages(inputs.blobs, 3, (backbone.size, backbone.size))
        return sized.__getitem__
    return inputs.__getitem__


@contextmanager
def _decoders() -> Iterator[ThreadPoolExecutor]:
    """Threads that decode; PIL does so without Python's lock."""
    with ThreadPoolExecutor(min(32, (os.cpu_count() or 1) + 2)) as pool:
        try:
            yield pool
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} samples/s")


@contextmanager
def _bar(total: int, data: str, backbone: str, *, show: bool) -> Iterator[Callable[[int], None]]:
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not (show and console.is_terminal),
    ) as progress:
        task = progress.add_task(f"{data} by {backbone}", total=total)
        yield lambda count: progress.advance(task, count)
