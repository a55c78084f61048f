"""Trainings that see their inputs by a backbone: sources.py, train.py, finished_run.py."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from tiny_models import vit

from abstain import AbstainError, Recipe, audit, predict_from, train
from abstain.data.encoders.base import LazyEncoded
from abstain.embed import encoder
from abstain.embed.encoder import BackboneEncoder
from abstain.training.loop.batches import Batches

SHORT = Recipe(epochs=6, warm_up=1, batch=8, precision="fp32")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ABSTAIN_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def photos(tmp_path):
    """Two colours, in photos of several sizes."""
    rng = np.random.default_rng(0)
    for colour, base in (("green", (40, 180, 60)), ("red", (190, 50, 40))):
        (tmp_path / "photos" / colour).mkdir(parents=True)
        for number in range(12):
            shape = (20 + number % 3, 24, 3)
            pixels = np.clip(rng.normal(base, 25, shape), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / colour / f"{number}.png")
    return tmp_path / "photos"


@pytest.fixture
def reviews(tmp_path):
    rng = np.random.default_rng(0)
    words = {"sport": ["goal", "match", "team"], "money": ["stocks", "bank", "oil"]}
    lines = ["text,label"]
    for number in range(40):
        label = "sport" if number % 2 else "money"
        lines.append(f"{' '.join(rng.choice(words[label], 5))} {number},{label}")
    (tmp_path / "reviews.csv").write_text("\n".join(lines))
    return tmp_path / "reviews.csv"


@pytest.mark.parametrize(
    ("source", "backbone", "columns"),
    [("photos", "small:efficientnet-lite2", 1280), ("reviews", "small:wordllama", 256)],
)
def test_photos_and_texts_are_seen_by_a_backbone_and_predicted_again(
    request, tmp_path, source, backbone, columns
):
    source = request.getfixturevalue(source)
    trained = train(source, SHORT, folder=tmp_path / "run")
    assert trained.plan.backbone == backbone
    assert trained.plan.model == "mlp"
    assert trained.encoder.input_shape == (columns,)
    predictions = predict_from(tmp_path / "run", source, compare=True)
    assert (predictions.predicted == predictions.given).mean() > 0.9
    again = predict_from(trained, source, compare=True)
    np.testing.assert_allclose(predictions.confidence, again.confidence, atol=1e-5)


def test_an_audit_from_disk_gives_the_same_to_the_bit(reviews, monkeypatch):
    # As many texts as fill several shards, the last not whole.
    lines = reviews.read_text().splitlines()[1:]
    texts, labels = zip(*(line.split(",") for line in lines * 30), strict=True)
    source = ([f"{text} {k}" for k, text in enumerate(texts)], labels)
    found = {}
    for budget in (1 << 30, 0):
        monkeypatch.setattr(encoder, "MEMORY_BUDGET", budget)
        recipe = Recipe(epochs=2, warm_up=1, precision="fp32")
        found[budget] = audit(source, recipe, check=["labels"])
        inputs = found[budget].trained.encoder.encode(found[budget].data)
        assert isinstance(inputs, torch.Tensor if budget else LazyEncoded)
    memory, disk = found.values()
    weights = [x.trained.model.state_dict() for x in (memory, disk)]
    assert all(torch.equal(x, weights[1][name]) for name, x in weights[0].items())
    assert np.array_equal(memory.verdict.label_score, disk.verdict.label_score)
    assert np.array_equal(memory.probabilities, disk.probabilities)


def test_features_on_disk_are_read_without_further_processes(reviews, monkeypatch):
    monkeypatch.setattr(encoder, "MEMORY_BUDGET", 0)
    seen = []
    monkeypatch.setattr(
        "abstain.training.loop.batches.Batches",
        lambda **x: (seen.append(x["workers"]), Batches(**x))[1],
    )
    train(reviews, SHORT)
    assert set(seen) == {0}


def test_photos_keep_their_sizes_for_a_person_to_see(photos):
    trained = train(photos, SHORT)
    sizes = {tuple(trained.data.inputs[k].shape[1:]) for k in range(len(trained.data))}
    assert sizes == {(20, 24), (21, 24), (22, 24)}


def test_a_test_split_is_seen_by_the_same_backbone(photos, tmp_path):
    (tmp_path / "split").mkdir()
    photos.rename(tmp_path / "split" / "train")
    (tmp_path / "split" / "test").symlink_to(tmp_path / "split" / "train")
    trained = train(tmp_path / "split", SHORT)
    assert trained.test_accuracy > 0.9


def test_a_training_that_is_taken_up_again_gives_the_same(reviews, tmp_path):
    whole = train(reviews, SHORT, folder=tmp_path / "whole")
    train(reviews, SHORT, folder=tmp_path / "run")
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["plan"]["backbone"] == "small:wordllama"
    (tmp_path / "run" / "model.safetensors").unlink()
    resumed = train(folder=tmp_path / "run", resume=True)
    for name, weights in whole.model.state_dict().items():
        assert torch.equal(weights, resumed.model.state_dict()[name])


def test_a_named_model_learns_from_the_inputs_themselves(reviews):
    trained = train(reviews, Recipe(epochs=2, warm_up=1, batch=8, model="bag-of-words"))
    assert trained.plan.backbone == "none"
    assert not isinstance(trained.encoder, BackboneEncoder)


def test_weights_that_changed_since_are_refused(reviews, tmp_path):
    train(reviews, SHORT, folder=tmp_path / "run")
    path = tmp_path / "run" / "encoder.json"
    about = json.loads(path.read_text())
    path.write_text(json.dumps({**about, "identity": "small:wordllama-of-another-day"}))
    with pytest.raises(AbstainError, match="must find the backbone that it was trained with"):
        predict_from(tmp_path / "run", reviews)


@pytest.mark.parametrize("finetune", [False, True])
def test_a_backbone_that_was_moved_is_named_again_for_predictions(photos, tmp_path, finetune):
    folder = vit(tmp_path / "here")
    recipe = Recipe.of("auto", finetune=finetune, epochs=2, batch=8)
    train(photos, recipe, backbone=f"hf:{folder}", folder=tmp_path / "run")
    before = predict_from(tmp_path / "run", photos)
    folder.rename(tmp_path / "there")
    with pytest.raises(AbstainError, match=r"backbone must name a folder that exists, got .*here"):
        predict_from(tmp_path / "run", photos)
    moved = f"hf:{tmp_path / 'there'}"
    after = predict_from(tmp_path / "run", photos, backbone=moved)
    np.testing.assert_array_equal(after.confidence, before.confidence)
    weights = load_file(tmp_path / "there" / "model.safetensors")
    other = {name: x + 1 for name, x in weights.items()}
    save_file(other, tmp_path / "there" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(AbstainError, match="must find the backbone that it was trained with"):
        predict_from(tmp_path / "run", photos, backbone=moved)


def test_a_backbone_is_named_again_only_for_a_folder_that_has_one(photos, tmp_path):
    trained = train(photos, SHORT, backbone="none", folder=tmp_path / "run")
    with pytest.raises(AbstainError, match=r"backbone must be left out for .*, which has none"):
        predict_from(tmp_path / "run", photos, backbone="small:efficientnet-lite2")
    with pytest.raises(AbstainError, match="backbone must be left out for a run in memory"):
        predict_from(trained, photos, backbone="small:efficientnet-lite2")


def test_a_backbone_for_a_table_is_refused():
    table = (np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2)
    with pytest.raises(AbstainError, match="backbone must be left out for"):
        train(table, SHORT, backbone="small:wordllama")


def test_probabilities_of_an_audit_have_not_seen_the_labels(reviews):
    found = audit(reviews, SHORT)
    assert found.probabilities.shape == (40, 2)
    np.testing.assert_allclose(found.probabilities.sum(1), 1, atol=1e-5)
    given = found.data.given.numpy()
    assert (found.probabilities.argmax(1) == given).mean() > 0.9
    assert found.summary()["backbone"] == "small:wordllama"


def test_probabilities_need_features(photos):
    found = audit(photos, SHORT, backbone="none")
    with pytest.raises(AbstainError, match="probabilities need features"):
        found.probabilities  # noqa: B018


def test_augmentation_without_fine_tuning_is_answered_by_both_ways_out(photos):
    message = "got features of images; finetune=True trains .*, backbone='none' a network from"
    with pytest.raises(AbstainError, match=message):
        train(photos, Recipe(epochs=1, warm_up=0, augment=True))


def test_a_network_for_images_cannot_learn_from_features(photos):
    named = Recipe(epochs=1, warm_up=0, model="resnet18", backbone="small:efficientnet-lite2")
    with pytest.raises(AbstainError, match="use mlp for tables and features of a backbone"):
        train(photos, named)
