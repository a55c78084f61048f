"""How far each given label can be trusted, and which class the model would give instead."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from abstain.scores.ledger import Ledger

Floats: TypeAlias = npt.NDArray[np.float32]
Labels: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class LabelQuality:
    """What is thought of each label; arrays over all N samples."""

    label_score: Floats
    """In [0, 1], low = bad: the worst labels first when sorted."""
    predicted_label: Labels
    """The class that is believed most, which may be the given one."""
    confidence: Floats
    """Belief in the predicted label."""
    abstention: Floats
    """f_0 at the last visit; NaN where there is no abstention output."""

    def worst_first(self) -> npt.NDArray[np.int64]:
        """Indices of all samples, the lowest score first; of equals the earlier one."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Duplicates:
    """Identical inputs whose labels disagree."""

    members: Labels
    """Indices of all samples in such groups, group after group."""
    group: Labels
    """The group of each member, from 0."""

    def __len__(self) -> int:
        """How many groups there are."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class PairSummary:
    """How often labels given as one class are taken for another; worst pair first."""

    given: Labels
    predicted: Labels
    count: Labels


def label_quality(ledger: Ledger, given: npt.ArrayLike) -> LabelQuality:
    """Scores from one training run."""
    raise NotImplementedError


def label_quality_from_probabilities(
    probabilities: npt.ArrayLike, given: npt.ArrayLike
) -> LabelQuality:
    """Scores from out-of-sample probabilities (N, m) that the user has."""
    raise NotImplementedError


def disagreeing_duplicates(fingerprints: npt.ArrayLike, given: npt.ArrayLike) -> Duplicates:
    """Groups of samples with equal fingerprints (N: integers or strings) but different labels."""
    raise NotImplementedError


def pair_summary(
    quality: LabelQuality, given: npt.ArrayLike, issues: npt.NDArray[np.bool_]
) -> PairSummary:
    """Which class is taken for which, over the samples in `issues` whose prediction differs."""
    raise NotImplementedError
