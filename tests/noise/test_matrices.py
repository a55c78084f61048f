"""Transition matrices against the literature, and which are refused."""

import numpy as np
import pytest
from hypothesis import given
from noisy_labels import class_counts, kinds, rates

from abstain import noise
from abstain.errors import AbstainError


@given(kinds, class_counts, rates)
def test_rows_of_every_kind_sum_to_one(kind, m, rate):
    matrix = noise.check_transition(noise.transition(kind, m, rate))
    assert matrix.shape == (m, m)
    np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-12)


def test_matrices_are_those_of_the_literature():
    np.testing.assert_allclose(
        noise.symmetric(4, 0.6), np.where(np.eye(4, dtype=bool), 0.4, 0.2), atol=1e-15
    )
    np.testing.assert_allclose(
        noise.symmetric_any(4, 0.6), np.where(np.eye(4, dtype=bool), 0.55, 0.15), atol=1e-15
    )
    flip = noise.pairflip(4, 0.6)
    assert [int(np.flatnonzero(row == 0.6)[0]) for row in flip] == [1, 2, 3, 0]
    assert np.count_nonzero(flip) == 8


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1.0]], "2 × 2"),
        ([[1.0, 0.0]], "square"),
        ([[1.5, -0.5], [0.0, 1.0]], "≥ 0, got -0.5"),
        ([[float("nan"), 1.0], [0.0, 1.0]], "≥ 0, got nan"),
        ([[1.0, 0.0], [0.5, 0.6]], "row 1 sums to 1.1"),
        ([[1.0, 0.0], [0.5, 0.4]], "row 1 sums to 0.9"),
        ([["a", "b"], ["c", "d"]], "array of numbers"),
        ([[1.0], [0.5, 0.5]], "array of numbers"),
    ],
)
def test_a_matrix_that_is_not_a_transition_is_refused(matrix, message):
    with pytest.raises(AbstainError, match=message):
        noise.check_transition(matrix)


def test_columns_summing_to_one_are_not_enough():
    with pytest.raises(AbstainError, match="rows of matrix"):
        noise.check_transition(np.array([[0.9, 0.3], [0.1, 0.7]]))
