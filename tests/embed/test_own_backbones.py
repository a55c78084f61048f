import numpy as np
import pytest
import torch

from abstain.embed.own_backbones import from_onnx, from_python
from abstain.errors import AbstainError

CPU = torch.device("cpu")


@pytest.fixture
def mean_network(tmp_path):
    """An ONNX network that averages each colour over the image."""
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    entry = helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["n", 3, 8, 8])
    leaving = helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", 3, 1, 1])
    node = helper.make_node("GlobalAveragePool", ["pixels"], ["features"])
    graph = helper.make_graph([node], "mean", [entry], [leaving])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    path = tmp_path / "mean.onnx"
    onnx.save(model, path)
    return path


def test_an_onnx_network_is_given_normalised_images(mean_network):
    backbone = from_onnx("onnx:mean", str(mean_network), "image")
    images = torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8)
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    expected = (images.numpy().mean((2, 3)) / 255 - mean) / std
    np.testing.assert_allclose(backbone.features(images, CPU).numpy(), expected, atol=1e-4)


def test_an_onnx_network_for_texts_needs_its_tokenizer(mean_network):
    with pytest.raises(AbstainError, match=r"must have tokenizer\.json beside it"):
        from_onnx("onnx:mean", str(mean_network), "text")


def word_vectors(folder, entry):
    """An ONNX network that looks up the vector of each token, with its tokenizer beside it."""
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({"[PAD]": 0, "good": 1, "bad": 2}, unk_token="[PAD]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(folder / "tokenizer.json"))
    table = numpy_helper.from_array(np.float32([[9, 9], [1, 0], [0, 1]]), "table")
    tokens = helper.make_tensor_value_info(entry, TensorProto.INT64, ["n", "tokens"])
    leaving = helper.make_tensor_value_info("hidden", TensorProto.FLOAT, ["n", "tokens", 2])
    node = helper.make_node("Gather", ["table", entry], ["hidden"])
    graph = helper.make_graph([node], "vectors", [tokens], [leaving], [table])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.save(model, folder / "words.onnx")
    return folder / "words.onnx"


def test_an_onnx_network_for_texts_averages_their_tokens_a_few_texts_at_a_time(
    tmp_path, monkeypatch
):
    path = word_vectors(tmp_path, "input_ids")
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 8}')
    backbone = from_onnx("onnx:words", str(path), "text")
    monkeypatch.setattr("abstain.embed.backbone._TEXTS", 2)
    texts = ["good", "bad good bad good", "bad", "good " * 30 + "bad " * 6]
    expected = [[1, 0], [0.5, 0.5], [0, 1], [5 / 6, 1 / 6]]
    np.testing.assert_allclose(backbone.features(texts, CPU).numpy(), expected, atol=1e-6)
    assert backbone.longer == 1


def test_an_onnx_network_that_takes_other_than_tokens_is_refused(tmp_path):
    path = word_vectors(tmp_path, "position_ids")
    with pytest.raises(AbstainError, match=r"must take input_ids, .*, which takes position_ids"):
        from_onnx("onnx:words", str(path), "text")


def test_a_file_that_is_no_network_is_refused(tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"nothing")
    with pytest.raises(AbstainError, match="backbone must be an ONNX network"):
        from_onnx("onnx:bad", str(tmp_path / "bad.onnx"), "image")
    with pytest.raises(AbstainError, match="backbone must name an ONNX file that exists"):
        from_onnx("onnx:none", str(tmp_path / "none.onnx"), "image")
    with pytest.raises(AbstainError, match="backbone must name a Python file that exists"):
        from_python(f"{tmp_path / 'none.py'}:Net", "image")


def test_a_module_of_a_python_file_says_its_own_size(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    size, mean, std = 8, (0, 0, 0), (1, 1, 1)\n"
        "    def forward(self, images): return images.mean((2, 3))\n"
    )
    backbone = from_python(f"{path}:Net", "image")
    images = torch.full((1, 3, 30, 20), 51, dtype=torch.uint8)
    torch.testing.assert_close(backbone.features(images, CPU), torch.full((1, 3), 0.2))


def test_a_python_file_that_makes_no_module_is_refused(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def net(): return 3\n")
    with pytest.raises(AbstainError, match=r"must return a torch\.nn\.Module"):
        from_python(f"{path}:net", "image")
