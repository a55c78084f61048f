"""Text models of sentence-transformers: `st:NAME`, from the hub, or `st:FOLDER`."""

from pathlib import Path

import torch
from torch import Tensor, nn

from abstain.data import Kind
from abstain.data.identity import weights_digest
from abstain.embed.backbones.base import (
    ABSENT,
    Backbone,
    TextBackbone,
    Transformer,
    splitter,
)
from abstain.embed.backbones.cached import LIBRARY_MODULES, modules_of
from abstain.embed.backbones.opening import check_kind, import_library, local_or_hub, opening_error
from abstain.embed.backbones.transformers import (
    check_tokenizer,
    quiet_loading,
    tokenizer_digest,
    tokens_of,
    without_truncation,
)
from abstain.errors import AbstainError
from abstain.support.wording import some


def from_sentence_transformers(name: str, model: str, kind: Kind) -> Backbone:
    """A model of sentence-transformers, with its own pooling and normalisation."""
    check_kind(name, kind, "text")
    model = local_or_hub(model)
    package = import_library("sentence_transformers", name)
    foreign = [x for x in modules_of(Path(model)) if not x.startswith(LIBRARY_MODULES)]
    if foreign:  # before 6.0 the library runs them where they lie in a folder, as the hub's cache
        raise AbstainError(
            "must have modules of sentence-transformers alone, as others are code that comes with "
            f"it, got {name}, which has {some(foreign)}",
            argument="backbone",
        )
    with opening_error(name, kind), quiet_loading():
        network = package.SentenceTransformer(model, device="cpu")
        check_tokenizer(network.tokenizer)
    window = int(network.max_seq_length or 512)

    def encode(texts: list[str], device: torch.device) -> Tensor:
        rows: Tensor = network.to(device).encode(
            texts, convert_to_tensor=True, show_progress_bar=False, device=str(device)
        )
        return rows.clone()  # it was made in inference mode of its own

    tokenizer = network.tokenizer
    whole = without_truncation(tokenizer.backend_tokenizer)
    # A pooler that its checkpoint lacks is drawn at random, and no pooling uses it.
    poolers = [weight for weight in network.state_dict() if ".pooler." in weight]
    pooling = "-".join(str(getattr(module, "pooling_mode", "")) for module in network)
    digest = f"{weights_digest(network, poolers)}-{tokenizer_digest(whole)}"
    prompt = network.prompts.get(network.default_prompt_name, "")  # put before each text
    identity = f"{name}-{digest}-{window}{pooling}{prompt}"
    trainable = Transformer(
        lambda texts: tokens_of([prompt + text for text in texts], tokenizer, window),
        _Sentences(network, tokenizer.pad_token_id or 0),
    )
    left = window - 2 - len(whole.encode(prompt, add_special_tokens=False))
    return TextBackbone(name, identity, encode, splitter(whole, left), trainable=trainable)


class _Sentences(nn.Module):
    """A model of sentence-transformers behind its tokenizer."""

    def __init__(self, network: nn.Module, padding: int) -> None:
        super().__init__()
        self.network, self.padding = network, padding

    def forward(self, tokens: Tensor) -> Tensor:
        there = tokens != ABSENT
        ids = tokens.where(there, self.padding)
        features: Tensor = self.network({"input_ids": ids, "attention_mask": there.long()})[
            "sentence_embedding"
        ]
        return features
