"""The real sets, from the folder that ABSTAIN_DATA names: all readers and encoders on them."""

import os
import time
from pathlib import Path

import pytest
import torch

from abstain.data import BUILTIN, fit_encoder, load

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("ABSTAIN_DATA"), reason="ABSTAIN_DATA is not set"),
]


def need(name):
    if not (Path(os.environ["ABSTAIN_DATA"]) / name).is_dir():
        pytest.skip(f"{name} is not in ABSTAIN_DATA")


@pytest.mark.parametrize(
    ("name", "mean", "std"),
    [
        ("mnist", [0.1307], [0.3081]),
        ("cifar10", [0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]),
    ],
)
def test_images_have_the_published_moments(name, mean, std):
    need(name)
    data = load(name)
    test = load(name, split="test", classes=data.classes)
    assert (len(data), len(test)) == (BUILTIN[name].train, BUILTIN[name].test)
    assert data.classes == test.classes == BUILTIN[name].classes
    pixels = data.inputs.transpose(0, 1).flatten(1).double() / 255
    assert torch.allclose(pixels.mean(1), torch.tensor(mean).double(), atol=1e-4)
    assert torch.allclose(pixels.std(1), torch.tensor(std).double(), atol=1e-4)
    started = time.perf_counter()
    again = load(name)
    assert time.perf_counter() - started < 2
    assert torch.equal(again.inputs, data.inputs)


def test_reviews_and_their_words():
    need("imdb")
    data = load("imdb")
    assert data.given.bincount().tolist() == [12_500, 12_500]
    encoder = fit_encoder(data)
    tokens = encoder.encode(data)
    assert tokens.shape == (25_000, 200)
    unseen = encoder.encode(load("imdb", split="test", classes=data.classes))
    assert (unseen == 1).float().mean() < 0.02


def test_images_above_the_budget_are_the_same():
    need("mnist")
    lazy = load(Path(os.environ["ABSTAIN_DATA"]) / "mnist", split="test", memory_budget=1 << 20)
    whole = load("mnist", split="test")
    assert not isinstance(lazy.inputs, torch.Tensor)
    for index in (0, 77, 9_999):
        assert torch.equal(lazy.inputs[index], whole.inputs[index])
