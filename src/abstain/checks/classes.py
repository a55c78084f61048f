"""Class imbalance: classes with far fewer samples than an even share."""

import numpy as np

from abstain.checks.rules import Ints, Issues

RARE = 0.1
"""A class is rare below this part of an even share."""


def class_imbalance(given: Ints) -> Issues:
    """Samples of classes with less than a tenth of an even share; the score is that share.

    >>> found = class_imbalance(np.repeat([0, 1, 2], [60, 38, 2]))
    >>> int(found.is_issue.sum()), found.score[[0, 60, 99]]
    (2, array([1.  , 1.  , 0.06], dtype=float32))
    """
    counts = np.bincount(given)
    share = counts * (counts > 0).sum() / len(given)
    score = np.minimum(share, 1)[given]
    return Issues(score < RARE, score.astype(np.float32))
