"""The formulas as the paper prints them: its rates of wrong labels, and Theorem 4.1."""

import numpy as np
from scipy.special import entr

PAPER_SYMMETRIC_RATES = np.array([0.2, 0.5, 0.65, 0.8, 0.85])
PAPER_PAIRFLIP_RATES = np.array([0.2, 0.3, 0.45])
PAPER_IMDB_RATES = np.array([0.15, 0.2, 0.25, 0.3])


def binary_entropy(a):
    return entr(a) + entr(1 - np.asarray(a))


def papers_plateau(a, payoff):
    """Theorem 4.1 as printed, with no condition on the payoff or on the kind of noise."""
    return binary_entropy(a) + (1 - np.asarray(a)) * np.log(payoff - 1)
