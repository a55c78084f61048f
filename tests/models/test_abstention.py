"""Widening a classifier: class logits stay, abstention starts low, doubtful heads are refused."""

from math import log

import pytest
import torch
import torch.nn.utils.prune
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from abstain.errors import AbstainError
from abstain.models import MODELS, build_model, with_abstention


class HeadFirst(nn.Module):
    """Registers its head before its body, as some published models do."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(6, 4)
        self.body = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 6))

    def forward(self, x):
        return self.head(self.body(x))


def chain(classes=3):
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, classes))


@pytest.mark.parametrize("name", MODELS)
def test_class_logits_of_our_own_networks_stay(name):
    words = {"vocabulary": 20} if name == "bag-of-words" else {}
    model = build_model(name, input_shape=(3, 16, 16), num_outputs=5, seed=0, **words).eval()
    inputs = torch.tensor([[3, 4], [5, 0]]) if words else torch.rand(2, 3, 16, 16)
    before = model(inputs)
    after = with_abstention(model)(inputs)
    torch.testing.assert_close(after[:, :5], before)
    torch.testing.assert_close(after[:, 5], before.mean(1), rtol=1e-4, atol=1e-5)


def test_the_module_itself_is_changed():
    model = chain()
    assert with_abstention(model) is model
    assert model[2].out_features == 4
    assert repr(model[2]) == "Linear(in_features=8, out_features=4, bias=True)"
    assert [tuple(p.shape) for p in model[2].parameters()] == [(4, 8), (4,)]


def test_a_bare_linear_layer_is_a_classifier():
    assert with_abstention(nn.Linear(4, 3))(torch.zeros(2, 4)).shape == (2, 4)


@settings(max_examples=50, deadline=None)
@given(
    classes=st.integers(2, 30),
    offset=st.floats(-50, 50),
    scale=st.floats(0, 20),
    payoff=st.floats(1.1, 30),
    seed=st.integers(0, 1000),
)
def test_abstention_starts_low_and_so_does_the_loss(classes, offset, scale, payoff, seed):
    generator = torch.Generator().manual_seed(seed)
    layer = nn.Linear(6, classes).double()
    with torch.no_grad():
        layer.weight.copy_(scale * torch.randn(classes, 6, generator=generator))
        layer.bias.copy_(offset + torch.randn(classes, generator=generator))
    inputs = torch.randn(20, 6, generator=generator, dtype=torch.float64)
    labels = torch.randint(classes, (20,), generator=generator)
    cross_entropy = nn.functional.cross_entropy(layer(inputs), labels, reduction="none")
    probabilities = with_abstention(layer)(inputs).softmax(1)
    abstention = probabilities[:, -1]
    assert (abstention <= 1 / (classes + 1) + 1e-12).all()
    bet = probabilities.gather(1, labels[:, None]).squeeze(1) + abstention / payoff
    assert (-bet.log() <= cross_entropy + log((classes + 1) / classes) + 1e-9).all()


def test_a_head_of_zeros_starts_at_the_untrained_loss():
    layer = nn.Linear(6, 10)
    nn.init.zeros_(layer.weight)
    nn.init.constant_(layer.bias, -8.0)
    probabilities = with_abstention(layer)(torch.randn(3, 6)).softmax(1)
    torch.testing.assert_close(probabilities, torch.full((3, 11), 1 / 11))


def test_without_bias():
    layer = with_abstention(nn.Linear(4, 3, bias=False))
    assert layer.bias is None
    assert layer(torch.rand(2, 4)).shape == (2, 4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_dtype_and_freezing_are_kept(dtype):
    layer = nn.Linear(4, 3).to(dtype)
    layer.weight.requires_grad_(False)
    with_abstention(layer)
    assert layer.weight.dtype is dtype
    assert layer.bias.dtype is dtype
    assert not layer.weight.requires_grad
    assert layer.bias.requires_grad


def test_the_new_output_can_be_trained():
    model = with_abstention(chain())
    model(torch.randn(6, 5)).softmax(1)[:, -1].sum().backward()
    assert model[2].weight.grad[-1].abs().sum() > 0


def test_convolutional_head_of_one_pixel():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    ).to(memory_format=torch.channels_last)
    images = torch.rand(2, 3, 9, 9)
    before = model(images)
    after = with_abstention(model)(images)
    torch.testing.assert_close(after[:, :4], before)
    assert after.shape == (2, 5)
    assert model[2].out_channels == 5


def test_convolutions_that_are_no_heads_are_passed_over():
    grouped = nn.Sequential(nn.Conv2d(4, 4, 1, groups=2), nn.Conv2d(4, 4, 3))
    with pytest.raises(AbstainError, match=r"no nn\.Linear and no 1×1"):
        with_abstention(grouped)


def test_a_head_registered_first_needs_num_classes():
    with pytest.raises(AbstainError, match=r"'body\.2'.*could take its 6 outputs; say num_classes"):
        with_abstention(HeadFirst())
    model = HeadFirst()
    inputs = torch.randn(2, 5)
    before = model(inputs)
    after = with_abstention(model, num_classes=4)(inputs)
    torch.testing.assert_close(after[:, :4], before)
    assert model.head.out_features == 5


def test_weights_after_the_last_linear_layer_need_num_classes():
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4))
    with pytest.raises(AbstainError, match=r"'0'.*other weights are registered after it; say num"):
        with_abstention(model)
    assert with_abstention(model, num_classes=4)[0].out_features == 5


def test_the_last_of_several_layers_of_the_same_width_is_the_head():
    model = with_abstention(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)), num_classes=3)
    assert [layer.out_features for layer in model] == [3, 4]


def test_head_by_name_where_the_width_does_not_tell():
    model = nn.ModuleDict(
        {"head": nn.Linear(3, 3), "body": nn.Linear(3, 3), "norm": nn.LayerNorm(3)}
    )
    with pytest.raises(AbstainError, match="say head="):
        with_abstention(model, num_classes=3)
    with_abstention(model, head="head")
    assert [model["head"].out_features, model["body"].out_features] == [4, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_classes": 7}, r"no linear layer .* 7 outputs; .* 8 \(0\), 3 \(2\)"),
        ({"num_classes": 2}, "Was it widened before"),
        ({"head": "fc"}, "must name a layer of the module, got 'fc'"),
        ({"head": "1"}, "'1' is a ReLU"),
        ({"head": "2", "num_classes": 8}, "num_classes is 8, but 2 has 3 outputs"),
    ],
)
def test_arguments_that_do_not_fit(arguments, message):
    model = chain()
    with pytest.raises(AbstainError, match=message):
        with_abstention(model, **arguments)
    assert model[2].weight.shape == (3, 8)


def test_widening_twice_is_refused():
    model = with_abstention(chain())
    for arguments in ({}, {"num_classes": 3}, {"num_classes": 4}, {"head": "2"}):
        with pytest.raises(AbstainError, match="already has an abstention output"):
            with_abstention(model, **arguments)
    assert model[2].out_features == 4


@pytest.mark.parametrize(
    "parametrise",
    [
        nn.utils.parametrizations.weight_norm,
        nn.utils.parametrizations.orthogonal,
        lambda layer: nn.utils.prune.l1_unstructured(layer, "weight", 0.5),
    ],
)
def test_parametrised_heads_are_refused(parametrise):
    model = chain()
    parametrise(model[2])
    with pytest.raises(AbstainError, match="weights of 2 are parametrised"):
        with_abstention(model)
    assert model(torch.zeros(1, 5)).shape == (1, 3)


def test_shared_weights_are_refused():
    model = nn.Sequential(nn.Embedding(6, 4), nn.Linear(4, 6))
    model[1].weight = model[0].weight
    with pytest.raises(AbstainError, match=r"shared by 0\.weight, 1\.weight"):
        with_abstention(model)
    layer = nn.Linear(4, 4)
    with pytest.raises(AbstainError, match="shared by"):
        with_abstention(nn.Sequential(layer, nn.ReLU(), layer))
    assert layer.out_features == 4


def test_lazy_heads_subclasses_and_single_outputs_are_refused():
    with pytest.raises(AbstainError, match="lazy"):
        with_abstention(nn.LazyLinear(3))

    class Scaled(nn.Linear):
        pass

    with pytest.raises(AbstainError, match="is a Scaled"):
        with_abstention(Scaled(4, 3))
    with pytest.raises(AbstainError, match="has 1 output"):
        with_abstention(chain(classes=1))


def test_no_linear_layer_at_all():
    with pytest.raises(AbstainError, match="to widen"):
        with_abstention(nn.LSTM(3, 4))
