"""Models in a cache of the hub: found by their files, opened without the network, chosen."""

import json
import logging
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import bert, vit

from abstain.data import load
from abstain.embed.backbones import cached
from abstain.embed.backbones.cached import cached_folder, cached_models, weights_in
from abstain.embed.backbones.names import backbone_named
from abstain.embed.choice import choose
from abstain.errors import AbstainError


@pytest.fixture(autouse=True)
def hub(tmp_path, monkeypatch):
    """An empty cache of the hub, and no way to the hub."""
    monkeypatch.setenv("ABSTAIN_CACHE", str(tmp_path / "features"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    return tmp_path / "hub"


def keep(hub, name, save):
    """A model in the layout of the hub's cache."""
    place = hub / f"models--{name.replace('/', '--')}"
    folder = place / "snapshots" / ("0" * 39 + "1")
    folder.mkdir(parents=True)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(folder.name)
    save(folder)
    return folder


def sentences(folder):
    """An untrained model of sentence-transformers."""
    library = pytest.importorskip("sentence_transformers")
    plain = bert(folder.parents[3] / "bert")
    library.SentenceTransformer(str(plain), device="cpu").save(str(folder))


def seeing_colours(folder):
    """A vision transformer whose class token takes in the mean colour of each patch, magnified."""
    vit(folder)
    weights = load_file(folder / "model.safetensors")
    generator = torch.Generator().manual_seed(0)
    for name, x in weights.items():
        if "patch_embeddings.projection.weight" in name:
            colour = torch.randn(x.shape[0], 3, 1, 1, generator=generator)
            weights[name] = colour.expand_as(x).contiguous() / 64
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def colours(count=60, size=16):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 60, (count, 3, size, size))
    for k in range(count):
        pixels[k, k % 3] += 150
    return load((torch.from_numpy(pixels.astype(np.uint8)), np.arange(count) % 3))


def test_encoders_are_found_by_their_files(hub):
    keep(hub, "me/eyes", vit)
    keep(hub, "me/words", bert)  # a plain language model is none of either
    keep(hub, "me/sentences", sentences)
    assert cached_models("image") == ["hf:me/eyes"]
    assert cached_models("text") == ["st:me/sentences"]


def test_what_is_too_large_broken_or_has_code_of_its_own_is_left_out(hub, monkeypatch):
    eyes = keep(hub, "me/eyes", vit)
    count = sum(x.numel() for x in load_file(eyes / "model.safetensors").values())
    assert weights_in(eyes) == count
    assert cached_models("image") == ["hf:me/eyes"]
    with monkeypatch.context() as patch:
        patch.setattr(cached, "MOST_WEIGHTS", count - 1)
        assert cached_models("image") == []
    code = keep(hub, "me/code", vit)
    config = json.loads((code / "config.json").read_text())
    (code / "config.json").write_text(json.dumps({**config, "auto_map": {"AutoModel": "x.Y"}}))
    cut = keep(hub, "me/cut", vit)
    (cut / "model.safetensors").write_bytes((eyes / "model.safetensors").read_bytes()[:100])
    sound = keep(hub, "me/sound", vit)
    (sound / "preprocessor_config.json").write_text('{"sampling_rate": 16000}')
    assert cached_models("image") == ["hf:me/eyes"]


@pytest.mark.parametrize("number", [0, 1])
def test_code_that_comes_with_sentence_transformers_is_not_run(hub, number):
    folder = keep(hub, "me/sentences", sentences)
    file = folder / "modules.json"
    modules = json.loads(file.read_text())
    modules[number]["type"] = "mine.Transformer"
    file.write_text(json.dumps(modules))
    (folder / "mine.py").write_text("raise SystemExit('run')")
    assert cached_models("text") == []
    with pytest.raises(AbstainError, match=r"backbone must have modules .* has mine\.Transformer$"):
        backbone_named("st:me/sentences", "text")


def test_without_a_cache_there_is_nothing(hub):
    assert cached_models("image") == []
    assert cached_folder("me/eyes") is None


def test_a_model_whose_weights_never_arrived_is_fetched_again(hub):
    folder = keep(hub, "me/eyes", vit)
    (folder / "model.safetensors").unlink()
    assert cached_folder("me/eyes") is None


def test_a_cached_model_is_opened_without_the_network(hub):
    folder = keep(hub, "me/eyes", vit)
    assert cached_folder("me/eyes") == folder
    named, in_folder = (backbone_named(f"hf:{x}", "image") for x in ("me/eyes", folder))
    images = torch.randint(0, 256, (4, 3, 16, 16), dtype=torch.uint8)
    device = torch.device("cpu")
    assert torch.equal(named.features(images, device), in_folder.features(images, device))


def test_a_text_encoder_is_known_by_its_weights_wherever_it_lies(hub, tmp_path):
    folder = keep(hub, "me/words", bert)
    copy = shutil.copytree(folder, tmp_path / "copy")
    named, copied = (backbone_named(f"hf:{x}", "text") for x in ("me/words", copy))
    assert named.identity.removeprefix(named.name) == copied.identity.removeprefix(copied.name)


def test_auto_takes_the_cached_model_that_agrees_best_and_says_why(hub, monkeypatch):
    monkeypatch.setattr("abstain.embed.choice.SMALL", {})
    keep(hub, "me/blind", vit)
    keep(hub, "me/eyes", seeing_colours)
    blind = hub / "models--me--blind/snapshots" / ("0" * 39 + "1") / "model.safetensors"
    dark = {name: torch.zeros_like(x) for name, x in load_file(blind).items()}
    save_file(dark, blind, metadata={"format": "pt"})
    choice = choose(colours())
    assert choice.name == "hf:me/eyes"
    assert "agrees best with held-out labels" in choice.reason
    assert "hf:me/blind" in choice.reason


def test_a_single_cached_model_is_taken_without_a_probe(hub, monkeypatch):
    monkeypatch.setattr("abstain.embed.choice.SMALL", {})
    keep(hub, "me/eyes", vit)
    assert choose(colours()).name == "hf:me/eyes"
    assert choose(colours()).reason == "the only one on this machine"


def test_what_takes_longer_than_the_budget_is_left_out_and_named(hub):
    # EfficientNet-Lite2 takes a thousand times as long as a transformer of one small layer.
    keep(hub, "me/eyes", vit)
    choice = choose(colours(), budget=0.001)
    assert choice.name == "hf:me/eyes"
    assert "small:efficientnet-lite2 left out: it takes" in choice.reason


def test_a_cached_model_that_cannot_be_opened_is_left_out(hub, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr("abstain.embed.choice.SMALL", {})
    keep(hub, "me/eyes", vit)
    broken = keep(hub, "me/broken", vit)
    (broken / "config.json").write_text('{"model_type": "no-such-model"}')
    assert choose(colours()).name == "hf:me/eyes"
    assert "hf:me/broken" in caplog.text


def test_texts_are_seen_by_a_cached_sentence_encoder(hub, monkeypatch):
    monkeypatch.setattr("abstain.embed.choice.SMALL", {})
    keep(hub, "me/sentences", sentences)
    texts = [f"{'good film' if k % 2 else 'bad match'} {k}" for k in range(40)]
    assert choose(load((texts, np.arange(40) % 2))).name == "st:me/sentences"
