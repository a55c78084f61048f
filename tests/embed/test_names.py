"""Tests of names.py, and by way of it of libraries.py and transformer.py."""

import pytest
import torch
from tiny_models import bert, vit

from abstain.embed.names import backbone_named, check_name
from abstain.errors import AbstainError

CPU = torch.device("cpu")


@pytest.mark.parametrize("name", ["resnet50", "tim:resnet50", "timm:", "", None, 3])
def test_what_names_no_backbone_is_refused_with_all_forms(name):
    with pytest.raises(AbstainError, match="backbone must be small:NAME, timm:NAME"):
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


def test_a_model_that_is_not_there_is_refused_with_its_name(tmp_path):
    with pytest.raises(AbstainError, match="backbone must name a folder that exists, got"):
        backbone_named(f"hf:{tmp_path / 'nothing'}", "image")


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
