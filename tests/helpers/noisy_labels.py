"""Strategies for the tests of planted noise: kinds, rates, seeds, matrices, labels."""

import numpy as np
from hypothesis import strategies as st

from abstain import noise

MATRIX_KINDS = [kind for kind in noise.KINDS if kind != "instance"]

class_counts = st.integers(2, 12)
rates = st.floats(0, 1) | st.sampled_from([0.0, 1e-17, 0.2, 0.5, 0.85, 1.0])
seeds = st.integers(0, 2**32 - 1)
kinds = st.sampled_from(MATRIX_KINDS)


@st.composite
def matrices(draw):
    """Row-stochastic matrices, some with entries of exactly 0 and 1."""
    m = draw(class_counts)
    weights = np.random.default_rng(draw(seeds)).gamma(
        draw(st.sampled_from([0.05, 1.0])), size=(m, m)
    )
    weights[weights < draw(st.sampled_from([0.0, 0.3]))] = 0
    weights += np.eye(m) * (weights.sum(axis=1) == 0)
    return weights / weights.sum(axis=1, keepdims=True)


def draw_labels(m, size, seed=0):
    return np.random.default_rng([seed, 99]).integers(m, size=size)


def is_plausible(count, size, share):
    """Whether a binomial count is within six deviations, or a few where there are hardly any."""
    return abs(count - size * share) <= 6 * (size * share * (1 - share)) ** 0.5 + 6 * (share > 0)
