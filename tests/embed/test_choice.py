import re

import numpy as np
import pytest
import torch
from tickets import tickets

from abstain.data import load
from abstain.embed.backbones.small import SMALL
from abstain.embed.choice import choose, plain_ground


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    """Hide what this machine has in its caches."""
    monkeypatch.setenv("ABSTAIN_CACHE", str(tmp_path / "features"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))


def test_digits_are_learnt_from_scratch():
    choice = choose(load("digits"))
    assert choice.name == "none"
    assert "grey drawings on a plain background" in choice.reason


def test_grey_photos_are_seen_by_a_backbone_however_small():
    photos = torch.randint(0, 256, (20, 1, 28, 28), dtype=torch.uint8)
    assert choose(load((photos, np.arange(20) % 2))).name == "small:efficientnet-lite2"


def test_the_ground_of_an_image_is_its_most_frequent_value():
    images = torch.randint(1, 256, (9, 1, 20, 20), dtype=torch.uint8)
    images[:, :, :12] = 7  # 60%, and by chance a little of the rest
    assert plain_ground(load((images, np.arange(9) % 2))) == pytest.approx(0.6, abs=0.02)


def test_photos_are_seen_by_the_network_that_is_installed():
    photos = torch.randint(0, 256, (20, 3, 32, 32), dtype=torch.uint8)
    choice = choose(load((photos, np.arange(20) % 2)))
    assert choice.name == "small:efficientnet-lite2"


@pytest.mark.parametrize(
    ("images", "why"),
    [
        (255 * torch.rand(20, 3, 32, 32), r"numbers from 0 to 1, got \S+ to 2\d\d"),
        (torch.randint(0, 256, (20, 3, 32, 32)), "numbers from 0 to 1"),
        (torch.randn(20, 3, 32, 32), "numbers from 0 to 1"),
        (torch.zeros(20, 4, 32, 32, dtype=torch.uint8), "grey or in colour"),
    ],
)
def test_images_that_no_backbone_takes_are_learnt_from_scratch_and_it_is_said(images, why, caplog):
    choice = choose(load((images, np.arange(20) % 2)))
    assert choice.name == "none"
    assert re.search(why, choice.reason)
    assert "arrays is trained from scratch: for a backbone, images must be" in caplog.text


def test_images_from_0_to_1_are_seen_by_a_backbone():
    choice = choose(load((torch.rand(20, 3, 32, 32), np.arange(20) % 2)))
    assert choice.name == "small:efficientnet-lite2"


def test_tables_need_no_backbone():
    assert choose(load((np.zeros((20, 3)), np.arange(20) % 2))).name == "none"


def test_of_two_text_encoders_the_one_that_meets_held_out_labels_is_chosen(monkeypatch, tmp_path):
    monkeypatch.setenv("ABSTAIN_CACHE", str(tmp_path))
    texts = [f"the {'film' if k % 2 else 'match'} was {k % 7} long" for k in range(60)]
    choice = choose(load((texts, np.arange(60) % 2)))
    assert choice.name.startswith("small:")
    assert "held-out labels" in choice.reason or "only one" in choice.reason


def test_where_none_is_installed_the_line_to_install_one_is_given(monkeypatch, caplog):
    monkeypatch.setattr("abstain.embed.choice.SMALL", {})
    choice = choose(load((["a text", "another"] * 10, np.arange(20) % 2)))
    assert choice.name == "none"
    assert "pip install 'abstain[small]'" in caplog.text


def test_texts_of_a_table_have_a_backbone(monkeypatch, tmp_path):
    monkeypatch.setenv("ABSTAIN_CACHE", str(tmp_path))
    assert choose(load(tickets())).name.startswith("small:")
    second = {**SMALL, "other": SMALL["wordllama"], "wordllama": SMALL["wordllama"]}
    monkeypatch.setattr("abstain.embed.choice.SMALL", second)
    monkeypatch.setattr("abstain.embed.backbones.names.SMALL", second)
    choice = choose(load(tickets()))
    assert "held-out labels" in choice.reason
    assert float(choice.reason.split("small:wordllama ")[1].split("%")[0]) > 80


@pytest.mark.parametrize(("seconds", "samples"), [(0.005, 5_000), (0.007, 1_024)])
def test_fewer_samples_are_probed_where_features_take_long(seconds, samples, monkeypatch):
    two = {"one": SMALL["wordllama"], "other": SMALL["wordllama"]}
    monkeypatch.setattr("abstain.embed.choice.SMALL", two)
    monkeypatch.setattr("abstain.embed.backbones.names.SMALL", two)
    monkeypatch.setattr("abstain.embed.choice.seconds_to_embed", lambda x, _: seconds * len(x))
    probed = []

    def agreement(parts, backbone):
        probed.append(len(parts[0]))
        return 0.5

    monkeypatch.setattr("abstain.embed.choice._agreement", agreement)
    choose(load(([f"text {k}" for k in range(6_000)], np.arange(6_000) % 2)), budget=60)
    assert probed == [samples] * 2
