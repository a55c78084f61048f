"""A backbone that is trained too: moved, saved with the run, and refused where it cannot be."""

import json
import pickle
import signal
from dataclasses import replace

import numpy as np
import pytest
import small_runs as small
import torch
from tiny_models import bert

from abstain.auditing.audit import audit
from abstain.data import LabeledData, load
from abstain.data.encoders.base import LazyEncoded
from abstain.embed import finetuning
from abstain.embed.backbones.base import ImageBackbone, TextBackbone
from abstain.embed.backbones.names import backbone_named
from abstain.embed.encoder import load_any_encoder
from abstain.embed.finetuning import FineTuned, FineTuningEncoder
from abstain.errors import AbstainError
from abstain.predicting.predict import predict_from
from abstain.training.loop.loop import Loop
from abstain.training.plan import Plan
from abstain.training.processes import Interrupted
from abstain.training.recipe import plan_of
from abstain.training.saving.run_folder import RunFolder
from abstain.training.train import train

NETWORK = """
import torch

class Net(torch.nn.Module):
    # the same weights each time, as pretrained ones are; one layer has no use
    size = 8

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(7)
            self.convolution = torch.nn.Conv2d(3, 6, 3, stride=2)
            self.norm = torch.nn.BatchNorm2d(6)
            self.unused = torch.nn.Linear(6, 1000)

    def forward(self, images):
        return self.norm(self.convolution(images)).relu().mean((2, 3))
"""


@pytest.fixture
def backbone(tmp_path):
    path = tmp_path / "pretrained.py"
    path.write_text(NETWORK)
    return f"{path}:Net"


@pytest.fixture
def source(tmp_path):
    """Red, green and blue pictures in folders, of two sizes."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for number in range(45):
        colour = number % 3
        size = (12, 12) if number % 2 else (16, 10)
        pixels = rng.integers(0, 120, (*size, 3), dtype=np.uint8)
        pixels[..., colour] += 100
        place = tmp_path / "photos" / ("red", "green", "blue")[colour]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(place / f"{number:02}.png")
    return tmp_path / "photos"


def recipe(**changes):
    settings = {"epochs": 3, "batch": 8, "precision": "fp32"}
    return plan_of("auto", finetune=True, **{**settings, **changes})


def images(count=20, channels=3, side=10):
    data = torch.randint(0, 256, (count, channels, side, side), dtype=torch.uint8)
    return LabeledData(
        inputs=data,
        given=torch.arange(count) % 2,
        classes=("a", "b"),
        ids=[str(k) for k in range(count)],
        kind="image",
    )


def convolutions(size=224, **settings):
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
    )
    return ImageBackbone("mine", "mine-1", network, size, **settings)


def test_processes_that_read_images_are_given_no_weights(source, backbone, monkeypatch):
    monkeypatch.setattr(finetuning, "MEMORY_BUDGET", 0)
    data = load(source, own_size=True)
    encoder = FineTuningEncoder.fit(data, backbone_named(backbone, "image"))
    lazy = encoder.encode(data)
    again = pickle.loads(pickle.dumps(lazy))  # as where processes are not forked
    assert torch.equal(again.as_tensor([3, 1]), lazy.as_tensor([3, 1]))
    assert not list(again.encoder.network.parameters())


@pytest.mark.parametrize("side", [6, 16])
def test_images_of_a_list_are_seen_as_those_of_a_tensor(side):
    data = images(4, 1, side)
    data = replace(data, inputs=data.inputs / 255)
    encoder = FineTuningEncoder.fit(data, convolutions(10, mean=(0, 0, 0), std=(1, 1, 1)))
    tensor, listed = (
        encoder.to_model(encoder.encode(replace(data, inputs=inputs))[:])
        for inputs in (data.inputs, list(data.inputs))
    )
    torch.testing.assert_close(listed, tensor)


def test_the_backbone_moves_and_the_pretrained_one_stays(source, backbone):
    trained = train(source, recipe(), backbone=backbone)
    before = trained.encoder.backbone.network.convolution.weight
    after = trained.model.network.convolution.weight
    assert not torch.equal(before, after)
    assert torch.equal(trained.encoder.model(4, seed=0).network.convolution.weight, before)
    assert trained.plan.model == backbone
    assert isinstance(trained.plan.augment, tuple)
    assert len(trained.ledger.evidence) == len(trained.data)


def test_a_saved_model_predicts_the_same(source, backbone, tmp_path):
    trained = train(source, recipe(), backbone=backbone, folder=tmp_path / "run")
    now = predict_from(trained, source)
    later = predict_from(tmp_path / "run", source)
    np.testing.assert_array_equal(now.predicted, later.predicted)
    np.testing.assert_allclose(now.confidence, later.confidence, atol=1e-6)
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["plan"]["finetune"]
    assert tuple(about["plan"]["augment"]) == trained.plan.augment


def test_an_interrupted_run_ends_with_the_same_bits(source, backbone, tmp_path, monkeypatch):
    # Named, so that crops and erasing are drawn in every batch.
    changes = recipe(augment=("crop", "mirror", "erase"))
    assert_resumed_to_the_bit(source, changes, backbone, tmp_path / "run", monkeypatch)


def assert_resumed_to_the_bit(source, changes, backbone, folder, monkeypatch):
    whole = train(source, changes, backbone=backbone)
    original = Loop._step

    def interrupt(loop, batch):
        original(loop, batch)
        if loop.position.step == 6:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "_step", interrupt)
        with pytest.raises(Interrupted):
            train(source, changes, backbone=backbone, folder=folder)
    resumed = train(folder=folder, resume=True)
    assert resumed.plan == whole.plan
    small.assert_same_weights(whole.model.state_dict(), resumed.model.state_dict())


def test_a_run_is_resumed_and_repeated_where_the_backbone_has_a_relative_path(
    source, backbone, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    first = train(source, recipe(), backbone="pretrained.py:Net", folder="run")
    again = train(folder="run", resume=True)
    repeated = train(source, Plan.from_json(RunFolder("run").metadata()["plan"]))
    for other in (again, repeated):
        small.assert_same_weights(first.model.state_dict(), other.model.state_dict())


def test_an_audit_trains_all_epochs(source, backbone):
    found = audit(source, recipe(flip=0.2), backbone=backbone)
    assert found.trained.plan.stop == "never"
    assert len(found.trained.history.epochs) == 3
    assert "fine-tuned" in found.trained.encoder.backbone_used


def test_probabilities_of_a_fine_tuned_audit_are_by_the_backbone_as_it_was(source, backbone):
    tuned = audit(source, recipe(), backbone=backbone)
    frozen = audit(source, Plan(epochs=2, warm_up=1, batch=8), backbone=backbone)
    assert tuned.probabilities.shape == (45, 3)
    np.testing.assert_allclose(tuned.probabilities, frozen.probabilities, atol=0.02)


def test_images_in_memory_keep_their_size_and_are_scaled_on_the_device():
    data = images(side=32)
    encoder = FineTuningEncoder.fit(data, convolutions(any_size=True))
    assert encoder.input_shape == (3, 128, 128)
    encoded = encoder.encode(data)
    assert encoded.data_ptr() == data.inputs.data_ptr()
    pixels = torch.nn.functional.interpolate(
        data.inputs[:2].double() / 255, (128, 128), mode="bicubic"
    ).clamp(0, 1)
    mean, std = torch.tensor([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])[:, :, None, None]
    expected = ((pixels - mean) / std).float()
    torch.testing.assert_close(encoder.to_model(encoded[:2]), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("side", "size", "any_size", "seen"),
    [(64, 224, True, 128), (65, 224, True, 224), (32, 224, False, 224), (32, 96, True, 96)],
)
def test_small_images_are_seen_at_fewer_pixels_by_what_takes_them(side, size, any_size, seen):
    encoder = FineTuningEncoder.fit(images(2, side=side), convolutions(size, any_size=any_size))
    assert encoder.backbone.size == seen


def test_files_are_decoded_once_at_the_size_of_the_backbone(source, backbone, monkeypatch):
    data = load(source, own_size=True)
    encoder = FineTuningEncoder.fit(data, backbone_named(backbone, "image"))
    decoded = encoder.encode(data)
    assert decoded.shape == (45, 3, 8, 8)
    assert decoded.dtype == torch.uint8
    monkeypatch.setattr(finetuning, "MEMORY_BUDGET", 100)
    lazy = encoder.encode(data)
    assert not isinstance(lazy, torch.Tensor)
    assert torch.equal(torch.stack([lazy[k] for k in range(45)]), decoded)


def test_grey_images_are_seen_in_colour():
    data = images(4, channels=1)
    encoder = FineTuningEncoder.fit(data, convolutions(16))
    seen = encoder.to_model(encoder.encode(data))
    assert seen.shape == (4, 3, 16, 16)
    with pytest.raises(AbstainError, match="images must be grey or in colour"):
        encoder.encode(torch.zeros(2, 4, 8, 8))


def test_an_encoder_is_restored_only_with_the_weights_that_it_had(backbone, tmp_path):
    data = images()
    FineTuningEncoder.fit(data, backbone_named(backbone, "image")).save(tmp_path)
    assert load_any_encoder(tmp_path).backbone.size == 8
    path = tmp_path / "pretrained.py"
    path.write_text(NETWORK.replace("manual_seed(7)", "manual_seed(8)"))
    with pytest.raises(AbstainError, match="must find the backbone that it was trained with"):
        load_any_encoder(tmp_path)


def test_what_gives_no_feature_is_not_trained(backbone):
    encoder = FineTuningEncoder.fit(images(), backbone_named(backbone, "image"))
    model = encoder.model(3, seed=1)
    moves = {name for name, weight in model.named_parameters() if weight.requires_grad}
    assert moves == {
        *("network.convolution.weight", "network.convolution.bias", "network.norm.weight"),
        *("network.norm.bias", "head.weight", "head.bias"),
    }
    assert torch.equal(model.head.weight, encoder.model(3, seed=1).head.weight)
    assert not torch.equal(model.head.weight, encoder.model(3, seed=2).head.weight)
    assert all(weight.grad is None for weight in model.parameters())


def test_tables_and_networks_without_weights_are_refused():
    words = TextBackbone("words", "words-1", lambda texts, device: torch.zeros(len(texts), 2))
    with pytest.raises(AbstainError, match="finetune must be left out for words, which is no"):
        FineTuningEncoder.fit(load((["a", "b"] * 2, [0, 1] * 2)), words)
    table = load((torch.rand(4, 3), [0, 1] * 2))
    with pytest.raises(AbstainError, match=r"finetune must be left out for .* got a table"):
        FineTuningEncoder.fit(table, words)
    session = ImageBackbone("onnx:net", "net-1", torch.nn.Identity(), 8)
    with pytest.raises(AbstainError, match="finetune must be left out for onnx:net"):
        FineTuningEncoder.fit(images(), session)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"recipe": recipe(model="mlp")}, "finetune must be left out where a model is given"),
        ({"recipe": recipe(), "backbone": "none"}, "finetune needs a backbone, got none"),
        ({"recipe": plan_of("nll"), "finetune": True}, "finetune must be set in the recipe"),
        ({"recipe": plan_of("nll", augment=True), "backbone": "MINE"}, "augment must be left"),
        ({"recipe": recipe(augment=("flip",)), "backbone": "MINE"}, "augment must name some of"),
    ],
)
def test_what_contradicts_itself_is_refused(source, backbone, arguments, reason):
    if arguments.get("backbone") == "MINE":
        arguments = {**arguments, "backbone": backbone}
    with pytest.raises(AbstainError, match=reason):
        train(source, **arguments)


def test_a_finished_run_is_opened_without_its_own_seed(source, backbone, tmp_path):
    train(source, recipe(seed_init=5), backbone=backbone, folder=tmp_path / "run")
    model, encoder, classes = RunFolder(tmp_path / "run").load_model()
    assert isinstance(model, FineTuned)
    assert classes == ("blue", "green", "red")
    assert encoder.input_shape == (3, 8, 8)


# ── Texts ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(params=["hf", "st"])
def encoder_of_texts(request, tmp_path):
    return f"{request.param}:{bert(tmp_path / 'bert')}"


def reviews(count=48):
    """Films and matches, of which some are longer than the window of 16 tokens."""
    rng = np.random.default_rng(0)
    labels = np.arange(count) % 2
    texts = [
        " ".join(rng.choice([("good", "film"), ("match", "goal")][label], rng.integers(2, 30)))
        for label in labels
    ]
    return texts, np.array(["film", "sport"])[labels]


def test_a_text_encoder_moves_and_predicts_the_same_once_saved(encoder_of_texts, tmp_path, caplog):
    data = load(reviews())
    trained = train(data, recipe(epochs=4), backbone=encoder_of_texts, folder=tmp_path / "run")
    assert "longer than the window" in caplog.text
    before = trained.encoder.network.state_dict()
    after = trained.model.network.state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name].cpu())}
    assert any("query" in name for name in moved)
    assert not any("pooler" in name for name in moved)  # features do not use it
    assert trained.plan.augment == ()
    assert trained.encoder.backbone_used == f"{encoder_of_texts}, fine-tuned, named"
    texts = reviews()[0]
    here, there = predict_from(trained, texts), predict_from(tmp_path / "run", texts)
    assert here.predicted.tolist() == there.predicted.tolist()
    np.testing.assert_array_equal(here.confidence, there.confidence)


def test_tokens_of_many_texts_are_made_without_further_processes(
    encoder_of_texts, tmp_path, monkeypatch
):
    """Which would have to be given the tokenizer, and stop its threads."""
    monkeypatch.setattr(finetuning, "MEMORY_BUDGET", 0)
    monkeypatch.setattr("torch.utils.data.dataloader._MultiProcessingDataLoaderIter", None)
    trained = train(load(reviews()), recipe(epochs=1), backbone=encoder_of_texts)
    assert isinstance(trained.encoder.encode(trained.data), LazyEncoded)
    predict_from(trained, reviews()[0] * 100)


def test_a_transformer_trains_on_the_features_that_it_has_when_frozen(encoder_of_texts):
    data = load(["good film", "bad", "match goal film bad good"], labelled=False)
    backbone = backbone_named(encoder_of_texts, "text")
    encoder = FineTuningEncoder.fit(data, backbone)
    tokens = encoder.encode(data)
    assert tokens.dtype == torch.int32
    assert tokens[1].tolist() == [2, 5, 3, -1, -1, -1, -1]
    with torch.inference_mode():
        features = encoder.network.eval()(encoder.to_model(tokens))
    expected = backbone.features(data.inputs, torch.device("cpu"))
    torch.testing.assert_close(features, expected)


def test_a_batch_is_as_long_as_its_longest_text(encoder_of_texts):
    encoder = FineTuningEncoder.fit(load(reviews()), backbone_named(encoder_of_texts, "text"))
    tokens = encoder.encode(["good film good film good", "bad", "good film"])
    assert tokens.shape == (3, 7)
    assert encoder.to_model(tokens[1:]).tolist() == [[2, 5, 3, -1], [2, 4, 6, 3]]
    assert encoder.encode([]).shape == (0, 1)


def test_a_text_without_a_token_has_features(tmp_path):
    folder = bert(tmp_path)
    about = json.loads((folder / "tokenizer.json").read_text())
    about["post_processor"] = None
    (folder / "tokenizer.json").write_text(json.dumps(about))
    data = load(["", "good film"], labelled=False)
    backbone = backbone_named(f"hf:{folder}", "text")
    assert backbone.features(data.inputs, torch.device("cpu")).isfinite().all()
    encoder = FineTuningEncoder.fit(data, backbone)
    assert encoder.encode(data).tolist() == [[0, -1], [4, 6]]
    assert encoder.network(encoder.to_model(encoder.encode([""]))).isfinite().all()


def test_a_checkpoint_of_half_precision_is_trained_in_full(tmp_path):
    from transformers import BertModel

    folder = bert(tmp_path)
    BertModel.from_pretrained(folder).half().save_pretrained(folder)
    backbone = backbone_named(f"hf:{folder}", "text")
    model = FineTuningEncoder.fit(load(reviews()), backbone).model(3, seed=0)
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}


def test_tokens_that_do_not_fit_into_memory_are_made_for_each_batch(
    encoder_of_texts, tmp_path, monkeypatch
):
    kept = train(reviews(), recipe(), backbone=encoder_of_texts)
    monkeypatch.setattr(finetuning, "MEMORY_BUDGET", 100)
    lazy = train(reviews(), recipe(), backbone=encoder_of_texts)
    for name, weight in kept.model.state_dict().items():
        assert torch.equal(weight, lazy.model.state_dict()[name])


def test_an_interrupted_run_of_texts_ends_with_the_same_bits(
    encoder_of_texts, tmp_path, monkeypatch
):
    table = tmp_path / "reviews.csv"
    rows = [f"{text},{label}\n" for text, label in zip(*reviews(), strict=True)]
    table.write_text("".join(["text,label\n", *rows]))
    assert_resumed_to_the_bit(table, recipe(), encoder_of_texts, tmp_path / "run", monkeypatch)


def test_an_audit_of_fine_tuned_texts_knows_their_frozen_features(encoder_of_texts):
    texts, labels = reviews()
    found = audit((texts, labels), recipe(), backbone=encoder_of_texts)
    assert found.probabilities.shape == (48, 2)
    assert "outlier" in found.checks.issues
    assert found.summary()["backbone"] == encoder_of_texts


def test_fine_tuning_of_texts_is_not_tried_unasked(encoder_of_texts):
    trained = train(reviews(), plan_of("auto", epochs=3), backbone=encoder_of_texts, budget="1h")
    assert trained.finetuning is None
    assert trained.encoder.sees == "table"


def test_texts_are_not_augmented(encoder_of_texts):
    with pytest.raises(AbstainError, match="augment must be left out"):
        train(reviews(), recipe(augment=True), backbone=encoder_of_texts)


@pytest.mark.gpu
def test_a_gpu_trains_a_text_encoder(encoder_of_texts, tmp_path):
    trained = train(
        reviews(), recipe(precision="auto"), backbone=encoder_of_texts, folder=tmp_path / "run"
    )
    assert trained.plan.precision == "bf16"
    texts = reviews()[0]
    here, there = predict_from(trained, texts), predict_from(tmp_path / "run", texts)
    np.testing.assert_allclose(here.confidence, there.confidence, atol=1e-6)  # rounding of a GPU
    assert np.isfinite(here.confidence).all()
