"""Tests of what encoders of every kind share: the kinds they refuse, and lazy inputs."""

import pytest
import torch

from abstain.data import fit_encoder, load
from abstain.data.encoders.base import LazyEncoded
from abstain.errors import DataError

NUMBERS = load((torch.arange(8.0).reshape(4, 2), ["a", "b", "a", "b"]))
TEXTS = load((["good", "bad", "fine", "dull"], ["a", "b", "a", "b"]))


def test_another_kind_of_data_is_refused():
    with pytest.raises(DataError, match=r"must hold what the model was trained on \(text\), got t"):
        fit_encoder(TEXTS).encode(NUMBERS)


@pytest.mark.parametrize("data", [NUMBERS, TEXTS], ids=["table", "text"])
def test_lazy_inputs_are_encoded_as_those_in_memory(data):
    encoder = fit_encoder(data)
    expected = encoder.encode(data)
    lazy = LazyEncoded(data.inputs, encoder, order=tuple(range(2)))
    assert len(lazy) == 4
    assert torch.equal(torch.stack([lazy[k] for k in range(4)]), expected)
    assert torch.equal(torch.stack(lazy.__getitems__([2, 0])), expected[[2, 0]])
