"""Torch datasets."""

import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from abstain.data import load
from abstain.data.readers.torch_datasets import LazySamples
from abstain.errors import DataError


class Photos(Dataset):
    """As torchvision's: PIL images, targets, class names."""

    classes = ("cat", "dog")
    targets = (0, 1, 0, 1)

    def __len__(self):
        return 4

    def __getitem__(self, index):
        if not 0 <= index < 4:
            raise IndexError
        return Image.new("RGB", (6, 5), (index, 0, 0)), self.targets[index]


class Stream(IterableDataset):
    def __iter__(self):
        yield torch.zeros(2), 0


def test_torch_datasets():
    data = load(TensorDataset(torch.arange(8.0).reshape(4, 2), torch.tensor([0, 1, 0, 1])))
    assert data.inputs.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    photos = load(Photos())
    assert photos.classes == ("cat", "dog")
    assert photos.inputs.shape == (4, 3, 5, 6)
    assert photos.inputs[:, 0, 0, 0].tolist() == [0, 1, 2, 3]
    with pytest.raises(DataError, match="a dataset with a length, got Stream"):
        load(Stream())


def test_large_torch_dataset_stays_lazy():
    photos = load(Photos(), memory_budget=100)
    assert isinstance(photos.inputs, LazySamples)
    assert photos.kind == "image"
    assert photos.given.tolist() == [0, 1, 0, 1]
    assert photos.inputs[2][0, 0, 0] == 2
