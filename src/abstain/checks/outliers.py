"""Outliers: samples that are far from all others."""

from abstain.checks.neighbours import Neighbours
from abstain.checks.rules import Issues, far_out


def outliers(neighbours: Neighbours) -> Issues:
    """Samples whose mean squared distance to their neighbours is far out among those of all.

    The rule is that of cleanlab's Datalab: on the unit sphere the square is twice the cosine
    distance.

    >>> import numpy as np
    >>> from abstain.checks.neighbours import Index
    >>> line = np.r_[np.random.default_rng(0).random(99), 30].astype(np.float32)
    >>> found = outliers(Index.of(line[:, None]).neighbours())
    >>> bool(found.is_issue[99]), int(found.score.argmin())
    (True, 99)
    """
    return far_out((neighbours.distance**2).mean(axis=1))
