"""`auto`: of the backbones that this machine has, the one that agrees best with held-out labels."""

import logging
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from abstain.data import LabeledData
from abstain.embed.backbones.base import Backbone, not_pixels
from abstain.embed.backbones.cached import cached_models
from abstain.embed.backbones.names import NONE, backbone_named
from abstain.embed.backbones.small import SMALL
from abstain.embed.embedding import embed, seconds_to_embed
from abstain.embed.folds import out_of_sample
from abstain.embed.store.shards import SHARD
from abstain.errors import AbstainError
from abstain.support.duration import spoken

_log = logging.getLogger(__name__)
BUDGET = 600.0
"""Seconds that a training with its features may take by default."""
_PROBED, _PROBE_SECONDS = 5_000, 30
"""Samples by which backbones are compared; fewer, a shard, where these would take longer."""
_DRAWING, _PLAIN, _LOOKED_AT = 32, 0.25, 100
"""Grey images of at most so many pixels, of which a single value fills so much, are taken for
digits and drawings. A small network ranks their wrong labels better than a backbone of photos, in a
fraction of the time; of grey photos, whose ground is not plain, it does not (bench/drawings.py, on
whose sets the share was also set). A probe of both would take longer than to learn digits."""


@dataclass(frozen=True)
class ChosenBackbone:
    """A backbone, and why."""

    name: str
    reason: str


def choose(data: LabeledData, *, budget: float = BUDGET) -> ChosenBackbone:
    """The backbone for a data set, among those that this machine has; nothing is fetched.

    Args:
        data: Images, texts or a table, whose columns of texts it is for.
        budget: Seconds that the features of all samples may take; of backbones that all take more,
            the fastest is left.
    """
    if data.kind == "table" and not data.texts:
        return ChosenBackbone(NONE, "the inputs are numbers")
    if data.kind == "image" and _is_drawing(data):
        return ChosenBackbone(
            NONE, "small grey drawings on a plain background train better from scratch"
        )
    if data.kind == "image" and (why := _unfit(data)):
        _log.warning("%s is trained from scratch: for a backbone, %s", data.name, why)
        return ChosenBackbone(NONE, why)
    seen = [data.of_texts(name) for name in data.texts] or [data]
    backbones = _opened(seen[0])
    if not backbones:
        if not data.texts:  # these are left out, and the training says so
            _log.warning(
                "%s is trained from scratch, as no backbone is installed; run: pip install "
                "'abstain[small]' for one that finds more wrong labels in less time",
                data.name,
            )
        return ChosenBackbone(NONE, "none is installed")
    if len(backbones) == 1:
        return ChosenBackbone(next(iter(backbones)), "the only one on this machine")
    seconds = {
        name: sum(seconds_to_embed(part, one) for part in seen) for name, one in backbones.items()
    }
    most = max(budget, min(seconds.values()))
    slow = {name: x for name, x in seconds.items() if x > most}
    fitting = {name: one for name, one in backbones.items() if name not in slow}
    left_out = "".join(f"; {name} left out: it takes {spoken(x)}" for name, x in slow.items())
    if len(fitting) == 1:
        return ChosenBackbone(
            next(iter(fitting)), f"the only one within {spoken(budget)}{left_out}"
        )
    slowest = max(seconds[name] for name in fitting) / len(data)
    most_samples = _PROBED if _PROBED * slowest <= _PROBE_SECONDS else SHARD
    parts = [_drawn(part, most_samples) for part in seen]
    agreement = {name: _agreement(parts, one) for name, one in fitting.items()}
    best = max(agreement, key=lambda name: agreement[name])
    figures = ", ".join(f"{name} {share:.1%}" for name, share in agreement.items())
    return ChosenBackbone(best, f"agrees best with held-out labels ({figures}){left_out}")


def _opened(data: LabeledData) -> dict[str, Backbone]:
    """The backbones that this machine has, for a data set; one that cannot be read is left out."""
    installed = [
        f"small:{name}"
        for name, package in SMALL.items()
        if package.kind == data.kind and package.folder() is not None
    ]
    opened: dict[str, Backbone] = {}
    for name in (*installed, *cached_models(data.kind)):
        try:
            opened[name] = backbone_named(name, data.kind).for_data(data)
        except AbstainError as error:
            if name in installed:
                raise
            _log.info("left out: %s", error)
    return opened


def _agreement(parts: Sequence[LabeledData], backbone: Backbone) -> float:
    """Share of labels that heads blind to them predict, from the features of all parts."""
    features = torch.cat([embed(part, backbone).in_memory() for part in parts], dim=1)
    given = parts[0].given
    probabilities = out_of_sample(features, given, parts[0].num_classes)
    return float((probabilities.argmax(1) == given).float().mean())


def _unfit(data: LabeledData) -> str | None:
    """Say why no backbone can take the images, by some of them where they are no bytes."""
    first = torch.as_tensor(data.inputs[0])
    few = [first] if first.dtype == torch.uint8 else list(_some_images(data))
    return next((why for image in few if (why := not_pixels(image[None]))), None)


def _is_drawing(data: LabeledData) -> bool:
    shape = torch.as_tensor(data.inputs[0]).shape
    return shape[0] == 1 and max(shape[1:]) <= _DRAWING and plain_ground(data) >= _PLAIN


def plain_ground(data: LabeledData) -> float:
    """The share of an image that its most frequent value fills, in the median of some images.

    >>> from abstain.data import load
    >>> round(plain_ground(load("digits")), 1)
    0.5
    """
    images = (image.flatten() for image in _some_images(data))
    shares = [float((image == image.mode().values).float().mean()) for image in images]
    return statistics.median(shares)


def _some_images(data: LabeledData) -> Iterator[Tensor]:
    step = max(1, len(data) // _LOOKED_AT)
    return (torch.as_tensor(data.inputs[k]) for k in range(0, len(data), step))


def _drawn(data: LabeledData, most: int) -> LabeledData:
    """Some of the samples at random; all in their order where these are few, as they are seen."""
    if len(data) <= most:
        return data
    rows = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))[:most].tolist()
    inputs: Any = data.inputs
    if hasattr(inputs, "subset"):
        taken = inputs.subset(rows)
    else:
        taken = inputs[rows] if isinstance(inputs, Tensor) else [inputs[k] for k in rows]
    return LabeledData(
        inputs=taken,
        given=data.given[rows],
        classes=data.classes,
        ids=[data.ids[k] for k in rows],
        kind=data.kind,
        name=data.name,
    )
