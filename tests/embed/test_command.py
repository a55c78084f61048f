"""Tests of command.py; what its user sees is in tests/cli/test_embed_command.py."""

import json

import numpy as np
import pytest

from abstain import AbstainError
from abstain.data import inputs, load
from abstain.embed.backbones.names import backbone_named
from abstain.embed.command import write_features
from abstain.embed.embedding import embed
from abstain.embed.store.shards import Features


def test_what_was_made_is_said_beside_the_features(tmp_path, monkeypatch):
    monkeypatch.setenv("ABSTAIN_CACHE", str(tmp_path / "cache"))
    source = ([f"text {k}" for k in range(10)], [0, 1] * 5)
    about = write_features(source, "small:wordllama", tmp_path / "out")
    assert json.loads((tmp_path / "out" / "features.json").read_text()) == about
    assert np.load(tmp_path / "out" / "features.npy").shape == (10, about["columns"])
    assert about["made"] == 10


def test_numbers_have_no_features_by_a_backbone(tmp_path):
    with pytest.raises(AbstainError, match="source must hold images or texts"):
        write_features((np.zeros((10, 2)), [0, 1] * 5), "auto", tmp_path / "out")


@pytest.mark.parametrize("features", [np.zeros((10, 2)), "clip.npy"])
def test_features_of_features_are_not_made(tmp_path, features):
    source = ([f"text {k}" for k in range(10)], [0, 1] * 5)
    with pytest.raises(AbstainError, match="features must be a column of images or texts"):
        write_features(source, "small:wordllama", tmp_path / "out", features=features)


def test_features_are_written_as_numpy_does_but_never_all_in_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("ABSTAIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(inputs, "BLOCK", 300)
    source = ([f"text {k}" for k in range(1100)], [0, 1] * 550)
    with monkeypatch.context() as patch:
        patch.setattr(Features, "in_memory", None)
        write_features(source, "small:wordllama", tmp_path / "out")
    rows = embed(load(source), backbone_named("small:wordllama", "text")).in_memory()
    np.save(tmp_path / "expected.npy", rows.numpy())
    written, expected = tmp_path / "out" / "features.npy", tmp_path / "expected.npy"
    assert written.read_bytes() == expected.read_bytes()
