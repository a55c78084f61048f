"""A user's request for a training: a method by name, and its changes.

`METHODS` are the methods; a `Recipe` becomes a `Plan`, with nothing left open, by the data.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Any

from abstain.errors import AbstainError
from abstain.losses.payoff import PayoffRule
from abstain.training.plan import OptimizerName, Plan, Precision, StopName, check_known

METHODS: dict[str, dict[str, Any]] = {
    "auto": {"loss": "trusted", "warm_up_ends": "held-out", "average": 2.0},
    "schedule": {},
    "schedule-released": {"guard": 1e-10},
    "mid": {"payoff": "mid"},
    "exp": {"payoff": "exp"},
    "small-stake": {"loss": "small-stake"},
    "gamblers": {"payoff": None},
    "aes": {"payoff": None, "stop": "analytical", "warm_up": 0},
    "ves": {"payoff": None, "stop": "validation"},
    "lq": {"loss": "lq", "warm_up": 0},
    "lq-truncated": {"loss": "lq", "truncate": 0.5},
    "nll": {"loss": "nll"},
    # Cross-entropy is the gambler's loss at an infinite payoff, and its plateau is the entropy of
    # the labels.
    "nll-entropy": {"payoff": math.inf, "stop": "analytical", "warm_up": 0},
}
"""The methods by name: the settings in which each differs from the defaults of the fields."""

FINETUNE: dict[str, Any] = {
    "optimizer": "adamw",
    "learning_rate": 3e-3,
    "weight_decay": 0.01,
    "schedule": "one-cycle",
    "epochs": 8,
}
"""The settings in which fine-tuning differs from any method, unless the user gives others."""

DEFAULT_METHOD = "auto"
"""The method where none is given."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A user's request for a training; None leaves a setting to the method and to the data.

    >>> Recipe.of("aes", rate=0.2).resolved(num_samples=50_000, num_classes=10).payoff
    9.99
    """

    method: str = "schedule"
    """One of `METHODS`; `train` and `audit` without a recipe take `DEFAULT_METHOD`."""
    payoff: float | PayoffRule | None = None
    """Payoff of a correct bet: a number, or a rule."""
    rate: float | None = None
    """Noise rate, for methods that need it."""
    warm_up: int | None = None
    """Epochs of cross-entropy before the loss of the method."""
    epochs: int | None = None
    batch: int | None = None
    """Samples per step, over all processes together."""
    model: str | None = None
    backbone: str = "auto"
    """The pretrained network for images and texts: a name (see
    `abstain.embed.backbones.names`), `auto` for the best on this machine, or `none` to learn from
    scratch, as a named model always does."""
    finetune: bool | None = None
    """Whether the backbone is trained too, with the settings of `FINETUNE`. None: for images, where
    the budget allows to try it, and held-out labels show that it is better."""
    augment: bool | tuple[str, ...] | None = None
    """Whether images are changed at random each time they are seen, in every way that held-out
    labels show to be safe; or in which ways; by default where a backbone is fine-tuned."""
    optimizer: OptimizerName | None = None
    learning_rate: float | None = None
    precision: Precision = "auto"
    """Auto follows from the device and the size of a batch."""
    flip: float | None = None
    """Share of labels to flip on purpose."""
    flip_kind: str | None = None
    seed: int = 0
    """Seed of the first weights, of the order of samples and, by default, of the flips."""
    seed_noise: int | None = None

    @classmethod
    def of(cls, method: str, **changes: Any) -> "Recipe":  # noqa: ANN401
        """The recipe of a named method (`METHODS`), with changes."""
        check_known([field.name for field in fields(cls)], changes)
        return cls(method=method, **changes)

    def __post_init__(self) -> None:
        self.plan()  # raises for what cannot be

    def plan(self) -> Plan:
        """The plan that is asked for; `resolved` fills in what follows from the data."""
        asked = {field.name: getattr(self, field.name) for field in fields(self)}
        del asked["method"]
        settings = {name: value for name, value in asked.items() if value is not None}
        return plan_of(self.method, **with_seeds(settings))

    def resolved(self, *, num_samples: int, num_classes: int, numbers: bool = False) -> Plan:
        """The plan for data of this size: see `Plan.resolved`."""
        return self.plan().resolved(
            num_samples=num_samples, num_classes=num_classes, numbers=numbers
        )


def with_seeds(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a plan, in which one seed stands for the three.

    >>> with_seeds({"seed": 1, "seed_noise": 5})
    {'seed_noise': 5, 'seed_init': 1, 'seed_order': 1}
    """
    others = {name: value for name, value in settings.items() if name != "seed"}
    if "seed" not in settings:
        return others
    seed = settings["seed"]
    return {"seed_noise": seed, "seed_init": seed, "seed_order": seed, **others}


def plan_of(method: str, **changes: Any) -> Plan:  # noqa: ANN401
    """The plan of a named method, with any setting of a plan changed."""
    if not isinstance(method, str) or method not in METHODS:
        near = get_close_matches(str(method), METHODS, 1)
        raise AbstainError(
            f"must be one of {', '.join(METHODS)}, got {method!r}"
            + (f"; did you mean {near[0]}?" if near else ""),
            argument="method",
        )
    check_known([field.name for field in fields(Plan)], changes)
    start = FINETUNE if changes.get("finetune") else {}
    settings = {"method": method, **METHODS[method], **start, **changes}
    if "warm_up" in changes and "warm_up_ends" not in changes:
        settings["warm_up_ends"] = "fixed"
    plan = Plan(**settings)
    check_used(plan, changes)
    return plan


def check_used(plan: Plan, given: Mapping[str, Any]) -> None:
    """Raise for a setting that was given and that a plan makes no use of.

    >>> check_used(plan_of("auto"), {"rate": 0.2})
    Traceback (most recent call last):
    abstain.errors.AbstainError: rate must be left out for method 'auto', which makes no use \
of it, got 0.2; it is for methods gamblers, aes, ves, nll-entropy
    """
    for name, uses in _USED_BY.items():
        if name in given and not uses(plan):
            users = [other for other, its in METHODS.items() if uses(_bare(other, its))]
            here = f"method {plan.method!r}"
            if plan.method in users:  # if it were not for another setting
                here = f"payoff {plan.payoff!r}"
            raise AbstainError(
                f"must be left out for {here}, which makes no use of it, "
                f"got {given[name]!r}; it is for {'method' if len(users) == 1 else 'methods'} "
                f"{', '.join(users)}",
                argument=name,
            )
    if "flip_kind" in given and not (plan.flip or "flip" in given):
        raise AbstainError(
            f"must come with flip, the share of labels to flip, got {given['flip_kind']!r} alone",
            argument="flip_kind",
        )


def fine_tuned(plan: Plan) -> Plan:
    """A plan for a backbone that is trained too; to be called before `resolved`.

    Settings that were left at their defaults become those of `FINETUNE`.

    >>> fine_tuned(plan_of("auto")) == plan_of("auto", finetune=True)
    True
    """
    usual = {field.name: field.default for field in fields(Plan)}
    start = {name: x for name, x in FINETUNE.items() if getattr(plan, name) == usual[name]}
    stop: StopName = "never" if plan.stop == "settled" else plan.stop
    return replace(plan, finetune=True, stop=stop, **start)


_USED_BY: dict[str, Callable[[Plan], bool]] = {
    "payoff": lambda plan: plan.loss == "gamblers",
    "guard": lambda plan: plan.loss == "gamblers" and plan.payoff == "euc",
    "q": lambda plan: plan.loss == "lq",
    "truncate": lambda plan: plan.loss == "lq",
    "warm_up": lambda plan: plan.loss != "nll",
    "rate": lambda plan: (
        plan.stop == "analytical"
        or (plan.loss == "gamblers" and plan.payoff is None)  # which is then chosen by it
    ),
    "noise": lambda plan: plan.stop == "analytical",
    "patience": lambda plan: plan.stop == "validation",
    "hold_out": lambda plan: plan.stop == "validation",
}
"""Settings that only some plans look at, and which do."""


def _bare(method: str, settings: Mapping[str, Any]) -> Plan:
    return Plan(**{"method": method, "rate": 0.0, **settings})
