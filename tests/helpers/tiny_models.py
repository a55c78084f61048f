"""Tiny models in folders, as the libraries of the field write theirs."""

import json


def bert(folder):
    """An untrained text encoder with its tokenizer, as transformers saves one."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad", "film", "match", "goal"]
    tokenizer = Tokenizer(models.WordLevel({w: k for k, w in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", model_max_length=16
    )
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words), hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=16,
    )  # fmt: skip
    BertModel(config).eval().save_pretrained(folder)
    return folder


def vit(folder):
    """An untrained image encoder with its preprocessing, as transformers saves one."""
    import torch
    from transformers import ViTConfig, ViTModel

    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        image_size=16, patch_size=8,
    )  # fmt: skip
    ViTModel(config).eval().save_pretrained(folder)
    about = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "size": {"height": 16, "width": 16}}
    (folder / "preprocessor_config.json").write_text(json.dumps(about))
    return folder
