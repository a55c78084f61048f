"""Weak groups: clusters in which labels and model disagree more than elsewhere."""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import bdtrc

from abstain.checks.cells import k_means, nearest_cells
from abstain.checks.rules import Floats, Ints, Issues, Mask

_SAMPLES, _MOST = 100, 100
"""Samples per cluster on average, where there are fewer than so many clusters."""
_FITTED = 20_000
"""Rows by which clusters are found; the others are only assigned."""
_LEVEL = 0.01
"""Chance that any group is flagged where all are alike."""
_TIMES = 2
"""As many disagreements as elsewhere: fewer may be beyond chance, but are not worth a look."""


@dataclass(frozen=True)
class Groups:
    """Clusters, and which of them are weak."""

    issues: Issues
    """The score is the agreement in the group over that elsewhere, at most 1."""
    group: Ints
    """(N,) the cluster of each sample."""


def weak_groups(rows: Floats, disagrees: Mask) -> Groups:
    """Clusters with twice the disagreement of the other samples, and more than chance explains.

    Args:
        rows: (N, columns) features.
        disagrees: (N,) whether the model finds another class likelier than the given one.
    """
    table = torch.from_numpy(rows)
    clusters = int(np.clip(len(rows) // _SAMPLES, 2, _MOST))
    centres = k_means(table, clusters, _FITTED)
    group: Ints = nearest_cells(table, centres, 1)[:, 0].numpy()
    size = np.bincount(group, minlength=clusters)
    bad = np.bincount(group, weights=disagrees, minlength=clusters)
    others, bad_others = len(rows) - size, bad.sum() - bad
    elsewhere = np.divide(bad_others, others, out=np.zeros(clusters), where=others > 0)
    rate = np.divide(bad, size, out=np.zeros(clusters), where=size > 0)
    chance = bdtrc(bad - 1, size, elsewhere)  # P(as many or more, by chance)
    weak = (rate > _TIMES * elsewhere) & (chance < _LEVEL / clusters)
    agreement = np.divide(1 - rate, 1 - elsewhere, out=np.ones(clusters), where=elsewhere < 1)
    score = np.clip(agreement, 0, 1)[group]
    return Groups(Issues(weak[group], score.astype(np.float32)), group)
