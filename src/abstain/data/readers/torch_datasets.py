"""Map-style torch datasets whose samples are (input, label, …)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from abstain.data.class_labels import no_labels, with_labels
from abstain.data.contract import Kind, LabeledData, NumberedIds
from abstain.data.readers.arrays import read_arrays
from abstain.data.reading import ReadOptions
from abstain.errors import DataError
from abstain.support.wording import some

Samples: TypeAlias = Any  # torch's Dataset promises neither a length nor a kind of sample
Sample: TypeAlias = Any


@dataclass(frozen=True)
class LazySamples:
    """The inputs of a torch dataset, without its labels, read when asked for."""

    dataset: Samples

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int, /) -> Tensor | str:
        return _input(self.dataset[index])


def read_torch(dataset: Samples, options: ReadOptions) -> LabeledData:
    """All samples when they fit in the budget, else inputs that the dataset decodes when asked."""
    if not hasattr(dataset, "__len__") or isinstance(dataset, torch.utils.data.IterableDataset):
        raise DataError(
            f"must be a dataset with a length, got {type(dataset).__name__}; "
            "wrap it in a map-style dataset, or write it to files first",
            argument="source",
        )
    if len(dataset) == 0:
        raise DataError(
            f"must hold samples, got an empty {type(dataset).__name__}", argument="source"
        )
    names = _names(dataset)
    first = _input(dataset[0])
    size = len(first) if isinstance(first, str) else first.numel() * first.element_size()
    if size * len(dataset) > options.memory_budget:
        unlabelled = LabeledData(
            inputs=LazySamples(dataset),
            given=no_labels(len(dataset)),
            classes=tuple(names),
            ids=NumberedIds(len(dataset)),
            kind=_kind(first),
        )
        labels = _labels(dataset) if options.labelled else None
        return with_labels(unlabelled, labels, where="label")
    samples = [dataset[index] for index in range(len(dataset))]
    inputs = [_input(sample) for sample in samples]
    labels = [_label(sample) for sample in samples] if options.labelled else None
    if isinstance(first, str):
        return read_arrays(inputs, labels, names=names, name="dataset")
    shapes = {tuple(x.shape) for x in inputs if isinstance(x, Tensor)}
    if len(shapes) > 1:
        raise DataError(
            "samples of the dataset must have one shape, got "
            f"{some(sorted(shapes), shown=3)}; resize them in it"
        )
    stacked = torch.stack([x for x in inputs if isinstance(x, Tensor)])
    return read_arrays(stacked, labels, names=names, name="dataset")


def _labels(dataset: Samples) -> list[object]:
    """Labels from the `targets` of torchvision's datasets, else by reading every sample once."""
    targets = getattr(dataset, "targets", None)
    if targets is not None and len(targets) == len(dataset):
        return [_plain(target) for target in targets]
    return [_label(dataset[index]) for index in range(len(dataset))]


def _names(dataset: Samples) -> Sequence[str]:
    names = getattr(dataset, "classes", None)
    is_names = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    return tuple(names) if is_names and names else ()


def _input(sample: Sample) -> Tensor | str:
    value = sample[0] if isinstance(sample, tuple | list) else sample
    if isinstance(value, str):
        return value
    if isinstance(value, Tensor):
        return value
    array = np.array(value)
    if array.dtype.kind not in "biuf":
        raise DataError(
            "samples of the dataset must be (input, label) with a tensor, array, image or text as "
            f"input, got {type(value).__name__}"
        )
    is_colour_image = array.ndim == 3 and array.shape[-1] == 3 and array.dtype == np.uint8
    return torch.from_numpy(array.transpose(2, 0, 1).copy() if is_colour_image else array)


def _label(sample: Sample) -> object:
    if not isinstance(sample, tuple | list) or len(sample) < 2:
        raise DataError(
            f"samples of the dataset must be (input, label), got {type(sample).__name__}",
            remedy="use {labelled} for data without labels",
            labelled=False,
        )
    return _plain(sample[1])


def _plain(value: Sample) -> object:
    return value.item() if isinstance(value, Tensor | np.generic) else value


def _kind(first: Tensor | str) -> Kind:
    if isinstance(first, str):
        return "text"
    return "image" if first.ndim >= 2 else "table"
