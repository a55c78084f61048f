"""Columns that give the label away: one alone predicts it nearly perfectly."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from abstain.checks.found import Ints
from abstain.support.optional import require

GIVEN_AWAY = 0.95
"""Of the errors of a guess by the commonest class, the part that one column avoids."""
_ROWS = 5_000
_FOLDS = 3
_LEAF = 5
"""Samples in a leaf at least: a number for each customer must not pass for a rule."""


@dataclass(frozen=True)
class Giveaway:
    """A column that says the label."""

    column: str
    skill: float
    """Of the errors of a guess by the commonest class, the part that the column avoids."""


def giveaways(table: Tensor, given: Ints, columns: tuple[str, ...] = ()) -> tuple[Giveaway, ...]:
    """Columns by which a decision tree predicts held-out labels nearly perfectly, the best first.

    Args:
        table: (N, columns) numbers, NaN where a value is missing, which may say the label too.
        given: (N,) given labels.
        columns: Their names; their numbers by default.

    >>> import torch
    >>> rng = np.random.default_rng(0)
    >>> given = rng.integers(3, size=300)
    >>> table = torch.from_numpy(np.c_[rng.normal(size=300), given * 10 + rng.random(300)])
    >>> giveaways(table, given, ("size", "code"))
    (Giveaway(column='code', skill=1.0),)
    """
    selection = require("sklearn.model_selection", "finding columns that give the label away")
    tree = require("sklearn.tree", "finding columns that give the label away")
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(table))[:_ROWS]
    rows = rows[np.bincount(given[rows])[given[rows]] >= _FOLDS]
    labels = given[rows]
    guess = 1 - np.bincount(labels).max(initial=0) / max(len(labels), 1)
    if guess == 0 or len(labels) == 0:
        return ()
    values = table[rows].double().numpy()
    found = []
    for number in range(values.shape[1]):
        model = tree.DecisionTreeClassifier(min_samples_leaf=_LEAF, random_state=0)
        column = values[:, [number]]
        if np.isnan(column).all():
            continue
        predicted = selection.cross_val_predict(model, column, labels, cv=_FOLDS)
        skill = float(1 - (predicted != labels).mean() / guess)
        if skill >= GIVEN_AWAY:
            found.append(Giveaway(columns[number] if columns else str(number), round(skill, 4)))
    return tuple(sorted(found, key=lambda x: -x.skill))
