"""Wrong input is refused in words; a softmax of float32 is not wrong."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from abstain.errors import AbstainError
from abstain.theory import (
    clean_rate_from_plateau,
    entropy_bound,
    is_learnable,
    optimal_bet,
    plateau,
    plateau_of,
    robustness_gain,
    untrained_loss,
)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: optimal_bet([0.5, 0.5], 0.5), "payoff must be greater than 1, got 0.5"),
        (lambda: optimal_bet([0.5, 0.5], [2, 1]), "payoff must be greater than 1, got 1"),
        (lambda: optimal_bet([0.5, 0.5], np.nan), "payoff must be greater than 1, got nan"),
        (lambda: optimal_bet([0.5, 0.5], "high"), "payoff must be a number or an array"),
        (lambda: optimal_bet([0.5, 0.6], 2), "probabilities must sum to 1 .*, got 1.1"),
        (lambda: optimal_bet([1.5, -0.5], 2), "probabilities must not be negative, got -0.5"),
        (lambda: optimal_bet([np.nan, 1], 2), "probabilities must not be negative, got nan"),
        (lambda: optimal_bet([1.0], 2), r"probabilities must have at least 2 classes .*\(1,\)"),
        (lambda: optimal_bet(1.0, 2), r"probabilities must have at least 2 classes .*\(\)"),
        (
            lambda: optimal_bet(np.full((3, 2), 0.5), [2, 3]),
            r"probabilities and payoff must broadcast, got shapes \(3,\) and \(2,\)",
        ),
        (lambda: is_learnable([0.5, 0.6], 2), "probabilities must sum to 1"),
        (lambda: plateau(1.2, 2, 10), r"clean_rate must lie in \[0, 1\], got 1.2"),
        (lambda: plateau([0.1, -0.2], 2, 10), r"clean_rate must lie in \[0, 1\], got -0.2"),
        (lambda: plateau(0.5, 1, 10), "payoff must be greater than 1, got 1"),
        (lambda: plateau([0.5, 0.6], [2, 3, 4], 10), "clean_rate and payoff must broadcast"),
        (lambda: plateau(0.5, 2, 1), "num_classes must be .* at least 2, got 1"),
        (lambda: plateau(0.5, 2, 2.5), "num_classes must be a whole number .*, got 2.5"),
        (
            lambda: plateau(0.5, 2, 10, "asymmetric"),
            "noise must be one of symmetric, pairflip, got 'asymmetric'",
        ),
        (lambda: plateau_of([[0.5, 0.5]], 2), "transition must be a square matrix"),
        (lambda: plateau_of([[0.5, 0.4], [0, 1]], 2), "transition must sum to 1 .*, got 0.9"),
        (lambda: plateau_of(np.eye(2), 2, [1, 1]), "priors must sum to 1 .*, got 2"),
        (lambda: plateau_of(np.eye(3), 2, [0.5, 0.5]), r"priors must have shape \(3,\)"),
        (lambda: untrained_loss(0, 10), "payoff must be greater than 1, got 0"),
        (lambda: untrained_loss(2, 0), "num_classes must be .* at least 2, got 0"),
        (lambda: robustness_gain(2, 2), r"clean_rate must lie in \[0, 1\], got 2"),
        (lambda: entropy_bound(-1, 10), "payoff must be greater than 1, got -1"),
        (lambda: clean_rate_from_plateau(0.1, 1, 10), "payoff must be greater than 1, got 1"),
    ],
)
def test_wrong_input_is_named_with_its_rule_and_its_value(call, message):
    with pytest.raises(AbstainError, match=message):
        call()


def test_a_float32_softmax_is_a_distribution():
    logits = np.random.default_rng(0).normal(size=(100, 1000)).astype(np.float32)
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    assert p.dtype == np.float32
    assert_allclose(optimal_bet(p, np.inf).classes.sum(axis=-1), 1)
