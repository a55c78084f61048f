"""Columns that give the label away: one alone predicts it nearly perfectly."""

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from abstain.checks.rules import Floats, Ints, Mask
from abstain.data import Inputs
from abstain.data.inputs import take
from abstain.support.optional import require

GIVEN_AWAY = 0.95
"""Part of the errors of the commonest-class guess that a column must avoid to be an issue."""
_ROWS = 4_000
"""Samples that are looked at: half of them teach, the others test."""
_LEAF = 5
"""Samples in a leaf at least: a number for each customer must not pass for a rule."""

_ROUGHLY = 0.5
"""Part of those errors that a column must avoid by its nearest values, to be tried with a tree."""
_COLUMNS = 256
"""At a time."""


@dataclass(frozen=True)
class Giveaway:
    """A column that says the label."""

    column: str
    skill: float
    """Part of the errors of the commonest-class guess that the column avoids."""


def giveaways(
    inputs: Inputs, given: Ints, columns: tuple[str, ...] = (), flagged: Mask | None = None
) -> tuple[Giveaway, ...]:
    """Columns by which a decision tree predicts held-out labels nearly perfectly, the best first.

    Args:
        inputs: (N, columns) numbers, NaN where a value is missing, which may say the label too.
        given: (N,) given labels.
        columns: Their names; their numbers by default.
        flagged: (N,) labels that are probably wrong, which no column needs to predict.

    >>> rng = np.random.default_rng(0)
    >>> given = rng.integers(3, size=300)
    >>> table = torch.from_numpy(np.c_[rng.normal(size=300), given * 10 + rng.random(300)])
    >>> giveaways(table, given, ("size", "code"))
    (Giveaway(column='code', skill=1.0),)
    """
    tree = require("sklearn.tree", "finding columns that give the label away")
    believed = np.arange(len(given)) if flagged is None else np.flatnonzero(~flagged)
    rows = np.random.default_rng(0).permutation(believed)[:_ROWS]
    values, labels = _rows(inputs, rows).double(), given[rows]
    half = len(rows) // 2
    if half == 0:
        return ()
    guess = 1 - np.bincount(labels[half:]).max() / len(labels[half:])
    if guess == 0:
        return ()
    by_skill = []
    # A tree for each of a thousand columns takes longer than all other checks.
    roughly = 1 - _errors_by_nearest(values, torch.from_numpy(labels), half) / guess
    for number in np.flatnonzero(roughly >= _ROUGHLY):
        column = values[:, number].numpy()
        if np.isnan(column[:half]).all():
            continue
        model = tree.DecisionTreeClassifier(min_samples_leaf=_LEAF, random_state=0)
        with warnings.catch_warnings():  # of many classes, which are classes all the same
            warnings.simplefilter("ignore", UserWarning)
            model.fit(column[:half, None], labels[:half])
        predicted = model.predict(column[half:, None])
        skill = float(1 - (predicted != labels[half:]).mean() / guess)
        if skill >= GIVEN_AWAY:
            by_skill.append(Giveaway(columns[number] if columns else str(number), round(skill, 4)))
    return tuple(sorted(by_skill, key=lambda x: -x.skill))


def _errors_by_nearest(values: Tensor, labels: Tensor, half: int) -> Floats:
    """(columns,) share of held-out labels that those of the nearest values do not predict."""
    values = values.nan_to_num(torch.inf).T.contiguous()  # missing values are alike
    errors = []
    for part in values.tensor_split(1 + len(values) // _COLUMNS):
        known, order = part[:, :half].sort(dim=1)
        asked = part[:, half:].contiguous()
        ends = [torch.searchsorted(known, asked, right=right) for right in (False, True)]
        begin = ((ends[0] + ends[1] - _LEAF + 1) // 2).clamp(0, max(0, half - _LEAF))
        votes = [labels[order.gather(1, begin + k)] for k in range(min(_LEAF, half))]
        wrong = torch.stack(votes, dim=-1).mode(dim=-1).values != labels[half:]
        errors.append(wrong.float().mean(dim=1).numpy())
    return np.concatenate(errors)


def _rows(inputs: Inputs, rows: Ints) -> Tensor:
    if isinstance(inputs, Tensor):
        return inputs[torch.from_numpy(rows)]
    return torch.stack([torch.as_tensor(x) for x in take(inputs, rows.tolist())])
