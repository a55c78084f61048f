"""What a user asks of a training: recipe and data, remembered by name, with errors planted."""

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from abstain import noise
from abstain.data import BUILTIN, LabeledData, load, splits
from abstain.data.features import are_numbers, is_feature_file, name_of
from abstain.data.source import divided, fitting, with_absolute_paths
from abstain.embed.backbones.names import AUTO, NONE
from abstain.errors import AbstainError
from abstain.support.wording import did_you_mean
from abstain.training.methods import DEFAULT_METHOD
from abstain.training.recipe import Recipe


def check_options(verb: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Raise for an argument that neither the verb nor `abstain.data.load` has."""
    known = [
        name
        for function in (verb, load)
        for name, about in inspect.signature(function).parameters.items()
        if about.kind is not about.VAR_KEYWORD and name not in ("labelled", "shown_only")
    ]
    for name, value in options.items():
        if name in {field.name for field in fields(Recipe)}:
            wording = repr(value) if name == "method" else f"'auto', {name}={value!r}"
            raise AbstainError(
                f"must be set in the recipe, Recipe.of({wording}), got it as an argument of "
                f"{verb.__name__}",
                argument=name,
            )
        if name not in known:
            near = did_you_mean(name, known) or f"; known are {', '.join(dict.fromkeys(known))}"
            raise AbstainError(f"arguments of {verb.__name__} must be known, got {name!r}{near}")


def recipe_or_default(
    recipe: Recipe | None, method: str | None = None, *, finetune: bool | None = None
) -> Recipe:
    """The recipe that was given, else that of a method, by default of `DEFAULT_METHOD`."""
    if recipe is None:
        settings = {} if finetune is None else {"finetune": finetune}
        return Recipe.of(method or DEFAULT_METHOD, **settings)
    if finetune is not None and finetune != recipe.finetune:
        raise AbstainError(
            f"must be set in the recipe where there is one, Recipe.of({recipe.method!r}, "
            f"finetune={finetune}), got it as an argument",
            argument="finetune",
        )
    return recipe


def wanted_backbone(recipe: Recipe, model: torch.nn.Module | None) -> str:
    """The backbone that a recipe asks for.

    A network that was named, or given, learns from the inputs themselves by default.
    """
    has_network = recipe.model is not None or model is not None
    return NONE if recipe.backbone == AUTO and has_network else recipe.backbone


def load_sources(sources: Mapping[str, Any]) -> tuple[LabeledData, LabeledData | None]:
    """The training data and, where there are any, those with right labels to look at."""
    source, test, options = sources["train"], sources["test"], reading(sources)
    if source is None:
        raise AbstainError(
            "must be given (data in memory also to resume), got none", argument="source"
        )
    features = options.get("features")
    if are_numbers(features):  # of the source, not of a test
        if test is not None:
            raise AbstainError(
                f"must be left out where features are {name_of(features)}, got {test}",
                argument="test",
            )
        return load(source, **options), None
    if test is None and not isinstance(source, LabeledData) and "test" in splits(source):
        test = source
    of_source, of_test = (options, {}) if test is None else divided(options, source, test)
    data = load(source, **of_source)
    if isinstance(test, LabeledData | None):
        return data, test
    as_trained: dict[str, Any] = {
        "classes": data.classes,
        "categories": data.categories,
        "texts": tuple(data.texts),
    }
    if data.kind == "image" and not options.get("own_size"):  # as predict does
        as_trained |= fitting(test, {"image_size": image_size(data)})
    try:
        split = "test" if "test" in splits(test) else "train"
        return data, load(test, **{**of_test, **as_trained, "weights": None, "split": split})
    except AbstainError as error:
        if error.argument != "source":
            raise
        raise error.about("test") from error


def image_size(data: LabeledData) -> tuple[int, int]:
    """Height and width of the images."""
    height, width = torch.as_tensor(data.inputs[0]).shape[-2:]
    return height, width


def reading(sources: Mapping[str, Any]) -> dict[str, Any]:
    """How sources are to be read, as options of `abstain.data.load`; JSON has only lists."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in sources["options"].items()}


def remembered(sources: Mapping[str, Any]) -> dict[str, Any]:
    """The sources as a folder can remember them: names and paths; data in memory are None."""

    def name(source: object) -> str | None:
        if not isinstance(source, str | os.PathLike):
            return None
        text = os.fspath(source)
        if isinstance(source, str) and text in BUILTIN:  # also beside a folder of that name
            return text
        # A relative path must still be found when the run is taken up from elsewhere.
        return os.path.abspath(text) if os.path.exists(text) else text  # noqa: PTH100, PTH110

    features = sources["options"].get("features")
    if are_numbers(features) and not is_feature_file(features):
        return {"train": None, "test": name(sources["test"]), "options": {}}
    options = with_absolute_paths(sources["options"])
    return {"train": name(sources["train"]), "test": name(sources["test"]), "options": options}


def recalled(sources: Mapping[str, Any]) -> dict[str, Any]:
    """Remembered sources as they can be found here.

    A folder of sets that this machine does not have is forgotten: sets are then looked for where
    they are without one, and whether they are the same is for the caller to check. So is what an
    earlier version of abstain took and passed over.
    """
    known = [source for source in (sources["train"], sources.get("test")) if source is not None]
    used = [fitting(source, sources["options"]) for source in known] or [sources["options"]]
    options = {name: x for its in used for name, x in its.items()}
    if not os.path.isdir(options.get("data_dir") or "."):  # noqa: PTH112
        del options["data_dir"]
    return {**sources, "options": options}


def plant(data: LabeledData, recipe: Recipe) -> tuple[LabeledData, noise.NoiseManifest | None]:
    """Flip the labels that the recipe asks for; the labels as they came are then the true ones."""
    if not recipe.flip:
        return data, None
    inputs = data.inputs
    if recipe.flip_kind == "instance" and not isinstance(inputs, torch.Tensor):
        raise AbstainError(
            f"'instance' needs numbers in memory as inputs, got {data.kind} data from {data.name}",
            argument="flip_kind",
        )
    manifest = planted(recipe, data.given.numpy(), np.asarray(data.ids), inputs, data.num_classes)
    given = torch.from_numpy(manifest.given)
    true = data.given if data.true is None else data.true
    return replace(data, given=given, true=true), manifest


def planted(
    recipe: Recipe,
    labels: npt.NDArray[np.int64],
    ids: npt.ArrayLike,
    inputs: Any,  # noqa: ANN401
    num_classes: int,
) -> noise.NoiseManifest:
    """The labels with the errors that a recipe asks for; of `inputs` only "instance" has a use."""
    features = None
    if recipe.flip_kind == "instance":
        features = inputs.flatten(1).float().nan_to_num().numpy(force=True)
    return noise.plant(
        labels,
        ids,
        recipe.flip_kind,
        recipe.flip,
        recipe.seed_noise,
        num_classes=num_classes,
        features=features,
    )
