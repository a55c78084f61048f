"""Models by name: seeds, precision, saving, the user's own files, and what to start with.

Tests of build.py, own.py and default.py.
"""

import sys
from copy import deepcopy

import pytest
import torch
from torch import nn

from abstain.errors import AbstainError
from abstain.models import MLP, MODELS, BagOfWords, CifarCNN, MnistCNN, build_model, default_model

IMAGE = (3, 16, 16)


def build(name, seed=0):
    words = {"vocabulary": 20} if name == "bag-of-words" else {}
    shape = (6,) if name == "bag-of-words" else IMAGE
    return build_model(name, input_shape=shape, num_outputs=5, seed=seed, **words)


def batch(name):
    if name == "bag-of-words":
        return torch.tensor([[1, 2, 3, 4, 0, 0], [5, 0, 0, 0, 0, 0], [9, 8, 7, 6, 5, 4]])
    return torch.rand(3, *IMAGE, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", MODELS)
def test_every_name_gives_logits(name):
    assert build(name)(batch(name)).shape == (3, 5)


def test_names_lead_to_their_networks():
    assert isinstance(build("mnist-cnn"), MnistCNN)
    assert isinstance(build("cifar-cnn"), CifarCNN)
    assert isinstance(build("mlp"), MLP)
    assert isinstance(build("bag-of-words"), BagOfWords)


@pytest.mark.parametrize("name", MODELS)
def test_same_seed_same_weights_and_the_global_generator_is_untouched(name):
    before = torch.get_rng_state()
    first = build(name, seed=7)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)  # whatever the user draws in between does not matter
    second, other = build(name, seed=7), build(name, seed=8)
    state, same, different = first.state_dict(), second.state_dict(), other.state_dict()
    assert all(torch.equal(state[key], same[key]) for key in state)
    assert any(not torch.equal(state[key], different[key]) for key in state)


def test_without_a_seed_the_global_generator_is_used():
    torch.manual_seed(5)
    first = build("mlp", seed=None)
    second = build("mlp", seed=None)
    torch.manual_seed(5)
    again = build("mlp", seed=None)
    inputs = batch("mlp")
    assert torch.equal(first(inputs), again(inputs))
    assert not torch.equal(first(inputs), second(inputs))


def test_the_generator_is_put_back_after_an_error():
    before = torch.get_rng_state()
    with pytest.raises(AbstainError):
        build_model("mnist-cnn", input_shape=(1, 8, 8), num_outputs=5, seed=3)
    assert torch.equal(torch.get_rng_state(), before)


def test_weights_are_drawn_on_the_cpu_whatever_the_default_device():
    expected = build("mlp", seed=2)
    with torch.device("meta"):
        model = build("mlp", seed=2)
    inputs = batch("mlp")
    assert torch.equal(model(inputs), expected(inputs))


@pytest.mark.parametrize("name", MODELS)
def test_gradients_reach_every_trainable_parameter(name):
    model = build(name)
    model(batch(name)).square().sum().backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key
        assert parameter.grad.abs().sum() > 0, key


@pytest.mark.parametrize("name", MODELS)
def test_float64(name):
    model = build(name).eval()
    expected = model(batch(name))
    inputs = batch(name) if name == "bag-of-words" else batch(name).double()
    logits = deepcopy(model).double()(inputs)
    assert logits.dtype is torch.float64
    torch.testing.assert_close(logits.float(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_bfloat16_autocast_trains_near_float32(name):
    model = build(name).eval()
    expected = model(batch(name))
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(batch(name))
    logits.float().square().sum().backward()
    assert logits.dtype is torch.bfloat16
    scale = float(expected.detach().abs().max())
    torch.testing.assert_close(logits.float(), expected, rtol=0.03, atol=0.03 * scale)
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("name", MODELS)
def test_weights_survive_saving(name, tmp_path):
    model, fresh = build(name, seed=1), build(name, seed=2)
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    fresh.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    assert torch.equal(fresh.eval()(batch(name)), model.eval()(batch(name)))


@pytest.mark.parametrize("name", MODELS)
def test_every_network_learns(name):
    model = build(name).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(12):
        loss = nn.functional.cross_entropy(model(batch(name)), torch.tensor([0, 1, 2]))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.95 * losses[0]


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(AbstainError, match=r"PATH\.py:NAME .*did you mean mnist-cnn\?"):
        build("MNIST_CNN")
    with pytest.raises(AbstainError, match=r"one of mnist-cnn, .* got 'zebra'$"):
        build("zebra")
    with pytest.raises(AbstainError, match=r"net\.py must say what to use of that file"):
        build("net.py")


def test_words_are_refused_where_there_are_none():
    with pytest.raises(AbstainError, match=r"^model must be bag-of-words .* got 'mlp'"):
        build_model("mlp", input_shape=(4,), num_outputs=3, vocabulary=20)


def test_a_network_for_words_says_that_there_are_none():
    with pytest.raises(
        AbstainError, match=r"^model must be one that reads numbers, .* got 'bag-of-words'"
    ):
        build_model("bag-of-words", input_shape=(3, 8, 8), num_outputs=3)


# The user's own network.

OWN = """
from dataclasses import dataclass
from torch import nn

@dataclass
class Width:
    value: "int" = 4

class Plain(nn.Module):
    def __init__(self, num_outputs):
        super().__init__()
        self.fc = nn.Linear(2, num_outputs)
    def forward(self, x):
        return self.fc(x)

def shaped(num_outputs, *, input_shape, width=3):
    return nn.Sequential(nn.Linear(input_shape[0], width), nn.Linear(width, num_outputs))

def words(num_outputs, vocabulary):
    return nn.Embedding(vocabulary, num_outputs)

def loose(**settings):
    assert set(settings) == {"num_outputs"}
    return nn.Linear(2, settings["num_outputs"])

def silent(): return nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
def narrow(): return nn.Linear(2, 5)
def greedy(num_outputs, depth): return nn.Linear(2, num_outputs)
def positional(num_outputs, /): return nn.Linear(2, num_outputs)
def wrong(num_outputs): return [num_outputs]
def broken(num_outputs): raise RuntimeError("no such layer")
constant = 3
built = nn.Linear(2, 3)
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return path


def build_file(name, **settings):
    return build_model(str(name), **{"input_shape": (2,), "num_outputs": 3, "seed": 0, **settings})


def test_own_classes_and_functions_get_what_they_name(own):
    assert build_file(f"{own}:Plain")(torch.zeros(1, 2)).shape == (1, 3)
    assert build_file(f"{own}:shaped", input_shape=(6,))(torch.zeros(1, 6)).shape == (1, 3)
    assert build_file(f"{own}:loose").out_features == 3
    assert build_file(f"{own}:silent")[1].out_features == 3  # two classes, and one added
    assert build_file(f"{own}:words", vocabulary=9).num_embeddings == 9


def test_own_models_are_seeded(own):
    first, second = build_file(f"{own}:Plain", seed=4), build_file(f"{own}:Plain", seed=4)
    assert torch.equal(first.fc.weight, second.fc.weight)


def test_own_file_may_import_its_neighbour(tmp_path):
    (tmp_path / "neighbour_of_own.py").write_text("WIDTH = 2")
    path = tmp_path / "net.py"
    path.write_text(
        "from torch import nn\nfrom neighbour_of_own import WIDTH\n"
        "def net(num_outputs): return nn.Linear(WIDTH, num_outputs)"
    )
    before = list(sys.path)
    assert build_file(f"{path}:net").in_features == 2
    assert sys.path == before


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("Plane", r"defines Plain, Width, broken.*; did you mean Plain\?"),
        ("narrow", "num_classes"),
        ("greedy", "needs depth, and only input_shape, num_outputs, vocabulary"),
        ("positional", "needs num_outputs, and only"),
        ("wrong", "must return a torch.nn.Module, got list"),
        ("broken", "raised RuntimeError: no such layer"),
        ("constant", "must name a class or a function, got .*constant, which is int"),
        ("built", "which is built already"),
    ],
)
def test_own_models_that_cannot_be_used(own, attribute, message):
    with pytest.raises(AbstainError, match=message):
        build_file(f"{own}:{attribute}")


def test_own_file_is_missing(tmp_path):
    with pytest.raises(AbstainError, match=r"file that exists, got .*gone\.py"):
        build_file(f"{tmp_path}/gone.py:Net")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import no_such_package_at_all", "ModuleNotFoundError"),
        ("def net(:", "SyntaxError"),
        ("import sys; sys.exit(3)", "SystemExit"),
    ],
)
def test_own_file_fails_on_import(tmp_path, source, message):
    path = tmp_path / "bad_own.py"
    path.write_text(source)
    before = list(sys.path)
    with pytest.raises(
        AbstainError, match=f"model must name a file that can be imported, got .* {message}"
    ):
        build_file(f"{path}:Net")
    assert sys.path == before
    assert "abstain_own_bad_own" not in sys.modules


# What to start with.


@pytest.mark.parametrize(
    ("kind", "shape", "name"),
    [
        ("table", (30,), "mlp"),
        ("text", (200,), "bag-of-words"),
        ("image", (1, 8, 8), "mlp"),
        ("image", (3, 15, 40), "mlp"),
        ("image", (1, 16, 16), "mnist-cnn"),
        ("image", (1, 28, 28), "mnist-cnn"),
        ("image", (3, 32, 32), "mnist-cnn"),
        ("image", (3, 64, 64), "mnist-cnn"),
        ("image", (3, 65, 64), "resnet18"),
    ],
)
def test_default_model_can_be_built(kind, shape, name):
    assert default_model(kind, shape) == name
    words = {"vocabulary": 20} if kind == "text" else {}
    model = build_model(name, input_shape=shape, num_outputs=3, **words).eval()
    inputs = torch.ones(2, *shape, dtype=torch.long if kind == "text" else torch.float32)
    with torch.no_grad():
        assert model(inputs).shape == (2, 3)


def test_default_model_refuses_what_it_does_not_know():
    with pytest.raises(AbstainError, match="kind must be image, table or text, got 'sound'"):
        default_model("sound", (1,))
    with pytest.raises(AbstainError, match="channels, height, width"):
        default_model("image", (28, 28))
