"""The image networks and the MLP against hand counts and slow, obvious versions.

Tests of vision.py, resnet.py, mlp.py and shapes.py.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional

from abstain.errors import AbstainError
from abstain.models import MLP, CifarCNN, MnistCNN, ResNet18
from abstain.models.resnet import BasicBlock


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_parameter_counts_are_the_published_ones():
    assert count(MnistCNN(10)) == (25 + 1) * 20 + (20 * 25 + 1) * 50 + 801 * 500 + 501 * 10
    assert count(CifarCNN(10)) == 62_006  # LeNet of the PyTorch tutorial
    assert count(ResNet18(10)) == 11_173_962  # the usual CIFAR-10 ResNet-18
    assert count(MLP(10, (784,), hidden=(256,))) == 785 * 256 + 257 * 10
    assert count(MLP(3, (30,))) == 31 * 256 + 257 * 256 + 257 * 3


def test_abstention_costs_one_row():
    for small, large, width in [
        (MnistCNN(10), MnistCNN(11), 500),
        (CifarCNN(10), CifarCNN(11), 84),
        (ResNet18(10), ResNet18(11), 512),
        (MLP(10, (5,)), MLP(11, (5,)), 256),
    ]:
        assert count(large) - count(small) == width + 1


@pytest.mark.parametrize("network", [MnistCNN, CifarCNN])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (4, 16, 16), (2, 21, 40)])
def test_small_cnns_take_other_images(network, shape):
    assert network(7, shape)(torch.rand(3, *shape)).shape == (3, 7)


@pytest.mark.parametrize("network", [MnistCNN, CifarCNN])
@pytest.mark.parametrize("shape", [(1, 15, 28), (1, 28, 15), (3, 8, 8)])
def test_small_cnns_refuse_images_that_vanish(network, shape):
    with pytest.raises(AbstainError, match=f"at least 16×16 pixels, got {shape[1]}×{shape[2]}"):
        network(7, shape)


@pytest.mark.parametrize("network", [MnistCNN, CifarCNN, ResNet18])
def test_image_networks_refuse_tables(network):
    with pytest.raises(AbstainError, match=r"\(channels, height, width\), got \(30,\)"):
        network(7, (30,))


@pytest.mark.parametrize("network", [MnistCNN, CifarCNN, ResNet18])
def test_one_output_is_refused(network):
    with pytest.raises(AbstainError, match="at least 2, got 1"):
        network(1)


@pytest.mark.parametrize("network", [MnistCNN, CifarCNN])
def test_pooling_before_relu_is_the_textbook_order(network):
    model = network(5, (2, 20, 20))
    images = torch.randn(4, 2, 20, 20)
    x = functional.max_pool2d(model.conv1(images).relu(), 2)
    x = functional.max_pool2d(model.conv2(x).relu(), 2).flatten(1)
    *hidden, last = [layer for layer in model.children() if isinstance(layer, nn.Linear)]
    for layer in hidden:
        x = layer(x).relu()
    torch.testing.assert_close(model(images), last(x), rtol=0, atol=0)


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (2, 9, 14)])
def test_resnet_takes_any_size(shape):
    model = ResNet18(4, shape)
    assert model(torch.rand(2, *shape)).shape == (2, 4)
    with pytest.raises(AbstainError, match="at least 8×8"):
        ResNet18(4, (3, 7, 8))


def test_resnet_halves_three_times_and_averages():
    model = ResNet18(4, (3, 16, 24)).eval()
    seen = []
    model.stages.register_forward_hook(lambda *event: seen.append(event[2]))
    images = torch.rand(2, 3, 16, 24)
    logits = model(images)
    assert seen[0].shape == (2, 512, 2, 3)
    mean = seen[0].reshape(2, 512, 6).sum(2) / 6
    torch.testing.assert_close(logits, model.fc(mean))


def test_block_without_residual_is_its_shortcut():
    block = BasicBlock(4, 4, stride=1).eval()
    nn.init.zeros_(block.bn2.weight)
    x = torch.randn(2, 4, 5, 5)
    torch.testing.assert_close(block(x), x.relu())


def test_block_matches_an_explicit_one():
    block = BasicBlock(3, 6, stride=2).double().eval()
    for norm in (block.bn1, block.bn2, block.shortcut[1]):
        nn.init.uniform_(norm.running_mean)
        nn.init.uniform_(norm.running_var, 0.5, 2)
        nn.init.uniform_(norm.weight)

    def normed(norm, x):
        scale = norm.weight / (norm.running_var + norm.eps).sqrt()
        return (x - norm.running_mean.view(1, -1, 1, 1)) * scale.view(1, -1, 1, 1) + (
            norm.bias.view(1, -1, 1, 1)
        )

    x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    first = normed(block.bn1, functional.conv2d(x, block.conv1.weight, stride=2, padding=1))
    second = normed(block.bn2, functional.conv2d(first.relu(), block.conv2.weight, padding=1))
    # A 1×1 convolution of stride 2 is a matrix applied to every other pixel.
    matrix = block.shortcut[0].weight[:, :, 0, 0]
    across = normed(block.shortcut[1], torch.einsum("oc,nchw->nohw", matrix, x[:, :, ::2, ::2]))
    torch.testing.assert_close(block(x), (second + across).relu())


@pytest.mark.parametrize("network", [MnistCNN, CifarCNN, ResNet18])
def test_channels_last_is_the_same_function(network):
    model = network(5, (3, 16, 16)).double().eval()
    images = torch.rand(2, 3, 16, 16, dtype=torch.float64)
    expected = model(images)
    model = model.to(memory_format=torch.channels_last)
    got = model(images.to(memory_format=torch.channels_last))
    torch.testing.assert_close(got, expected)


def test_mlp_is_a_chain_of_matrices():
    model = MLP(3, (2, 4), hidden=(6, 5)).double()
    inputs = torch.randn(7, 2, 4, dtype=torch.float64)
    x = inputs.reshape(7, 8)
    weights = list(model.parameters())
    for weight, bias in zip(weights[0:4:2], weights[1:4:2], strict=True):
        x = (x @ weight.T + bias).clamp(min=0)
    torch.testing.assert_close(model(inputs), x @ weights[4].T + weights[5])


def test_mlp_without_hidden_layers_is_linear():
    model = MLP(3, (4,), hidden=())
    assert count(model) == 5 * 3


def test_dropout_acts_in_training_only():
    model = MLP(3, (4,), dropout=0.5)
    inputs = torch.randn(8, 4)
    assert not torch.equal(model(inputs), model(inputs))
    model.eval()
    assert torch.equal(model(inputs), model(inputs))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"input_shape": ()}, "positive sizes"),
        ({"input_shape": (0,)}, "positive sizes"),
        ({"input_shape": (4,), "hidden": (8, 0)}, r"hidden must .* got \(8, 0\)"),
        ({"input_shape": (4,), "dropout": 1.0}, r"\[0, 1\), got 1.0"),
    ],
)
def test_mlp_says_what_is_wrong(settings, message):
    with pytest.raises(AbstainError, match=message):
        MLP(3, **settings)
