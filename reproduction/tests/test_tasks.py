"""Tasks load from a copied cache, and texts are packed once."""

import pytest
import torch

from abstain.data import LabeledData
from reproduction import tasks
from reproduction.tasks import load_tokens, task_loader


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ABSTAIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ABSTAIN_DATA", raising=False)


def test_images_load_from_a_copied_cache_without_their_package(tmp_path, monkeypatch):
    first = task_loader()("digits", "mlp")
    import importlib.metadata

    def gone(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("abstain.data.readers.builtin.importlib.metadata.version", gone)
    again = task_loader()("digits", "mlp")
    assert torch.equal(again.inputs, first.inputs)
    assert again.inputs.dtype == torch.uint8
    assert len(again.test_inputs) == 355
    assert again.num_classes == 10


def test_texts_are_packed_once_and_need_no_tokenizer_after_that(tmp_path, monkeypatch):
    glove = tmp_path / "glove.txt"
    glove.write_text("good 1 0\nbad 0 1\nfilm 0.5 0.5\n")
    texts = {"train": ["good film", "bad film"] * 4, "test": ["good", "bad"]}

    def load(data, *, data_dir=None, split="train", classes=None):
        given = torch.arange(len(texts[split])) % 2
        return LabeledData(
            inputs=texts[split],
            given=given,
            classes=("pos", "neg"),
            ids=tuple(map(str, range(len(given)))),
            kind="text",
            word_vectors=glove,
        )

    monkeypatch.setattr(tasks, "load", load)
    first = load_tokens("imdb")
    monkeypatch.setattr(tasks, "load", None)
    again = load_tokens("imdb")
    assert again.keys() == first.keys()
    for name, tensor in first.items():
        assert torch.equal(again[name], tensor)
    assert again["inputs"].dtype == torch.int32
    assert again["vectors"].dtype == torch.float32
    assert again["inputs"].shape == (8, 200)
    task = task_loader()("imdb", "lstm-attention")
    assert task.vectors is not None
    assert task.num_classes == 2
