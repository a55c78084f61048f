"""Features of a data set: decoded ahead, embedded in batches, kept in shards."""

import logging
import math
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from abstain.data import Inputs, LabeledData
from abstain.data.cache import cache_folder
from abstain.data.identity import sample_digests
from abstain.data.readers.decoders import Decoders
from abstain.data.readers.images import LazyImages
from abstain.embed.backbones.base import Backbone, TextBackbone
from abstain.embed.store.pipeline import Cost, Pipeline, in_order, reading_threads
from abstain.embed.store.shards import SHARD, Features, ShardFolder, is_whole, write_shard
from abstain.errors import AbstainError
from abstain.support.progress import counting
from abstain.support.wording import many

_log = logging.getLogger(__name__)
_TIMED = {"cuda": 256, "cpu": 16}
_HASHED, _AHEAD = 128, 16
"""Samples that a thread hashes at once; how often, while the network works on others."""
_LARGEST = torch.finfo(torch.float16).max
_WRITTEN = 4
"""Shards that are written meanwhile."""


@dataclass(frozen=True)
class Embedding:
    """The features of one data set by one backbone: made once, and handed on."""

    inputs: Inputs
    features: Features

    @classmethod
    def of(cls, data: LabeledData, backbone: Backbone) -> "Embedding":
        """Made now, or read from the cache."""
        return cls(data.inputs, embed(data, backbone))


def again(made: Embedding | None, data: LabeledData, backbone: Backbone) -> Features:
    """The features of a data set: those that were made, if they are its own."""
    if made is not None and made.inputs is data.inputs:
        return made.features
    return embed(data, backbone)


def embed(
    data: LabeledData,
    backbone: Backbone,
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    device: torch.device | None = None,
    cost: Cost | None = None,
) -> Features:
    """The features of every sample, from the cache where they are there.

    Args:
        data: Images or texts.
        backbone: What to see them by.
        cache_dir: Where features are kept; else `ABSTAIN_CACHE`, else the user's cache folder.
        device: Where to compute; a GPU if there is one.
        cost: Takes in where the time went.
    """
    if data.kind != backbone.kind:
        raise AbstainError(
            f"must be one for {data.kind}s, which {data.name} holds, got {backbone.name}, one for "
            f"{backbone.kind}s",
            argument="backbone",
        )
    device, cost = device or _usual_device(), cost or Cost()
    longer = backbone.longer if isinstance(backbone, TextBackbone) else 0
    store = ShardFolder(cache_folder(cache_dir) / "features", backbone.identity + _form(data))
    ranges = [range(x, min(x + SHARD, len(data))) for x in range(0, len(data), SHARD)]
    shards: list[Path] = []
    with (
        counting(len(data), f"{data.name} by {backbone.name}") as advance,
        Decoders(len(data)) as decoders,
        reading_threads() as threads,
        ThreadPoolExecutor(1) as writer,
    ):

        def missing() -> Iterator[range]:
            parts = (range(x, min(x + _HASHED, len(data))) for x in range(0, len(data), _HASHED))
            hashed = in_order(threads, lambda part: sample_digests(data, part), parts, _AHEAD)
            for rows in ranges:
                path = store.path(islice(hashed, math.ceil(len(rows) / _HASHED)))
                shards.append(path)
                if is_whole(path):
                    advance(len(rows))
                else:
                    yield rows

        def write(made: tuple[range, Tensor]) -> None:
            rows, features = made
            _check_finite(features, backbone.name, data, rows)
            write_shard(shards[rows.start // SHARD], features)

        pipeline = Pipeline(data.inputs, backbone, device, threads, cost, decoders, advance)
        for _ in in_order(writer, write, pipeline.features(missing()), _WRITTEN):
            pass
    if isinstance(backbone, TextBackbone) and (split := backbone.longer - longer):
        _log.warning(
            "%s of %s %s longer than the window of %s: each is the mean of its parts",
            many(split, "text"),
            data.name,
            "is" if split == 1 else "are",
            backbone.name,
        )
    features = Features(tuple(shards), len(data), 0)
    columns = features[0].shape[0] if len(data) else 0
    return Features(tuple(shards), len(data), columns)


def seconds_to_embed(
    data: LabeledData, backbone: Backbone, *, device: torch.device | None = None
) -> float:
    """About what the features of all samples take, by the second of two equal batches."""
    device = device or _usual_device()
    rows, seconds = range(min(len(data), _TIMED[device.type])), math.inf
    with Decoders(len(data)) as decoders, reading_threads() as threads:
        pipeline = Pipeline(data.inputs, backbone, device, threads, Cost(), decoders)
        for _ in range(2):  # in the first the device gets ready
            began = time.perf_counter()
            for _, features in pipeline.features([rows]):
                features.cpu()
            seconds = time.perf_counter() - began
    return seconds / len(rows) * len(data)


def _form(data: LabeledData) -> str:
    """Shape and type of images in memory, of which their bytes say nothing."""
    if data.kind != "image" or isinstance(data.inputs, LazyImages) or not len(data):
        return ""
    first = torch.as_tensor(data.inputs[0])
    return f"-{tuple(first.shape)}-{first.dtype}"


def _usual_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _check_finite(features: Tensor, backbone: str, data: LabeledData, rows: range) -> None:
    is_finite = features.isfinite().all(1)
    if not bool(is_finite.all()):
        first = rows[int((~is_finite).nonzero()[0])]
        raise AbstainError(
            f"must give finite numbers up to {_LARGEST:,.0f}, as they are kept in half precision, "
            f"got NaN, infinity or more by {backbone} for sample {data.ids[first]}",
            argument="backbone",
        )
