"""The bag of words: the mean of the vectors, whatever the padding."""

import pytest
import torch

from abstain.errors import AbstainError
from abstain.models import BagOfWords


def test_it_is_linear_in_the_mean_of_the_vectors_of_the_words():
    model = BagOfWords(3, vocabulary=9, dimensions=4).double()
    words = [2, 5, 5]
    mean = sum(model.embedding.weight[word] for word in words) / 3
    expected = model.fc.weight @ mean + model.fc.bias
    for padding in (0, 4):
        tokens = torch.tensor([words + [0] * padding])
        torch.testing.assert_close(model(tokens)[0], expected)


def test_a_text_without_words_gets_the_bias():
    model = BagOfWords(3, vocabulary=9)
    torch.testing.assert_close(model(torch.zeros(1, 5, dtype=torch.int64))[0], model.fc.bias)


def test_padding_learns_nothing():
    model = BagOfWords(3, vocabulary=9)
    model(torch.tensor([[1, 2, 0, 0]])).sum().backward()
    gradient = model.embedding.weight.grad.abs().sum(1)
    assert (gradient > 0).tolist() == [False, True, True] + [False] * 6


def test_a_vocabulary_without_words_is_refused():
    with pytest.raises(AbstainError, match="at least 2 tokens"):
        BagOfWords(3, vocabulary=1)
