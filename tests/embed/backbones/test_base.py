import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from abstain.data.identity import weights_digest
from abstain.embed.backbones.base import ImageBackbone, TextBackbone, splitter
from abstain.errors import AbstainError, DataError


def tokenizer():
    made = Tokenizer(models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return made


def test_parts_of_a_long_text_fit_into_the_window_and_lose_nothing():
    split = splitter(tokenizer(), 3)
    text = "a b a b a b a"
    parts = split(text)
    assert "".join(parts) == text
    assert [len(part.split()) for part in parts] == [3, 3, 1]
    assert split("a b a") == ["a b a"]


def test_a_text_of_characters_of_several_tokens_each_is_split():
    """As byte-level tokenizers make of emoji, and of most scripts without training."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    by_bytes = Tokenizer(models.BPE({token: k for k, token in enumerate(alphabet)}, merges=[]))
    by_bytes.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    assert splitter(by_bytes, 8)("😀" * 5) == ["😀" * 2, "😀" * 2, "😀"]
    assert splitter(by_bytes, 10)("a" * 9 + "😀") == ["a" * 9 + "😀"]  # and no empty part


def test_a_long_text_is_the_mean_of_its_parts_and_is_counted():
    def length(parts: list[str], device: torch.device) -> torch.Tensor:
        return torch.tensor([[float(len(part.split()))] for part in parts])

    backbone = TextBackbone("length", "length", length, splitter(tokenizer(), 3))
    features = backbone.features(["a b a b", "a"], torch.device("cpu"))
    assert features.tolist() == [[2.0], [1.0]]  # of 3 and 1 words
    assert backbone.longer == 1


def test_images_that_it_would_see_as_white_or_cannot_see_are_refused():
    class Mean(torch.nn.Module):
        def forward(self, images):
            return images.mean((2, 3))

    backbone = ImageBackbone("mean", "mean", Mean(), 8, (0, 0, 0), (1, 1, 1))
    photos = torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8)
    cpu = torch.device("cpu")
    torch.testing.assert_close(backbone.features(photos, cpu), backbone.features(photos / 255, cpu))
    with pytest.raises(DataError, match=r"must be bytes \(uint8\) or numbers from 0 to 1, got"):
        backbone.features(photos.float(), cpu)
    with pytest.raises(DataError, match=r"grey or in colour, .*, got the shape \(4, 8, 8\)"):
        backbone.features(photos[:, [0, 1, 2, 0]], cpu)


def test_an_image_that_shrinks_along_one_side_only_is_smoothed_there():
    """Every third of fine stripes would be seen, which are as coarse as can be."""
    stripes = torch.tensor([0, 255], dtype=torch.uint8).repeat(3 * 16).expand(1, 3, 8, 96)
    whole = ImageBackbone("m", "m", torch.nn.Identity(), 32, mean=(0, 0, 0), std=(1, 1, 1))
    seen = whole.normalised(stripes)
    assert seen.shape == (1, 3, 32, 32)
    assert float((seen - 0.5).abs()[..., 2:-2].max()) < 0.2


def test_other_weights_have_another_digest():
    network = torch.nn.Linear(2, 2)
    before = weights_digest(network)
    assert weights_digest(network) == before
    with torch.no_grad():
        network.weight[0, 0] += 1e-3
    assert weights_digest(network) != before


def test_a_network_is_moved_to_its_device_once(monkeypatch):
    network = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    moved = []
    monkeypatch.setattr(network, "to", lambda *to, **_: moved.append(to) or network)
    backbone = ImageBackbone("mean", "mean", network, size=4)
    images = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)
    for _ in range(3):
        backbone.features(images, torch.device("cpu"))
    backbone.at(8).features(images, torch.device("cpu"))
    assert moved == [(torch.device("cpu"),)]
    assert not network.training


def test_images_of_other_channels_are_refused():
    backbone = ImageBackbone("net", "net", torch.nn.Identity(), 8)
    images = torch.zeros(2, 4, 8, 8, dtype=torch.uint8)
    with pytest.raises(
        AbstainError, match=r"got the shape \(4, 8, 8\); train from scratch with backbone='none'"
    ):
        backbone.features(images, torch.device("cpu"))
