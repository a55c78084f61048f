import sys

import datasets
import pytest
import torch
from PIL import Image

from abstain.data import load, splits
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


def test_hub_name(monkeypatch):
    asked = []

    def load_dataset(path, config):
        asked.append((path, config))
        return datasets.DatasetDict({"train": pets()})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert load("hf:someone/pets").name == "pets"
    load("hf:someone/pets:small")
    assert asked == [("someone/pets", None), ("someone/pets", "small")]


def test_builtin_set_from_the_hub_is_kept(monkeypatch):
    rows = datasets.Dataset.from_dict({"text": ["a", "b"] * 2, "label": [0, 1] * 2})
    found = datasets.DatasetDict({"train": rows, "test": rows, "unsupervised": rows})
    monkeypatch.setattr(datasets, "load_dataset", lambda path, config: found)
    data = load("imdb")
    assert data.ids[1] == "train-000001"
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert load("imdb").inputs == data.inputs


def test_offline_says_what_to_do(monkeypatch):
    def load_dataset(path, config):
        raise ConnectionError("Couldn't reach the hub\nmore lines")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(DataError, match=r"cannot be fetched .*\(Couldn't reach the hub\); connect"):
        load("hf:someone/pets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DataError, match="HF_HUB_OFFLINE"):
        load("hf:someone/pets")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match="pip install datasets"):
        load("hf:someone/pets")
