import io
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from abstain.data import LabeledData, load
from abstain.embed.backbones.base import Backbone, ImageBackbone, TextBackbone
from abstain.embed.embedding import embed
from abstain.embed.store.pipeline import Cost
from abstain.embed.store.shards import SHARD
from abstain.errors import AbstainError


def texts(count):
    return LabeledData(
        inputs=[f"text {k}" for k in range(count)],
        given=torch.zeros(count, dtype=torch.int64),
        classes=("a",),
        ids=[str(k) for k in range(count)],
        kind="text",
    )


def numbers(asked=None):
    """A backbone whose feature is the number in the text."""

    def encode(parts: list[str], device: torch.device) -> torch.Tensor:
        if asked is not None:
            asked.extend(parts)
        return torch.tensor([[float(part.split()[1])] for part in parts])

    return TextBackbone("numbers", "numbers", encode)


def test_features_stand_in_the_order_of_the_samples_and_are_made_once(tmp_path):
    data, asked = texts(SHARD + 3), []
    cost = Cost()
    first = embed(data, numbers(asked), cache_dir=tmp_path, cost=cost)
    assert first.in_memory().flatten().tolist() == [*map(float, range(len(data)))]
    assert len(asked) == cost.made == len(data)
    embed(data, numbers(asked), cache_dir=tmp_path)
    assert len(asked) == len(data)


def test_a_shard_that_was_cut_short_is_made_again(tmp_path, caplog):
    embed(texts(3), numbers(), cache_dir=tmp_path)
    (shard,) = (tmp_path / "features").iterdir()
    shard.write_bytes(shard.read_bytes()[:-2])
    asked = []
    again = embed(texts(3), numbers(asked), cache_dir=tmp_path)
    assert again.in_memory().flatten().tolist() == [0, 1, 2]
    assert len(asked) == 3
    assert "damaged" in caplog.text


def test_only_the_shard_of_a_changed_sample_is_made_again(tmp_path):
    data, asked = texts(SHARD + 3), []
    embed(data, numbers(), cache_dir=tmp_path)
    data.inputs[-1] = "text 7"
    embed(data, numbers(asked), cache_dir=tmp_path)
    assert len(asked) == 3


def test_each_backbone_has_features_of_its_own(tmp_path):
    def none(parts: list[str], device: torch.device) -> torch.Tensor:
        return torch.zeros(len(parts), 1)

    for backbone, expected in ((numbers(), [0, 1, 2]), (TextBackbone("no", "no", none), [0] * 3)):
        found = embed(texts(3), backbone, cache_dir=tmp_path).in_memory()
        assert found.flatten().tolist() == expected


def test_texts_that_differ_in_case_have_features_of_their_own(tmp_path):
    def upper(parts: list[str], device: torch.device) -> torch.Tensor:
        return torch.tensor([[float(part.isupper())] for part in parts])

    backbone = TextBackbone("upper", "upper", upper)
    for word, is_upper in (("ok", 0.0), ("OK", 1.0)):
        data = texts(1)
        data.inputs[0] = word
        assert float(embed(data, backbone, cache_dir=tmp_path)[0]) == is_upper


def test_images_of_another_shape_have_features_of_their_own(tmp_path):
    """Whoever mends a wrong reshape has the same bytes as before."""
    pixels = torch.arange(8, dtype=torch.uint8).reshape(1, 1, 2, 4)
    backbone = ImageBackbone("top", "top", FirstRow(), 4, (0, 0, 0), (1, 1, 1))
    seen = []
    for images in (pixels, pixels.reshape(1, 1, 4, 2)):
        data = LabeledData(
            inputs=images, given=torch.zeros(1, dtype=torch.int64), classes=("a",), ids=["0"],
            kind="image",
        )  # fmt: skip
        seen.append(embed(data, backbone, cache_dir=tmp_path)[0])
        assert torch.equal(seen[-1], embed(data, backbone, cache_dir=tmp_path / "other")[0])
    assert not torch.equal(*seen)


class FirstRow(torch.nn.Module):
    """Sees the first line of an image."""

    def forward(self, images):
        return images[:, 0, 0]


def test_photos_of_several_sizes_are_decoded_at_the_size_of_the_backbone(tmp_path):
    rng = np.random.default_rng(0)
    for label in ("cat", "dog"):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for k, side in enumerate((20, 35, 50)):
            pixels = rng.integers(0, 256, (side, side + 3, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / label / f"{k}.png")
    data = load(tmp_path / "photos", own_size=True)
    sizes = {tuple(data.inputs[k].shape[1:]) for k in range(len(data))}
    assert len(sizes) == 3

    class Mean(torch.nn.Module):
        def forward(self, images):
            assert images.shape[1:] == (3, 24, 24)
            return images.mean((2, 3))

    backbone = ImageBackbone("mean", "mean", Mean(), size=24, mean=(0, 0, 0), std=(1, 1, 1))
    features = embed(data, backbone, cache_dir=tmp_path / "cache").in_memory()
    expected = torch.stack([data.inputs[k].float().mean((1, 2)) / 255 for k in range(len(data))])
    torch.testing.assert_close(features, expected, atol=0.02, rtol=0)


def test_a_grey_image_among_colour_ones_counts_as_colour(tmp_path):
    for k, mode in enumerate(("L", "RGB", "L", "RGB")):
        place = tmp_path / "photos" / "ab"[k // 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.new(mode, (16, 16), 128 if mode == "L" else (128, 128, 128)).save(place / f"{k}.png")
    data = load(tmp_path / "photos", own_size=True)

    class Mean(torch.nn.Module):
        def forward(self, images):
            return images.mean((2, 3))

    backbone = ImageBackbone("mean", "mean", Mean(), size=16, mean=(0, 0, 0), std=(1, 1, 1))
    features = embed(data, backbone, cache_dir=tmp_path / "cache").in_memory()
    torch.testing.assert_close(features, torch.full((4, 3), 128 / 255), atol=1e-3, rtol=0)


def test_an_unreadable_photo_is_named_before_anything_is_embedded(tmp_path):
    for k in range(6):
        place = tmp_path / "photos" / "ab"[k // 3]
        place.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (16, 16)).save(place / f"{k}.png")
    (tmp_path / "photos" / "a" / "0.png").write_bytes(b"no image")
    with pytest.raises(AbstainError, match="skip_bad=True"):
        load(tmp_path / "photos", own_size=True)
    assert len(load(tmp_path / "photos", own_size=True, skip_bad=True)) == 5


class Greedy(Backbone):
    """Has memory for a few samples only."""

    kind = "text"
    name = identity = "greedy"

    def __init__(self, most: int) -> None:
        self.most = most

    def features(self, samples: Sequence[object], device: torch.device) -> torch.Tensor:
        if len(samples) > self.most:
            raise torch.OutOfMemoryError
        return torch.zeros(len(samples), 2)


def test_batches_that_do_not_fit_into_memory_are_halved(tmp_path, caplog):
    assert embed(texts(100), Greedy(30), cache_dir=tmp_path).in_memory().shape == (100, 2)
    assert "batches of 25" in caplog.text


def test_a_backbone_that_does_not_fit_for_one_sample_is_refused(tmp_path):
    with pytest.raises(AbstainError, match="backbone must fit into the memory"):
        embed(texts(4), Greedy(0), cache_dir=tmp_path)


@pytest.mark.parametrize("value", [float("nan"), 70_000.0])
def test_features_that_half_precision_cannot_hold_name_the_sample(tmp_path, value):
    def broken(parts: list[str], device: torch.device) -> torch.Tensor:
        return torch.tensor([[value if part == "text 2" else 0.0] for part in parts])

    with pytest.raises(AbstainError, match=r"backbone must give .* up to 65,504.* sample 2"):
        embed(texts(4), TextBackbone("broken", "broken", broken), cache_dir=tmp_path)


def test_a_backbone_for_images_refuses_texts(tmp_path):
    backbone = ImageBackbone("net", "net", torch.nn.Identity(), size=8)
    with pytest.raises(AbstainError, match="backbone must be one for texts"):
        embed(texts(4), backbone, cache_dir=tmp_path)


def test_a_killed_run_goes_on_from_its_last_shard(tmp_path):
    program = f"""
import sys, time, torch
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_embedding import numbers, texts
from abstain.embed.embedding import embed
backbone = numbers()
encode = backbone.encode
def slow(parts, device):
    print(len(parts), flush=True)
    time.sleep(0.2)
    return encode(parts, device)
backbone.encode = slow
embed(texts({5 * SHARD}), backbone, cache_dir={str(tmp_path)!r})
"""
    running = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    for _ in range(4):  # the third may still be written
        running.stdout.readline()
    running.send_signal(signal.SIGKILL)
    running.wait()
    asked = []
    features = embed(texts(5 * SHARD), numbers(asked), cache_dir=tmp_path)
    assert len(asked) <= 3 * SHARD
    assert features.in_memory().flatten()[::SHARD].tolist() == [k * SHARD for k in range(5)]


def test_texts_of_a_file_are_read_a_batch_at_once(tmp_path, monkeypatch):
    rows = "".join(f"text {k},{k % 2}\n" for k in range(1500))
    (tmp_path / "t.csv").write_text("text,label\n" + rows)
    lazy = load(tmp_path / "t.csv", memory_budget=1)
    monkeypatch.setattr(type(lazy.inputs), "__getitem__", None)
    features = embed(lazy, numbers(), cache_dir=tmp_path / "c")
    assert features.in_memory().flatten().tolist() == [*map(float, range(1500))]
    asked = []
    embed(load(tmp_path / "t.csv"), numbers(asked), cache_dir=tmp_path / "c")
    assert asked == []


def test_images_in_bytes_and_in_memory_have_the_same_features(tmp_path):
    pixels = torch.randint(0, 256, (4, 3, 16, 16), dtype=torch.uint8)

    class Mean(torch.nn.Module):
        def forward(self, images):
            return images.mean((2, 3))

    backbone = ImageBackbone("mean", "mean", Mean(), size=16)
    rows = []
    for k in range(4):
        place = tmp_path / "photos" / "ab"[k // 2]
        place.mkdir(parents=True, exist_ok=True)
        stream = io.BytesIO()
        Image.fromarray(pixels[k].permute(1, 2, 0).numpy()).save(stream, "png")
        (place / f"{k}.png").write_bytes(stream.getvalue())
    lazy = load(tmp_path / "photos", own_size=True)
    eager = load((pixels, [0, 0, 1, 1]))
    rows = [embed(x, backbone, cache_dir=tmp_path / "c").in_memory() for x in (lazy, eager)]
    torch.testing.assert_close(*rows)
