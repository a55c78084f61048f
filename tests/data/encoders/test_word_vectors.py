"""Word vectors of the text encoder."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

from abstain.data import LabeledData, fit_encoder, load_encoder
from abstain.errors import DataError


def texts(*inputs):
    return LabeledData(
        inputs=list(inputs),
        given=torch.zeros(len(inputs), dtype=torch.int64),
        classes=("a", "b"),
        ids=[str(i) for i in range(len(inputs))],
        kind="text",
    )


def write_glove(folder):
    folder.mkdir()
    save_file(
        {"vectors": torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]).half()},
        folder / "glove.safetensors",
    )
    (folder / "words.txt").write_text("film\nthe\nunused\n")
    (folder / "glove.txt").write_text("film 1 2\nthe 3 4\nunused 5 6\n")
    return folder


@pytest.mark.parametrize("name", ["", "glove.safetensors", "glove.txt"])
def test_vectors_of_known_words_and_zeros_for_the_rest(tmp_path, name):
    path = write_glove(tmp_path / "glove") / name
    encoder = fit_encoder(texts("the film", "the end"), vectors=path)
    rows = encoder.tokenizer.get_vocab()
    assert encoder.vectors.shape == (5, 2)
    assert encoder.vectors[rows["film"]].tolist() == [1, 2]
    assert encoder.vectors[rows["the"]].tolist() == [3, 4]
    assert not encoder.vectors[[0, 1, rows["end"]]].any()
    (tmp_path / "model").mkdir()
    encoder.save(tmp_path / "model")
    assert torch.equal(load_encoder(tmp_path / "model").vectors, encoder.vectors)


def test_vectors_beside_the_source_are_the_default(tmp_path):

    data = replace(texts("the film"), word_vectors=write_glove(tmp_path / "glove"))
    assert fit_encoder(data).vectors is not None
    assert fit_encoder(data, vectors=False).vectors is None


def test_vectors_that_cannot_be_used(tmp_path):
    data = texts("the film")
    with pytest.raises(DataError, match="vectors must name a file or folder that exists"):
        fit_encoder(data, vectors=tmp_path / "none")
    with pytest.raises(DataError, match="must hold one safetensors file"):
        fit_encoder(data, vectors=tmp_path)
    folder = write_glove(tmp_path / "glove")
    with pytest.raises(DataError, match="got none in common"):
        fit_encoder(texts("völlig andere"), vectors=folder)
    (folder / "glove.txt").write_text("film 1 2\nthe 3 x\n")
    with pytest.raises(DataError, match=r"line 2 of .*must be a word and 2 numbers"):
        fit_encoder(data, vectors=folder / "glove.txt")
    (folder / "words.txt").write_text("film\n")
    with pytest.raises(DataError, match=r"must name each row .*got 1 words"):
        fit_encoder(data, vectors=folder)
    (folder / "words.txt").unlink()
    with pytest.raises(DataError, match=r"must have words\.txt beside it"):
        fit_encoder(data, vectors=folder)
