"""The network of a training: made by name or the caller's own, with an output to abstain."""

import logging
from pathlib import Path

import torch

from abstain.data import Encoder, LabeledData
from abstain.data.class_labels import spelt_alike
from abstain.embed.finetuning import FineTuningEncoder
from abstain.errors import AbstainError
from abstain.models import default_model, with_abstention
from abstain.models.own import is_own
from abstain.support.wording import some
from abstain.training import coteaching
from abstain.training.coteaching import Pair, partner_seed
from abstain.training.loop.task import Task
from abstain.training.recipe import Recipe
from abstain.training.saving.run_folder import make_model
from abstain.training.sources import image_size

_log = logging.getLogger(__name__)


def network_for(
    model: torch.nn.Module | None, task: Task, recipe: Recipe, *, resumed: bool
) -> tuple[torch.nn.Module, str | None]:
    """A model of m+1 outputs, and its name; None for a module that the caller made."""
    encoder, m = task.encoder, task.num_classes
    is_pair = recipe.method == coteaching.METHOD
    if model is not None and isinstance(model, Pair) != is_pair:
        raise AbstainError(
            f"must be a Pair of networks for method {coteaching.METHOD!r} and only for it, "
            f"got {type(model).__name__} for {recipe.method!r}; "
            "name a model to have two of it made",
            argument="model",
        )
    if model is None:
        if resumed and recipe.model is None:
            raise AbstainError(
                "must be given: the run was begun with a module of your own, got none",
                argument="model",
            )
        if isinstance(encoder, FineTuningEncoder):
            name = encoder.backbone.name
        else:
            name = recipe.model or default_model(encoder.sees, encoder.input_shape)
            if is_own(name):  # the file must still be found from elsewhere
                name = str(Path(name).absolute())
        model = make_model(name, encoder, m, recipe.seed_init)
        if (outputs := _outputs(model, task)) != m + 1:
            raise AbstainError(
                f"model {name} must have {m + 1} outputs, one for each class and one to abstain, "
                f"got {outputs}"
            )
        if is_pair:
            model = Pair(model, make_model(name, encoder, m, partner_seed(recipe.seed_init)))
        return model, name
    if isinstance(model, Pair):
        return Pair(_widened(model.first, task), _widened(model.second, task)), None
    return _widened(model, task), None


def log_scaling(data: LabeledData) -> None:
    """Log to which size images of several sizes were scaled by default."""
    if data.scaled:
        _log.warning(
            "images of %s have several sizes and are scaled to %d×%d pixels: image_size= "
            "(--image-size) says otherwise",
            data.name,
            *image_size(data),
        )


def warn_of_spellings(data: LabeledData) -> None:
    """Say which classes may be one that was spelt in two ways: each would pass for errors."""
    pairs = [" and ".join(map(repr, names)) for names in spelt_alike(data.classes)]
    if pairs:
        _log.warning(
            "classes of %s that differ in spelling only count as different ones: %s; write them "
            "alike if they are the same",
            data.name,
            some(pairs),
        )


def warn_of_values(data: LabeledData, encoder: Encoder) -> None:
    """Say which values of a table are not taken at their word: slips, or what no model knows."""
    if data.unknown:
        _log.warning(
            "categories of %s that the training data do not have count as missing: %s",
            data.name,
            some(data.unknown),
        )
    if found := encoder.too_far(data):
        _log.warning(
            "values of %s lie too far out to be taken at their word, and count as nearer ones: %s; "
            "correct them if they are slips",
            data.name,
            some(found),
        )


def warn_of_unread_texts(data: LabeledData) -> None:
    """Say which columns of a table a model does not see."""
    if data.texts:
        _log.warning(
            "texts of %s are left out, as no backbone is used: %s; backbone='small:wordllama' "
            "(--backbone small:wordllama) reads them, from: pip install 'abstain[small]'",
            data.name,
            some([*data.texts]),
        )


def warn_of_large_images(model: str | None, encoder: Encoder) -> None:
    """Say how a training on a CPU would be quicker, where the network was chosen for the size."""
    if model == "resnet18":
        _log.warning(
            "images of %d×%d pixels take long on a CPU: image_size=64 (--image-size 64) makes them "
            "smaller, for a network that is many times as fast",
            *encoder.input_shape[-2:],
        )


def _widened(model: torch.nn.Module, task: Task) -> torch.nn.Module:
    """A model of the caller with its abstention output."""
    m = task.num_classes
    return model if _outputs(model, task) == m + 1 else with_abstention(model, num_classes=m)


@torch.no_grad()
def _outputs(model: torch.nn.Module, task: Task) -> int:
    """How many outputs a model has for a sample of the data."""
    inputs = torch.stack([torch.as_tensor(task.training.inputs[0])])
    inputs = inputs.to(next(model.parameters(), torch.empty(0)).device)
    training = model.training
    try:
        outputs = model.eval()(task.encoder.to_model(inputs))
    except Exception as error:
        shape = tuple(inputs.shape)
        raise AbstainError(
            f"must take a batch of the shape {shape}, got {type(error).__name__}: {error}",
            argument="model",
        ) from error
    model.train(training)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise AbstainError(
            "must have weights to train, got none that require a gradient", argument="model"
        )
    if not isinstance(outputs, torch.Tensor) or outputs.ndim != 2:
        got = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else type(outputs).__name__
        raise AbstainError(
            f"must return logits of the shape (batch, outputs), got {got}", argument="model"
        )
    return outputs.shape[1]
