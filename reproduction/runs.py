"""A run: a recipe on a data set with a network, and the name that follows from these."""

import hashlib
import json
from dataclasses import MISSING, dataclass, fields, replace
from functools import cached_property
from typing import Any

from abstain.training.plan import Plan
from reproduction.authors_plan import AuthorsPlan, recipe_from_json

# These always count. A setting that a later version adds counts only where it is not left at its
# default, so that runs that were made without it keep their names.
_COUNTED = (
    "method",
    "loss",
    "payoff",
    "guard",
    "q",
    "truncate",
    "warm_up",
    "epochs",
    "batch",
    "optimizer",
    "learning_rate",
    "weight_decay",
    "schedule",
    "clip",
    "stop",
    "rate",
    "noise",
    "patience",
    "hold_out",
    "flip",
    "flip_kind",
)
_SEEDS = ("seed_noise", "seed_init", "seed_order")
# How a machine computes: recorded with a run, but not part of what was asked for. Runs of the paper
# name their network, which learns from the inputs as they are: without backbone or augmentation.
_MACHINE = ("precision", "model", "backbone", "finetune", "augment")
# Settings of how a machine computes that runs were recorded with, and recipes no longer have.
_ONCE = ("memory_format", "parts")
_DEFAULTS = {f.name: f.default for f in fields(AuthorsPlan) if f.default is not MISSING}


@dataclass(frozen=True, kw_only=True)
class Run:
    """The request for one training.

    >>> run = Run(data="mnist", network="mnist-cnn", recipe=Plan(epochs=50, batch=128))
    >>> run.name == run.with_seed(0).name, run.name == run.with_seed(1).name
    (True, False)
    >>> run.cell == run.with_seed(1).cell
    True
    """

    data: str
    network: str
    recipe: Plan

    @cached_property
    def name(self) -> str:
        """Its name in a store: 16 hexadecimal digits from all that decides what it gives."""
        seeds = {name: getattr(self.recipe, name) for name in _SEEDS}
        return _digest({**self._settings(), **seeds})

    @cached_property
    def cell(self) -> str:
        """The same without the seeds: what the repetitions of a run have in common."""
        return _digest(self._settings())

    @property
    def seed(self) -> int:
        """The number of the repetition."""
        return self.recipe.seed_noise

    def with_seed(self, seed: int) -> "Run":
        """The same with other noise, other initial weights and another order."""
        recipe = replace(self.recipe, seed_noise=seed, seed_init=seed, seed_order=seed)
        return replace(self, recipe=recipe)

    def with_payoff(self, payoff: float) -> "Run":
        """The same with another payoff."""
        return replace(self, recipe=replace(self.recipe, payoff=payoff))

    def _settings(self) -> dict[str, Any]:
        values = self.recipe.as_json()
        counted = {name: values[name] for name in _COUNTED}
        for name in set(values) - {*_COUNTED, *_SEEDS, *_MACHINE}:
            if values[name] != _DEFAULTS.get(name):
                counted[name] = values[name]
        return {"data": self.data, "network": self.network, "recipe": counted}

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return {"data": self.data, "network": self.network, "recipe": self.recipe.as_json()}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Run":
        """The run that `as_json` wrote."""
        known = {name: x for name, x in values["recipe"].items() if name not in _ONCE}
        recipe = recipe_from_json(known)
        return cls(data=values["data"], network=values["network"], recipe=recipe)


def _digest(values: dict[str, Any]) -> str:
    return hashlib.sha256(_canonical(values).encode()).hexdigest()[:16]


def _canonical(values: dict[str, Any]) -> str:
    """JSON in which a whole number is written alike, as 1 or as 1.0."""
    return json.dumps(_plain(values), sort_keys=True, separators=(",", ":"))


def _plain(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
