import json

import pytest
import torch
from tiny_models import bert

from abstain import AbstainError, Recipe
from abstain.auditing.audit import audit
from abstain.data import load
from abstain.embed.backbones.names import backbone_named
from abstain.embed.embedding import embed
from abstain.embed.encoder import BackboneEncoder, load_any_encoder


@pytest.fixture
def texts(tmp_path, monkeypatch):
    monkeypatch.setenv("ABSTAIN_CACHE", str(tmp_path / "cache"))
    return load(([f"{'goal' if k % 2 else 'bank'} number {k}" for k in range(40)], [0, 1] * 20))


def test_features_are_standardised_as_those_of_the_training(texts):
    encoder = BackboneEncoder.fit(texts, backbone_named("small:wordllama", "text"))
    rows = encoder.encode(texts)
    assert rows.shape == (40, *encoder.input_shape)
    assert float(rows.mean(0).abs().max()) < 1e-3
    alone = encoder.encode_one(texts.inputs[3], ())
    torch.testing.assert_close(alone, rows[3], atol=2e-2, rtol=0)  # the cache holds half precision


def test_the_features_of_the_training_data_are_made_once(texts, monkeypatch):
    made = []

    def counted(data, backbone, **options):
        made.append(data.name)
        return embed(data, backbone, **options)

    monkeypatch.setattr("abstain.embed.embedding.embed", counted)
    found = audit(texts, Recipe.of("auto", epochs=2, backbone="small:wordllama"))
    assert {"near_duplicate", "outlier"} <= set(found.checks.issues)
    assert len(made) == 1
    encoder = found.trained.encoder
    assert encoder.features(found.trained.data) is encoder.embedding.features
    others = load((["another text", "and one more"] * 2, [0, 1] * 2))
    assert len(encoder.features(others)) == 4
    assert len(made) == 2


def test_a_saved_encoder_gives_the_same(texts, tmp_path):
    encoder = BackboneEncoder.fit(texts, backbone_named("small:wordllama", "text"), reason="named")
    encoder.save(tmp_path)
    again = load_any_encoder(tmp_path)
    assert isinstance(again, BackboneEncoder)
    assert again.reason == "named"
    torch.testing.assert_close(again.encode(texts), encoder.encode(texts))


def test_a_photo_backbone_is_restored_at_the_size_it_was_used_at(tmp_path, monkeypatch):
    monkeypatch.setenv("ABSTAIN_CACHE", str(tmp_path / "cache"))
    photos = load((torch.randint(0, 256, (4, 3, 32, 32), dtype=torch.uint8), [0, 1, 0, 1]))
    network = backbone_named("small:efficientnet-lite2", "image")
    encoder = BackboneEncoder.fit(photos, network)
    encoder.save(tmp_path)
    assert json.loads((tmp_path / "encoder.json").read_text())["size"] == 160
    assert load_any_encoder(tmp_path).backbone.identity == encoder.backbone.identity


def test_images_for_a_model_of_texts_are_refused(texts):
    encoder = BackboneEncoder.fit(texts, backbone_named("small:wordllama", "text"))
    with pytest.raises(AbstainError, match=r"must hold what the model was trained on \(text\)"):
        encoder.encode(load("digits"))


def test_why_a_backbone_is_not_there_any_more_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("ABSTAIN_CACHE", str(tmp_path / "cache"))
    data = load((["good film", "bad match"] * 4, [0, 1] * 4))
    BackboneEncoder.fit(data, backbone_named(f"hf:{bert(tmp_path / 'model')}", "text")).save(
        tmp_path
    )
    (tmp_path / "model").rename(tmp_path / "moved")
    with pytest.raises(AbstainError, match=r"backbone must name a folder that exists, got .*model"):
        load_any_encoder(tmp_path)
