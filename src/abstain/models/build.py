"""A network by its name, with its own seed."""

from contextlib import ExitStack
from difflib import get_close_matches

import torch
from torch import nn

from abstain.errors import AbstainError
from abstain.models.mlp import MLP
from abstain.models.own import build_own, is_own
from abstain.models.resnet import ResNet18
from abstain.models.text import BagOfWords
from abstain.models.vision import CifarCNN, MnistCNN

MODELS = ("mnist-cnn", "cifar-cnn", "resnet18", "bag-of-words", "mlp")
"""The names that `build_model` knows."""


def build_model(
    name: str,
    *,
    input_shape: tuple[int, ...],
    num_outputs: int,
    vocabulary: int | None = None,
    seed: int | None = None,
) -> nn.Module:
    """Build a network by its name, on the CPU.

    Args:
        name: One of `MODELS`, or `PATH.py:NAME` for a class or function of the user's, which is
            called with num_outputs and, where it has parameters of these names, with input_shape,
            vocabulary.
        input_shape: The shape of one sample: (channels, height, width), (columns,) or (length,).
        num_outputs: Classes, plus one where the model may abstain; abstention is the last output.
        vocabulary: For texts: how many tokens there are, padding included.
        seed: What the initial weights are drawn from; the same seed gives the same weights, and
            the global generator is left as it was. Without a seed they come from the global one.

    >>> build_model("mlp", input_shape=(30,), num_outputs=3, seed=0)(torch.zeros(2, 30)).shape
    torch.Size([2, 3])
    >>> build_model("resnet-18", input_shape=(3, 32, 32), num_outputs=11)
    Traceback (most recent call last):
    abstain.errors.AbstainError: model must be one of mnist-cnn, cifar-cnn, resnet18, \
bag-of-words, mlp, or PATH.py:NAME for your own, got 'resnet-18'; did you mean resnet18?
    """
    with ExitStack() as stack:
        # On the CPU whatever the default device is: the same seed then gives the same weights on
        # every machine, and there is only one generator to look after.
        stack.enter_context(torch.device("cpu"))
        if seed is not None:
            # The layers of torch.nn draw from the global generator and take no other, so it is
            # lent out and put back: a library must not change what its user draws next. Only the
            # CPU's is seeded: torch.manual_seed would reset those of all GPUs as well.
            stack.enter_context(torch.random.fork_rng(devices=[]))
            torch.default_generator.manual_seed(seed)
        if is_own(name):
            others = {"input_shape": input_shape, "vocabulary": vocabulary}
            return build_own(name, num_outputs, others)
        return _build_known(name, input_shape, num_outputs, vocabulary)


def _build_known(
    name: str,
    input_shape: tuple[int, ...],
    num_outputs: int,
    vocabulary: int | None,
) -> nn.Module:
    if name == "bag-of-words":
        if vocabulary is None:
            raise AbstainError(
                f"must be one that reads numbers, as the samples are of shape {input_shape}, got "
                f"{name!r}, which reads the words of texts; use mlp, or resnet18 for images",
                argument="model",
            )
        return BagOfWords(num_outputs, vocabulary)
    _check_name(name)
    if vocabulary is not None:
        raise AbstainError(
            f"must be bag-of-words for the words of texts, got {name!r}, which reads numbers",
            argument="model",
        )
    if name == "mnist-cnn":
        return MnistCNN(num_outputs, input_shape)
    if name == "cifar-cnn":
        return CifarCNN(num_outputs, input_shape)
    if name == "resnet18":
        return ResNet18(num_outputs, input_shape)
    return MLP(num_outputs, input_shape)


def _check_name(name: str) -> None:
    if name.endswith(".py"):
        raise AbstainError(f"{name} must say what to use of that file, as in {name}:Net")
    if name not in MODELS:
        close = get_close_matches(name.lower(), MODELS, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise AbstainError(
            f"must be one of {', '.join(MODELS)}, or PATH.py:NAME for your own, got {name!r}{hint}",
            argument="model",
        )
