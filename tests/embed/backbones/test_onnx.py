import numpy as np
import pytest
import torch
from tiny_models import bert

from abstain.embed.backbones.onnx import from_onnx
from abstain.errors import AbstainError

CPU = torch.device("cpu")


def network(path, work="GlobalAveragePool", entry="pixels", shape=("n", 3, 8, 8), type="FLOAT"):
    """An ONNX network of one step."""
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    number = getattr(TensorProto, type)
    taken = helper.make_tensor_value_info(entry, number, list(shape))
    given = helper.make_tensor_value_info("features", number, ["n"] * len(shape))
    node = helper.make_node(work, [entry], ["features"])
    graph = helper.make_graph([node], "one step", [taken], [given])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.save(model, path)
    return path


@pytest.fixture
def mean_network(tmp_path):
    """An ONNX network that averages each colour over the image."""
    return network(tmp_path / "mean.onnx")


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
    monkeypatch.setattr("abstain.embed.backbones.base._TEXTS", 2)
    texts = ["good", "bad good bad good", "bad", "good " * 30 + "bad " * 6]
    expected = [[1, 0], [0.5, 0.5], [0, 1], [5 / 6, 1 / 6]]
    np.testing.assert_allclose(backbone.features(texts, CPU).numpy(), expected, atol=1e-6)
    assert backbone.longer == 1


def test_an_onnx_network_is_given_no_more_tokens_than_its_tokenizer_says(tmp_path):
    """As of MPNet, which has 514 positions, of which the first two are for no token."""
    path = word_vectors(tmp_path, "input_ids")
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 10}')
    for limit, splits in (("null", 0), ("1e30", 0), ("8", 1)):
        (tmp_path / "tokenizer_config.json").write_text(f'{{"model_max_length": {limit}}}')
        backbone = from_onnx("onnx:words", str(path), "text")
        backbone.features(["good " * 8], CPU)
        assert backbone.longer == splits


def test_an_onnx_network_whose_tokenizer_knows_no_limit_is_given_512_tokens(tmp_path):
    path = word_vectors(tmp_path, "input_ids")
    (tmp_path / "tokenizer_config.json").write_text(f'{{"model_max_length": {int(1e30)}}}')
    backbone = from_onnx("onnx:words", str(path), "text")
    backbone.features(["good " * 510, "good " * 511], CPU)
    assert backbone.longer == 1


def test_an_onnx_network_that_takes_other_than_tokens_is_refused(tmp_path):
    path = word_vectors(tmp_path, "position_ids")
    with pytest.raises(AbstainError, match=r"must take input_ids, .*, which takes position_ids"):
        from_onnx("onnx:words", str(path), "text")


@pytest.mark.parametrize(
    ("shape", "type"),
    [
        ((1, 3, 8, 8), "FLOAT"),
        (("n", 8, 8, 3), "FLOAT"),
        (("n", 1, 8, 8), "FLOAT"),
        (("n", 3, 8, 16), "FLOAT"),
        (("n", 3, 8), "FLOAT"),
        (("n", 3, 8, 8), "FLOAT16"),
    ],
)
def test_an_onnx_network_that_takes_other_images_is_refused_with_what_it_takes(
    tmp_path, shape, type
):
    path = network(tmp_path / "other.onnx", "Relu", shape=shape, type=type)
    shown = rf"takes pixels: tensor\({type.lower()}\) \[{shape[0]!r}, .*\]; export it with"
    with pytest.raises(AbstainError, match=f"backbone must take images .* {shown}"):
        from_onnx("onnx:other", str(path), "image")


def test_an_onnx_network_of_free_sides_sees_images_at_224(tmp_path):
    path = network(tmp_path / "free.onnx", shape=("n", "c", "h", "w"))
    assert from_onnx("onnx:free", str(path), "image").size == 224


def test_mean_and_spread_beside_an_onnx_network_are_used_and_tell_features_apart(mean_network):
    about = mean_network.parent / "preprocessor_config.json"
    seen = []
    for text in ("{}", '{"image_mean": [0.5, 0.5, 0.5]}'):
        about.write_text(text)
        seen.append(from_onnx("onnx:mean", str(mean_network), "image"))
    assert [one.mean[0] for one in seen] == [0.485, 0.5]
    assert seen[0].std == seen[1].std == (0.229, 0.224, 0.225)
    assert seen[0].identity != seen[1].identity
    for text, message in (
        ('{"image_mean": 0.5}', "must have three numbers as image_mean, got 0.5"),
        ("{", r"must have a preprocessor_config\.json beside it that can be read"),
    ):
        about.write_text(text)
        with pytest.raises(AbstainError, match=message):
            from_onnx("onnx:mean", str(mean_network), "image")


@pytest.mark.parametrize("name", ["words.onnx.data", "weights.bin"])
def test_weights_beside_an_onnx_network_tell_features_apart(tmp_path, name):
    path = word_vectors(tmp_path, "input_ids")
    onnx = pytest.importorskip("onnx")
    where = {"save_as_external_data": True, "location": name, "size_threshold": 0}
    onnx.save(onnx.load(path), path, **where)
    (tmp_path / "words.onnx.old").write_bytes(b"no part of it")
    first = from_onnx("onnx:words", str(path), "text")
    features = first.features(["good"], CPU).clone()
    (tmp_path / "words.onnx.old").unlink()
    assert from_onnx("onnx:words", str(path), "text").identity == first.identity
    weights = np.fromfile(tmp_path / name, np.float32)
    (weights + 1).tofile(tmp_path / name)
    other = from_onnx("onnx:words", str(path), "text")
    assert not torch.equal(other.features(["good"], CPU), features)
    assert other.identity != first.identity


def test_an_onnx_network_for_texts_that_takes_what_no_tokenizer_gives_is_refused(tmp_path):
    path = network(tmp_path / "net.onnx", "Identity", "position_ids", ("n", "l"), "INT64")
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(AbstainError, match=r"must have a whole tokenizer\.json beside it"):
        from_onnx("onnx:net", str(path), "text")
    bert(tmp_path)
    with pytest.raises(AbstainError, match=r"must take input_ids, .* which takes position_ids"):
        from_onnx("onnx:net", str(path), "text")


def test_another_tokenizer_tells_the_features_of_an_onnx_network_apart(tmp_path):
    path = network(tmp_path / "net.onnx", "Identity", "input_ids", ("n", "l"), "INT64")
    tokens = bert(tmp_path) / "tokenizer.json"
    before = from_onnx("onnx:net", str(path), "text")
    assert before.features(["good bad"], CPU).shape == (1, 4)
    tokens.write_text(tokens.read_text().replace('"good"', '"well"'))
    assert from_onnx("onnx:net", str(path), "text").identity != before.identity


def test_a_file_that_is_no_network_is_refused(tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"nothing")
    with pytest.raises(AbstainError, match="backbone must be an ONNX network"):
        from_onnx("onnx:bad", str(tmp_path / "bad.onnx"), "image")
    with pytest.raises(AbstainError, match="backbone must name an ONNX file that exists"):
        from_onnx("onnx:none", str(tmp_path / "none.onnx"), "image")
