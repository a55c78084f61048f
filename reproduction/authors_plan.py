"""Settings of the authors' public code that no recipe of ours has."""

from dataclasses import dataclass, fields
from typing import Any

from abstain.training.plan import Plan


@dataclass(frozen=True, kw_only=True)
class AuthorsPlan(Plan):
    """A recipe with what the authors' code does besides; each default asks for nothing.

    >>> quirk(Plan(), "leak"), quirk(AuthorsPlan(leak=True), "leak")
    (False, True)
    """

    fixed_payoff: float | None = None
    """The payoff in place of the recipe's; it may exceed the number of classes."""
    warm_payoff: float | None = None
    """The payoff of the warm-up; None: infinite, which is cross-entropy."""
    inside: float | None = None
    """Added to the return on the label before its logarithm is taken."""
    public: bool = False
    """Co-teaching+ as its public code has it: probabilities go into cross-entropy, a mean is
    divided once more by the number kept, and the decay begins at epoch 80."""
    ends_by_epoch: bool = False
    """The analytical stop compares the mean loss of an epoch with its threshold."""
    rises: int | None = None
    """Stop after so many epochs in a row whose held-out loss is above the least one."""
    raw: bool = False
    """That loss is minus the logit of the label, without softmax."""
    leak: bool = False
    """Train on the held-out labels, too."""
    fresh: bool = False
    """Begin every epoch with a new optimiser."""
    samples: int | None = None
    """Train on so many samples; the others are held out."""
    beta1: float | None = None
    beta2: float | None = None
    exact: bool = False
    """Compute all in float32: a control."""


_OWN = {f.name: f.default for f in fields(AuthorsPlan)}
for _field in fields(Plan):
    del _OWN[_field.name]


def quirk(recipe: Plan, name: str) -> Any:  # noqa: ANN401
    """A setting of `AuthorsPlan`, at its default for any other recipe."""
    return getattr(recipe, name, _OWN[name])


def recipe_from_json(values: dict[str, Any]) -> Plan:
    """The recipe that `as_json` wrote, of the class that it had."""
    cls = AuthorsPlan if set(values) & set(_OWN) else Plan
    return cls.from_json(values)
