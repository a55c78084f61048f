"""Tests of names.py, and by way of it of each library.

These are timm.py, transformers.py, sentence_transformers.py and open_clip.py, and what they share,
opening.py.
"""

import json
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import bert, vit

from abstain.embed.backbones import open_clip as ours
from abstain.embed.backbones.names import backbone_named, check_name, found_from_anywhere
from abstain.embed.backbones.small import SMALL
from abstain.errors import AbstainError

CPU = torch.device("cpu")


@pytest.mark.parametrize("name", ["resnet50", "tim:resnet50", "timm:", "", None, 3])
def test_what_names_no_backbone_is_refused_with_all_forms(name):
    with pytest.raises(AbstainError, match="backbone must be small:NAME, timm:NAME"):
        check_name(name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("efficientnet-lite2", "small:efficientnet-lite2"),
        ("smal:wordllama", "small:wordllama"),
        ("tim:resnet50", "timm:resnet50"),
    ],
)
def test_a_misspelt_library_is_answered_by_the_nearest(name, meant):
    with pytest.raises(AbstainError, match=f"got '{name}'; did you mean {meant}\\?$"):
        check_name(name)


def test_a_backbone_for_another_kind_is_refused():
    with pytest.raises(AbstainError, match="backbone must be one for images"):
        backbone_named("small:wordllama", "image")


def test_an_image_encoder_of_transformers_sees_what_transformers_would(tmp_path):
    from transformers import ViTModel

    backbone = backbone_named(f"hf:{vit(tmp_path)}", "image")
    assert backbone.size == 16
    image = torch.randint(0, 256, (2, 3, 16, 16), dtype=torch.uint8)
    with torch.inference_mode():
        network = ViTModel.from_pretrained(tmp_path).eval()
        expected = network(pixel_values=(image / 255 - 0.5) / 0.5).last_hidden_state[:, 0]
    torch.testing.assert_close(backbone.features(image, CPU), expected, atol=1e-4, rtol=1e-4)


def test_images_have_the_size_to_which_transformers_would_cut_them(tmp_path):
    file = vit(tmp_path) / "preprocessor_config.json"
    about = json.loads(file.read_text())
    file.write_text(json.dumps(about | {"size": {"shortest_edge": 20}, "crop_size": 16}))
    assert backbone_named(f"hf:{tmp_path}", "image").size == 16


def test_a_text_encoder_of_transformers_averages_the_words_that_are_there(tmp_path):
    from transformers import AutoTokenizer, BertModel

    backbone = backbone_named(f"hf:{bert(tmp_path)}", "text")
    texts = ["good film", "a goal in the last minute of the match"]
    tokenizer, network = (
        AutoTokenizer.from_pretrained(tmp_path),
        BertModel.from_pretrained(tmp_path),
    )
    with torch.inference_mode():
        alone = [
            network.eval()(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0)
            for text in texts
        ]
    features = backbone.features(texts, CPU)
    torch.testing.assert_close(features, torch.stack(alone), atol=1e-5, rtol=1e-4)


def without_pooler(folder):
    """As in the checkpoint of a classifier: transformers then draws one at random."""
    file = folder / "model.safetensors"
    weights = {name: x for name, x in load_file(file).items() if "pooler" not in name}
    save_file(weights, file, metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize(
    ("library", "kind", "folder"),
    [("hf", "image", vit), ("hf", "text", bert), ("st", "text", bert)],
)
def test_weights_that_a_checkpoint_lacks_make_no_other_backbone_of_it(
    tmp_path, library, kind, folder
):
    name = f"{library}:{without_pooler(folder(tmp_path))}"
    first = backbone_named(name, kind)
    assert backbone_named(name, kind).identity == first.identity
    file = tmp_path / "model.safetensors"
    save_file({k: x + 1 for k, x in load_file(file).items()}, file, metadata={"format": "pt"})
    assert backbone_named(name, kind).identity != first.identity


@pytest.mark.parametrize("library", ["hf", "st"])
def test_another_tokenizer_of_the_same_weights_makes_another_backbone(tmp_path, library):
    name = f"{library}:{bert(tmp_path)}"
    first = backbone_named(name, "text")
    assert backbone_named(name, "text").identity == first.identity
    file = tmp_path / "tokenizer.json"
    about = json.loads(file.read_text()) | {"normalizer": {"type": "Lowercase"}}
    file.write_text(json.dumps(about))
    other = backbone_named(name, "text")
    assert not torch.equal(other.features(["Good"], CPU), first.features(["Good"], CPU))
    assert other.identity != first.identity


def test_a_text_longer_than_the_window_of_an_encoder_is_split(tmp_path):
    backbone = backbone_named(f"hf:{bert(tmp_path)}", "text")
    long = "good film " * 14  # 28 words in windows of 14
    features = backbone.features([long, "good film " * 7], CPU)
    assert backbone.longer == 1
    torch.testing.assert_close(features[0], features[1], atol=1e-5, rtol=1e-4)


def test_sentence_transformers_keep_their_own_pooling(tmp_path):
    library = pytest.importorskip("sentence_transformers")
    model = library.SentenceTransformer(str(bert(tmp_path)), device="cpu")
    model.save(str(tmp_path / "st"))
    backbone = backbone_named(f"st:{tmp_path / 'st'}", "text")
    texts = ["good film", "bad match goal"]
    expected = torch.from_numpy(model.encode(texts))
    torch.testing.assert_close(backbone.features(texts, CPU), expected, atol=1e-5, rtol=1e-4)
    pooling = tmp_path / "st" / "1_Pooling" / "config.json"
    pooling.write_text(pooling.read_text().replace('"mean"', '"max"'))
    other = backbone_named(f"st:{tmp_path / 'st'}", "text")
    assert not torch.allclose(other.features(texts, CPU), expected)
    assert other.identity != backbone.identity


def test_the_prompt_of_sentence_transformers_is_put_before_each_part(tmp_path):
    library = pytest.importorskip("sentence_transformers")
    model = library.SentenceTransformer(str(bert(tmp_path)), device="cpu")
    model.save(str(tmp_path / "st"))
    plain = backbone_named(f"st:{tmp_path / 'st'}", "text")
    file = tmp_path / "st" / "config_sentence_transformers.json"
    about = {"prompts": {"films": "match goal "}, "default_prompt_name": "films"}
    file.write_text(json.dumps(json.loads(file.read_text()) | about))
    backbone = backbone_named(f"st:{tmp_path / 'st'}", "text")
    assert backbone.identity != plain.identity
    texts = ["good film", "bad"]
    features = backbone.features(texts, CPU)
    expected = plain.features([f"match goal {text}" for text in texts], CPU)
    torch.testing.assert_close(features, expected, atol=1e-5, rtol=1e-4)
    with torch.inference_mode():
        trained = backbone.trainable.network.eval()(backbone.trainable.tokens(texts))
    torch.testing.assert_close(trained, expected, atol=1e-5, rtol=1e-4)
    backbone.features(["good " * 12, "good " * 13], CPU)  # of 16, four are taken
    assert backbone.longer == 1


def test_of_the_positions_of_roberta_the_first_are_for_no_token(tmp_path):
    from transformers import RobertaConfig, RobertaModel

    config = RobertaConfig(
        vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=18, pad_token_id=1,
    )  # fmt: skip
    RobertaModel(config).eval().save_pretrained(bert(tmp_path))
    file = tmp_path / "tokenizer_config.json"
    about = json.loads(file.read_text())
    del about["model_max_length"]
    file.write_text(json.dumps(about))
    backbone = backbone_named(f"hf:{tmp_path}", "text")
    backbone.features(["good " * 14, "good " * 15], CPU)
    assert backbone.longer == 1


def test_a_model_that_is_not_there_is_refused_with_its_name(tmp_path):
    with pytest.raises(AbstainError, match="backbone must name a folder that exists, got"):
        backbone_named(f"hf:{tmp_path / 'nothing'}", "image")


def test_that_the_hub_is_asked_is_said_beforehand(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr("transformers.AutoConfig.from_pretrained", lambda name: 1 / 0)
        with pytest.raises(AbstainError, match="backbone must name a model that is there"):
            backbone_named("hf:nowhere/at-all", "text")
    assert "nowhere/at-all is not on this machine: it is fetched from the hub" in caplog.text
    caplog.clear()
    backbone_named(f"st:{bert(tmp_path / 'model')}", "text")
    assert not caplog.text


@pytest.mark.parametrize("gone", ["model.safetensors", "config.json", "preprocessor_config.json"])
def test_a_folder_that_lacks_a_part_of_a_model_is_refused_as_such(tmp_path, gone):
    (vit(tmp_path) / gone).unlink()
    with pytest.raises(AbstainError, match="backbone must name a folder that holds a whole model"):
        backbone_named(f"hf:{tmp_path}", "image")


def test_preprocessing_that_cannot_be_used_is_refused(tmp_path):
    (vit(tmp_path) / "preprocessor_config.json").write_text('{"image_mean": 0.5, "size": 16}')
    with pytest.raises(AbstainError, match="backbone must have three numbers as image_mean"):
        backbone_named(f"hf:{tmp_path}", "image")


@pytest.mark.parametrize("library", ["hf", "st"])
def test_a_folder_without_a_tokenizer_is_refused(tmp_path, library):
    """transformers would make a tokenizer that knows no word, and all texts would look alike."""
    pytest.importorskip("sentence_transformers")
    for path in bert(tmp_path).glob("tokenizer*"):
        path.unlink()
    with pytest.raises(AbstainError, match=r"whole model for texts, got .*no tokenizer"):
        backbone_named(f"{library}:{tmp_path}", "text")


def test_a_folder_or_file_is_found_from_elsewhere(tmp_path, monkeypatch):
    vit(tmp_path)
    (tmp_path / "net.py").write_text("")
    monkeypatch.chdir(tmp_path.parent)
    near = tmp_path.name
    assert found_from_anywhere(f"hf:{near}") == f"hf:{tmp_path}"
    assert found_from_anywhere(f"timm:./{near}") == f"timm:{tmp_path}"
    assert found_from_anywhere(f"{near}/net.py:Net") == f"{tmp_path}/net.py:Net"
    assert backbone_named(f"hf:{near}", "image").name == f"hf:{tmp_path}"
    for name in ("hf:bert-base", "timm:resnet50", "clip:ViT-B-32/openai", "auto", "none"):
        assert found_from_anywhere(name) == name


def library(name):
    """A library that imports torchvision, of which there is no build for every torch."""
    try:
        return __import__(name)
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"{name} cannot be imported here: {error}")


IMAGES = torch.randint(
    0, 256, (2, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
)


def normalised(images, mean, std):
    mean, std = (torch.tensor(x)[:, None, None] for x in (mean, std))
    return (images / 255 - mean) / std


def test_a_model_of_timm_in_a_folder_sees_what_timm_would(tmp_path):
    timm = library("timm")
    own = {"input_size": (3, 32, 32), "mean": (0.5, 0.4, 0.3), "std": (0.2, 0.3, 0.4)}
    network = timm.create_model("resnet10t", pretrained_cfg_overlay=own).eval()
    timm.models.save_for_hf(network, tmp_path / "net", safe_serialization=True)
    backbone = backbone_named(f"timm:{tmp_path / 'net'}", "image")
    assert (backbone.size, backbone.mean, backbone.std) == (32, own["mean"], own["std"])
    network.reset_classifier(0)
    with torch.inference_mode():
        expected = network(normalised(IMAGES, own["mean"], own["std"]))
    torch.testing.assert_close(backbone.features(IMAGES, CPU), expected, atol=1e-4, rtol=1e-4)
    config = tmp_path / "net" / "config.json"
    config.write_text(config.read_text().replace("0.4", "0.1"))
    assert backbone_named(backbone.name, "image").identity != backbone.identity


@pytest.mark.parametrize(("model", "any_size"), [("resnet10t", True), ("levit_128s", False)])
def test_only_models_of_timm_that_take_any_size_are_given_another(model, any_size, tmp_path):
    timm = library("timm")
    network = timm.create_model(model)
    timm.models.save_for_hf(network, tmp_path / "net", safe_serialization=True)
    backbone = backbone_named(f"timm:{tmp_path / 'net'}", "image").for_images(32, 32)
    assert (backbone.size < network.pretrained_cfg["input_size"][-1]) == any_size
    assert len(backbone.features(IMAGES, CPU)) == 2


def small_clip(open_clip, folder):
    """A CLIP with random weights, saved in a folder as open_clip does."""
    about = {
        "embed_dim": 8,
        "vision_cfg": {
            "image_size": 32,
            "layers": 1,
            "width": 16,
            "patch_size": 16,
            "head_width": 8,
        },
        "text_cfg": {
            "context_length": 16,
            "vocab_size": 49408,
            "width": 16,
            "heads": 2,
            "layers": 1,
        },
    }
    folder.mkdir()
    preprocessing = {"size": [32, 32], "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4]}
    config = {"model_cfg": about, "preprocess_cfg": preprocessing}
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    network = open_clip.CLIP(about["embed_dim"], about["vision_cfg"], about["text_cfg"]).eval()
    save_file(network.state_dict(), folder / "open_clip_model.safetensors")
    return network


def test_a_model_of_open_clip_in_a_folder_sees_images_as_open_clip_would(tmp_path):
    network = small_clip(library("open_clip"), tmp_path / "net")
    backbone = backbone_named(f"clip:{tmp_path / 'net'}", "image")
    assert backbone.size == 32
    with torch.inference_mode():
        expected = network.encode_image(normalised(IMAGES, backbone.mean, backbone.std))
    assert backbone.mean == (0.5, 0.4, 0.3)
    torch.testing.assert_close(backbone.features(IMAGES, CPU), expected, atol=1e-4, rtol=1e-4)
    config = tmp_path / "net" / "open_clip_config.json"
    config.write_text(config.read_text().replace("0.4", "0.1"))
    assert backbone_named(backbone.name, "image").identity != backbone.identity


def test_for_open_clip_texts_without_spaces_are_halved_too():
    def tokenizer(texts):
        """A token for each character, in a window of 8 with the two that frame a text."""
        rows = [[1, *map(ord, text)][:7] for text in texts]
        return torch.tensor([[*row, 2] + [0] * (7 - len(row)) for row in rows])

    split = ours._halver(tokenizer)
    assert split("片名很好") == ["片名很好"]
    assert split("这部电影非常好看") == ["这部电影", "非常好看"]
    assert split("good film 好看") == ["good", "film", "好看"]


def test_open_clip_averages_the_parts_of_a_text_longer_than_its_window(tmp_path):
    open_clip = library("open_clip")
    network = small_clip(open_clip, tmp_path / "net")
    backbone = backbone_named(f"clip:{tmp_path / 'net'}", "text")
    tokenizer = open_clip.SimpleTokenizer(context_length=16)
    parts = ["one good film " * 4, "a bad goal " * 4]
    with torch.inference_mode():
        expected = network.encode_text(tokenizer(parts))
    features = backbone.features([parts[0], parts[0] + parts[1]], CPU)
    torch.testing.assert_close(features[0], expected[0], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(features[1], expected.mean(0), atol=1e-5, rtol=1e-4)
    assert backbone.longer == 1


def test_a_clip_without_weights_is_refused():
    library("open_clip")
    with pytest.raises(
        AbstainError, match="must name its weights, clip:MODEL/WEIGHTS, got clip:ViT"
    ):
        backbone_named("clip:ViT-B-32", "image")


@pytest.mark.parametrize("name", ["timm", "open_clip"])
def test_a_folder_of_weights_that_is_not_there_is_named(name, tmp_path):
    library(name)
    with pytest.raises(AbstainError, match="must name a folder that exists, got"):
        backbone_named(f"{name.removeprefix('open_')}:{tmp_path / 'nothing'}", "image")


@pytest.mark.parametrize("name", ["timm:resnet18", "clip:ViT-B-32/openai"])
def test_a_library_that_cannot_be_imported_is_named_with_the_line_to_install_it(name):
    module = "timm" if name.startswith("timm") else "open_clip"
    try:
        __import__(module)
    except Exception:
        with pytest.raises(AbstainError, match="pip install"):
            backbone_named(name, "image")
    else:
        pytest.skip(f"{module} is installed")


@pytest.fixture(params=["RuntimeError", "AttributeError"])
def broken_torchvision(request, tmp_path, monkeypatch):
    """One that was built for another torch: transformers then opens no model, nor says why."""
    why = f"raise {request.param}('operator torchvision::nms does not exist')"
    (tmp_path / "torchvision.py").write_text(why)
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("broken_torchvision")
@pytest.mark.parametrize(
    ("name", "kind"),
    [("hf:vit", "image"), ("st:bert", "text"), ("timm:vit", "image"), ("clip:vit/tag", "image")],
)
def test_a_broken_torchvision_is_named_as_what_is_in_the_way(name, kind):
    with pytest.raises(AbstainError, match=r"torchvision that is installed .*nms.* pip uninstall"):
        backbone_named(name, kind)


@pytest.mark.usefixtures("broken_torchvision")
def test_a_broken_torchvision_is_in_the_way_of_minilm_too(tmp_path):
    with pytest.raises(AbstainError, match=r"torchvision that is installed .*nms.* pip uninstall"):
        SMALL["minilm"].load("small:minilm", tmp_path)
