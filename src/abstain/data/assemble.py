"""From what a reader found to checked `LabeledData`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from abstain.data.class_labels import Labels, RawLabels, align_labels, check_counts, encode_labels
from abstain.data.contract import Inputs, Kind, LabeledData
from abstain.data.ids import check_unique


@dataclass(frozen=True, kw_only=True)
class Found:
    """One split as its reader found it: labels are raw values, or None where there are none."""

    kind: Kind
    inputs: Inputs
    labels: RawLabels | None
    ids: Sequence[str]
    names: Sequence[str] = ()
    columns: tuple[str, ...] = ()
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    dates: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    scaled: bool = False
    name: str = "data"
    where: str = "label"


def assemble(found: Found) -> LabeledData:
    """Number the classes and keep everything else."""
    if found.labels is None:
        labels = Labels(torch.full((len(found.inputs),), -1), tuple(found.names))
    else:
        labels = encode_labels(found.labels, where=found.where, names=found.names)
    return LabeledData(
        inputs=found.inputs,
        given=labels.given,
        classes=labels.classes,
        ids=found.ids,
        kind=found.kind,
        name=found.name,
        columns=found.columns,
        categories=found.categories,
        dates=found.dates,
        unknown=found.unknown,
        skipped=found.skipped,
        scaled=found.scaled,
    )


def settle(data: LabeledData, *, classes: Sequence[str] | None, labelled: bool) -> LabeledData:
    """Align the labels to the classes of another split, or check that they can train."""
    check_unique(data.ids, data.name)
    if not labelled:
        none = torch.full((len(data),), -1)
        return replace(data, given=none, classes=tuple(classes or data.classes))
    labels = Labels(data.given, data.classes)
    where = f"labels of {data.name}"
    if classes is None:
        check_counts(labels, where=where)
        return data
    aligned = align_labels(labels, classes, where=where, ids=data.ids)
    return replace(data, given=aligned.given, classes=aligned.classes)
