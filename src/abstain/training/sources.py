"""The data of a training: named by the user, loaded, with errors planted, encoded."""

import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from accelerate import PartialState

from abstain import noise
from abstain.data import Encoder, LabeledData, fit_encoder, load
from abstain.data.class_labels import spelt_alike
from abstain.data.source import Source, image_size
from abstain.embed.backbones.names import (
    AUTO,
    NONE,
    backbone_named,
    check_name,
    found_from_anywhere,
)
from abstain.embed.choice import BUDGET, ChosenBackbone, choose
from abstain.embed.encoder import BackboneEncoder
from abstain.embed.finetuning import FineTuningEncoder
from abstain.embed.joined import JoinedEncoder
from abstain.errors import AbstainError
from abstain.noise import NoiseManifest
from abstain.support.wording import did_you_mean, some
from abstain.training.plan import Plan
from abstain.training.processes import agreed, by_all
from abstain.training.recipe import DEFAULT_METHOD, Recipe, plan_of


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


def plan_for(
    recipe: Recipe | Plan | None, method: str | None = None, *, finetune: bool | None = None
) -> Plan:
    """The plan of a recipe, or of a method, by default of `DEFAULT_METHOD`; nothing is resolved."""
    if recipe is None:
        settings = {} if finetune is None else {"finetune": finetune}
        return plan_of(method or DEFAULT_METHOD, **settings)
    if finetune is not None and finetune != recipe.finetune:
        raise AbstainError(
            f"must be set in the recipe where there is one, Recipe.of({recipe.method!r}, "
            f"finetune={finetune}), got it as an argument",
            argument="finetune",
        )
    return recipe.plan() if isinstance(recipe, Recipe) else recipe


def wanted_backbone(plan: Plan, model: torch.nn.Module | None) -> str:
    """The backbone that a plan asks for.

    A network that was named, or given, learns from the inputs themselves by default.
    """
    has_network = plan.model is not None or model is not None
    return NONE if plan.backbone == AUTO and has_network else plan.backbone


def plant(data: LabeledData, plan: Plan) -> tuple[LabeledData, noise.NoiseManifest | None]:
    """Flip the labels that the plan asks for; the labels as they came are then the true ones."""
    if not plan.flip:
        return data, None
    inputs = data.inputs
    if plan.flip_kind == "instance" and not isinstance(inputs, torch.Tensor):
        raise AbstainError(
            f"'instance' needs numbers in memory as inputs, got {data.kind} data from {data.name}",
            argument="flip_kind",
        )
    manifest = planted(plan, data.given.numpy(), np.asarray(data.ids), inputs, data.num_classes)
    given = torch.from_numpy(manifest.given)
    true = data.given if data.true is None else data.true
    return replace(data, given=given, true=true), manifest


def planted(
    plan: Plan,
    labels: npt.NDArray[np.int64],
    ids: npt.ArrayLike,
    inputs: Any,  # noqa: ANN401
    num_classes: int,
) -> noise.NoiseManifest:
    """The labels with the errors that a plan asks for; of `inputs` only "instance" has a use."""
    features = None
    if plan.flip_kind == "instance":
        features = inputs.flatten(1).float().nan_to_num().numpy(force=True)
    return noise.plant(
        labels,
        ids,
        plan.flip_kind,
        plan.flip,
        plan.seed_noise,
        num_classes=num_classes,
        features=features,
    )


_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The data of a training, with errors planted where its plan asks for them."""

    data: LabeledData
    test: LabeledData | None
    backbone: ChosenBackbone
    """Backbone of images and texts, also those of a table."""
    source: Source
    manifest: NoiseManifest | None = None
    """The planted errors."""

    def resolved(self, plan: Plan) -> Plan:
        """A plan with all filled in that follows from the data."""
        plan = replace(plan, backbone=self.backbone.name)
        if self.data.kind == "text" and plan.augment is None:
            plan = replace(plan, augment=False)
        return plan.resolved(
            num_samples=len(self.data),
            num_classes=self.data.num_classes,
            numbers=self.data.kind == "table" or self.backbone.name != NONE,
        )

    def encoder(self, *, finetune: bool) -> Encoder:
        """The encoder of a training, fitted to its data."""
        data, backbone = self.data, self.backbone
        if backbone.name == NONE and finetune:
            why = f": {backbone.reason}" if backbone.reason else ""
            raise AbstainError(
                f"needs a backbone, got none for {data.name}{why}", argument="finetune"
            )
        if backbone.name == NONE:
            encoder = fit_encoder(data)
            warn_of_unread_texts(data)
            return encoder
        _log.info("%s by %s: %s", data.name, backbone.name, backbone.reason)
        network = backbone_named(backbone.name, "text" if data.texts else data.kind)
        if finetune:
            return FineTuningEncoder.fit(data, network, reason=backbone.reason)
        if data.texts:
            return JoinedEncoder.fit(data, network, reason=backbone.reason)
        return BackboneEncoder.fit(data, network, reason=backbone.reason)


def load_for(source: Source, backbone: str, *, budget: float = BUDGET) -> Prepared:
    """The data of a training, as its backbone needs them; nothing is planted.

    Args:
        source: What the user named, and how to read it.
        backbone: A name, `auto` or `none`.
        budget: Seconds that the features may take, where a backbone is chosen.
    """
    check_name(backbone)
    backbone = found_from_anywhere(backbone)
    choice = ChosenBackbone(backbone, "" if backbone == NONE else "named")
    data, test = source.load(**({} if backbone == NONE else {"own_size": True}))
    if data.kind == "table" and not data.texts and backbone not in (AUTO, NONE):
        raise AbstainError(
            f"must be left out for {data.name}, which holds numbers, got {backbone}",
            argument="backbone",
        )
    if backbone == AUTO:
        choice = choose(data, budget=budget)
        if choice.name == NONE and data.kind == "image":
            data, test = source.load()
    return Prepared(data=data, test=test, backbone=choice, source=source)


def prepare(
    source: Source,
    plan: Plan,
    backbone: str,
    state: PartialState,
    *,
    budget: float,
) -> tuple[Prepared, Plan]:
    """Load data and plant errors; and the plan, with all filled in that follows from the data.

    Args:
        source: What the user named, and how to read it.
        plan: Not resolved yet.
        backbone: A name, `auto` or `none`.
        state: The processes that train together.
        budget: Seconds that the features may take, where a backbone is chosen.
    """
    clean = by_all(partial(load_for, source, backbone, budget=budget), state)
    # Each timed the backbones by its own clock, which may leave out another one.
    clean = replace(clean, backbone=agreed(lambda: clean.backbone, state))
    plan = clean.resolved(plan)
    data, manifest = plant(clean.data, plan)
    return replace(clean, data=data, manifest=manifest), plan


def log_scaling(data: LabeledData) -> None:
    """Log to which size images of several sizes were scaled by default."""
    if data.scaled:
        _log.warning(
            "images of %s have several sizes and are scaled to %d×%d pixels: image_size= "
            "(--image-size) sets another size",
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
    """Warn of values of a table that are clipped, and of categories that the model cannot know."""
    if data.unknown:
        _log.warning(
            "categories of %s that the training data do not have count as missing: %s",
            data.name,
            some(data.unknown),
        )
    if found := encoder.too_far(data):
        _log.warning(
            "values of %s are extreme and are clipped: %s; correct them if they are mistakes",
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
