"""Tests of command.py; what its user sees is in tests/cli/test_embed_command.py."""

import json

import numpy as np
import pytest

from abstain import AbstainError
from abstain.embed.command import write_features


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
