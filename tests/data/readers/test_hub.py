"""Hugging Face datasets that are here."""

import sys

import datasets
import pytest
import torch
from PIL import Image

from abstain.data import load, splits
from abstain.data.readers.hub import read_dataset
from abstain.data.reading import ReadOptions
from abstain.errors import DataError


def pets(rows=6):
    features = datasets.Features(
        {"image": datasets.Image(), "animal": datasets.ClassLabel(names=["cat", "dog"])}
    )
    images = [Image.new("L", (5, 4), i) for i in range(rows)]
    return datasets.Dataset.from_dict(
        {"image": images, "animal": [i % 2 for i in range(rows)]}, features=features
    )


def test_dataset_with_images_and_a_declared_label():
    data = load(pets())
    assert data.kind == "image"
    assert data.classes == ("cat", "dog")
    assert data.inputs[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert data.columns == ("image",)


def test_selected_rows_keep_their_order():
    data = load(pets().select([5, 2, 3, 0]))
    assert data.inputs[:, 0, 0, 0].tolist() == [5, 2, 3, 0]
    assert data.given.tolist() == [1, 0, 1, 0]


def test_dict_of_splits():
    both = datasets.DatasetDict({"train": pets(), "val": pets(4)})
    assert splits(both) == ("train", "validation")
    assert len(load(both, split="validation")) == 4
    with pytest.raises(DataError, match="got 'test'"):
        load(both, split="test")


def test_large_dataset_is_mapped_from_disk(cache):
    data = load(pets(), memory_budget=10)
    assert list(cache.glob("rows-*.arrow"))
    assert torch.equal(data.inputs[3], load(pets()).inputs[3])


def test_streamed_dataset_has_no_length():
    with pytest.raises(DataError, match="got IterableDataset; a streamed set has no length"):
        load(pets().to_iterable_dataset())


def test_the_only_part_is_the_training_split_whatever_it_is_called():
    alone = datasets.DatasetDict({"test": pets()})
    assert splits(alone) == ("train",)
    assert len(load(alone)) == len(load(alone, split="test")) == 6


def test_split_whose_labels_are_kept_back_does_not_count():
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])}
    )

    def part(labels):
        rows = {"text": ["a", "b"], "label": labels}
        return datasets.Dataset.from_dict(rows, features=features)

    both = datasets.DatasetDict({"train": part([0, 1]), "test": part([-1, -1])})
    assert splits(both) == ("train",)
    assert splits(datasets.DatasetDict({**both, "dev": part([1, 1])})) == ("train", "validation")


def test_weights_are_read_again_where_images_are_kept(cache):
    weighted = pets().add_column("weight", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    options = ReadOptions(label="animal", weights="weight", cache=cache)
    for _ in range(2):
        data = read_dataset(weighted, options, keep=True)
        assert data.weights.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_the_hub_needs_a_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match="pip install datasets"):
        load("hf:someone/pets")
