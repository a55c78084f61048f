"""The data of a training, loaded, with errors planted, and as its network sees them."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from accelerate import PartialState

from abstain.data import Encoder, LabeledData, fit_encoder
from abstain.embed.backbones.names import (
    AUTO,
    NONE,
    backbone_named,
    check_name,
    found_from_anywhere,
)
from abstain.embed.choice import BUDGET, Choice, choose
from abstain.embed.encoder import BackboneEncoder
from abstain.embed.finetuning import FineTuningEncoder
from abstain.embed.joined import JoinedEncoder
from abstain.errors import AbstainError
from abstain.noise import NoiseManifest
from abstain.training import coteaching
from abstain.training.agreement import agreed, by_all
from abstain.training.network import warn_of_unread_texts
from abstain.training.recipe import Recipe
from abstain.training.sources import load_sources, plant

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The data of a training, with errors planted where its recipe asks for them."""

    data: LabeledData
    test: LabeledData | None
    backbone: Choice
    """By what images and texts, also those of a table, are seen."""
    sources: Mapping[str, Any]
    """What the user named, and how to read it."""
    manifest: NoiseManifest | None = None
    """What was planted."""

    def resolved(self, recipe: Recipe) -> Recipe:
        """A recipe with all filled in that follows from the data."""
        recipe = replace(recipe, backbone=self.backbone.name)
        if self.data.kind == "text" and recipe.augment is None:
            recipe = replace(recipe, augment=False)
        recipe = recipe.resolved(
            num_samples=len(self.data),
            num_classes=self.data.num_classes,
            numbers=self.data.kind == "table" or self.backbone.name != NONE,
        )
        if self.data.weights is not None and recipe.method == coteaching.METHOD:
            raise AbstainError(
                f"must be left out for {recipe.method}, which chooses samples", argument="weights"
            )
        return recipe

    def encoder(self, *, finetune: bool, show: bool) -> Encoder:
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
            return JoinedEncoder.fit(data, network, reason=backbone.reason, show=show)
        return BackboneEncoder.fit(data, network, reason=backbone.reason, show=show)


def load_for(
    sources: Mapping[str, Any], backbone: str, *, budget: float = BUDGET, show: bool = False
) -> Prepared:
    """The data of a training, as its backbone needs them; nothing is planted.

    Args:
        sources: What the user named, and how to read it.
        backbone: A name, `auto` or `none`.
        budget: Seconds that the features may take, where a backbone is chosen.
        show: Show progress: bars on a terminal, a line a minute in a log.
    """
    check_name(backbone)
    backbone = found_from_anywhere(backbone)
    choice = Choice(backbone, "" if backbone == NONE else "named")
    own_size = {} if backbone == NONE else {"own_size": True}
    data, test = load_sources({**sources, "options": {**sources["options"], **own_size}})
    if data.kind == "table" and not data.texts and backbone not in (AUTO, NONE):
        raise AbstainError(
            f"must be left out for {data.name}, which holds numbers, got {backbone}",
            argument="backbone",
        )
    if backbone == AUTO:
        choice = choose(data, budget=budget, show=show)
        if choice.name == NONE and data.kind == "image":
            data, test = load_sources(sources)
    return Prepared(data=data, test=test, backbone=choice, sources=sources)


def prepare(
    sources: Mapping[str, Any],
    recipe: Recipe,
    backbone: str,
    state: PartialState,
    *,
    budget: float,
    show: bool,
) -> tuple[Prepared, Recipe]:
    """Load data and plant errors; and the recipe, with all filled in that follows from the data.

    Args:
        sources: What the user named, and how to read it.
        recipe: Not resolved yet.
        backbone: A name, `auto` or `none`.
        state: The processes that train together.
        budget: Seconds that the features may take, where a backbone is chosen.
        show: Show progress: bars on a terminal, a line a minute in a log.
    """
    clean = by_all(partial(load_for, sources, backbone, budget=budget, show=show), state)
    # Each timed the backbones by its own clock, which may leave out another one.
    clean = replace(clean, backbone=agreed(lambda: clean.backbone, state))
    recipe = clean.resolved(recipe)
    data, manifest = plant(clean.data, recipe)
    return replace(clean, data=data, manifest=manifest), recipe
