"""Widening models of the transformers library, built small and at random.

Tests of abstention.py, apart because they need the transformers library.
"""

import pytest
import torch

from abstain.errors import AbstainError
from abstain.models import with_abstention

transformers = pytest.importorskip("transformers")

NAMES = {0: "cat", 1: "dog", 2: "owl"}
SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "id2label": NAMES,
    "label2id": {name: index for index, name in NAMES.items()},
}


def bert():
    config = transformers.BertConfig(vocab_size=30, max_position_embeddings=12, **SMALL)
    return transformers.BertForSequenceClassification(config).eval(), torch.tensor([[3, 4, 5]])


def roberta():
    config = transformers.RobertaConfig(vocab_size=30, max_position_embeddings=12, **SMALL)
    return transformers.RobertaForSequenceClassification(config).eval(), torch.tensor([[3, 4, 5]])


def vit():
    config = transformers.ViTConfig(image_size=8, patch_size=4, **SMALL)
    return transformers.ViTForImageClassification(config).eval(), torch.rand(1, 3, 8, 8)


@pytest.mark.parametrize("make", [bert, roberta, vit])
def test_class_logits_stay_and_the_config_follows(make):
    model, inputs = make()
    before = model(inputs).logits
    after = with_abstention(model)(inputs).logits
    torch.testing.assert_close(after[:, :3], before)
    assert after.shape == (1, 4)
    assert model.config.num_labels == 4
    assert model.num_labels == 4
    assert model.config.id2label == {**NAMES, 3: "ABSTAIN"}
    assert model.config.label2id["dog"] == 1


@pytest.mark.parametrize("make", [bert, vit])
def test_saved_and_loaded_it_is_still_known_as_widened(make, tmp_path):
    model, inputs = make()
    with_abstention(model).save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path).eval()
    torch.testing.assert_close(loaded(inputs).logits, model(inputs).logits)
    with pytest.raises(AbstainError, match="already has an abstention output"):
        with_abstention(loaded)


def test_its_own_loss_still_runs():
    model, inputs = bert()
    assert with_abstention(model)(inputs, labels=torch.tensor([2])).loss.isfinite()


def test_inside_another_module():
    model, _ = bert()
    with_abstention(torch.nn.Sequential(model))
    assert model.classifier.out_features == 4
    assert model.config.num_labels == 4


def test_a_backbone_without_a_head_is_refused():
    model = bert()[0].bert
    with pytest.raises(AbstainError, match="no linear layer of the module has 3 outputs"):
        with_abstention(model)
