"""Distributions of the given label against the matrices of the noise."""

from numpy.testing import assert_allclose

from abstain.theory import label_distribution

import reference


def test_label_distribution_is_a_row_of_the_noise_matrix():
    for noise in ("symmetric", "pairflip"):
        row = reference.transition_matrix(0.3, 7, noise)[0]
        assert_allclose(label_distribution(0.3, 7, noise), row)
