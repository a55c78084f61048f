import tomllib
from pathlib import Path
from pickle import UnpicklingError

import pytest
import torch

from abstain.embed.backbones.small import SMALL, Package
from abstain.errors import AbstainError

CPU = torch.device("cpu")


def test_wordllama_is_the_mean_of_the_vectors_of_the_tokens():
    from safetensors.torch import load_file
    from tokenizers import Tokenizer

    folder = SMALL["wordllama"].folder()
    tokenizer = Tokenizer.from_file(str(next(folder.glob("tokenizers/*.json"))))
    (vectors,) = load_file(folder / SMALL["wordllama"].weights).values()
    texts = ["Stocks rise on oil news", "", "goal"]
    expected = [
        vectors[tokenizer.encode(text, add_special_tokens=False).ids].float().mean(0)
        if text
        else torch.zeros(256)
        for text in texts
    ]
    features = SMALL["wordllama"].open("small:wordllama").features(texts, CPU)
    torch.testing.assert_close(features, torch.stack(expected))


def test_efficientnet_gives_the_features_before_its_own_last_layer():
    backbone = SMALL["efficientnet-lite2"].open("small:efficientnet-lite2")
    image = torch.randint(0, 256, (1, 3, 224, 224), dtype=torch.uint8)
    features = backbone.features(image, CPU)
    network = backbone.network.network
    with torch.inference_mode():
        expected = network(backbone.normalised(image))
        torch.testing.assert_close(network._fc(features), expected, rtol=1e-3, atol=1e-3)


def test_small_images_are_given_to_efficientnet_with_fewer_pixels():
    backbone = SMALL["efficientnet-lite2"].open("small:efficientnet-lite2")
    small = backbone.for_images(32, 32)
    assert small.size == 160
    assert small.identity != backbone.identity
    assert backbone.for_images(300, 200) is backbone


def test_weights_of_another_content_are_refused(tmp_path, monkeypatch):
    (tmp_path / "forged").mkdir()
    (tmp_path / "forged" / "__init__.py").touch()
    (tmp_path / "forged" / "weights.pth").write_bytes(b"import os")
    monkeypatch.syspath_prepend(str(tmp_path))
    package = Package(
        kind="text",
        module="forged",
        weights="weights.pth",
        sha256="0" * 64,
        load=None,
        description="",
    )
    with pytest.raises(AbstainError, match="must be those that were published"):
        package.open("small:forged")


def test_weights_are_read_as_numbers_even_where_they_are_code(tmp_path):
    class Code:
        def __reduce__(self):
            return Path.touch, (tmp_path / "ran",)

    package = SMALL["efficientnet-lite2"]
    (tmp_path / "models").mkdir()
    torch.save(Code(), tmp_path / package.weights)
    with pytest.raises(UnpicklingError, match="Weights only load failed"):
        package.load("small:efficientnet-lite2", tmp_path)
    assert not (tmp_path / "ran").exists()


def test_a_package_that_is_not_installed_is_named_with_the_line_to_install_it():
    package = Package(
        kind="text", module="no_such_package", weights="", sha256="", load=None, description=""
    )
    with pytest.raises(AbstainError, match=r"pip install 'abstain\[small\]'"):
        package.open("small:nothing")


def test_the_line_to_install_a_package_installs_it():
    about = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))
    extra = " ".join(about["project"]["optional-dependencies"]["small"])
    for package in SMALL.values():
        brought = extra if package.install == "'abstain[small]'" else package.install
        assert package.module in brought.replace("-", "_")
