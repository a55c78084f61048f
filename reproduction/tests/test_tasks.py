"""Tasks load from a copied cache, and texts are packed once."""

import pytest
import torch
from safetensors.torch import save_file

from abstain.data import LabeledData
from abstain.errors import AbstainError
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
    (tmp_path / "glove").mkdir()
    (tmp_path / "glove" / "words.txt").write_text("good\nbad\nfilm\n")
    vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    save_file({"vectors": vectors}, tmp_path / "glove" / "glove.safetensors")
    texts = {"train": ["good film", "bad film"] * 4, "test": ["good", "bad"]}

    def load(data, *, data_dir=None, split="train", classes=None):
        given = torch.arange(len(texts[split])) % 2
        return LabeledData(
            inputs=texts[split],
            given=given,
            classes=("pos", "neg"),
            ids=tuple(map(str, range(len(given)))),
            kind="text",
        )

    monkeypatch.setattr(tasks, "load", load)
    with pytest.raises(AbstainError, match="imdb needs GloVe vectors: put a folder glove"):
        load_tokens("imdb")
    first = load_tokens("imdb", tmp_path)
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
