"""Word vectors in GloVe's formats, by the words of a vocabulary."""

import pytest
import torch
from safetensors.torch import save_file

from abstain.errors import DataError
from reproduction.word_vectors import read_vectors

WORDS = ["[PAD]", "[UNK]", "end", "film", "the"]


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
    vectors = read_vectors(write_glove(tmp_path / "glove") / name, WORDS)
    assert vectors.tolist() == [[0, 0], [0, 0], [0, 0], [1, 2], [3, 4]]


def test_vectors_that_cannot_be_used(tmp_path):
    with pytest.raises(DataError, match="vectors must name a file or folder that exists"):
        read_vectors(tmp_path / "none", WORDS)
    with pytest.raises(DataError, match="must hold one safetensors file"):
        read_vectors(tmp_path, WORDS)
    folder = write_glove(tmp_path / "glove")
    with pytest.raises(DataError, match="got none in common"):
        read_vectors(folder, ["völlig", "andere"])
    (folder / "glove.txt").write_text("film 1 2\nthe 3 x\n")
    with pytest.raises(DataError, match=r"line 2 of .*must be a word and 2 numbers"):
        read_vectors(folder / "glove.txt", WORDS)
    (folder / "words.txt").write_text("film\n")
    with pytest.raises(DataError, match=r"must name each row .*got 1 words"):
        read_vectors(folder, WORDS)
    (folder / "words.txt").unlink()
    with pytest.raises(DataError, match=r"must have words\.txt beside it"):
        read_vectors(folder, WORDS)
