"""Which payoffs work: at all, and as suggested."""

import numpy as np
import pytest
from as_printed import PAPER_IMDB_RATES, PAPER_PAIRFLIP_RATES, PAPER_SYMMETRIC_RATES
from numpy.testing import assert_allclose

from abstain.errors import AbstainError
from abstain.theory import (
    is_learnable,
    label_distribution,
    plateau,
    stoppable_payoffs,
    suggested_payoff,
    untrained_loss,
)


@pytest.mark.parametrize(
    ("classes", "noise"), [(2, "symmetric"), (10, "symmetric"), (10, "pairflip")]
)
def test_stoppable_payoffs_are_learnable_and_below_the_untrained_loss(classes, noise):
    chance = 1 / 2 if noise == "pairflip" else 1 / classes
    a = chance + (1 - chance) * np.linspace(0.01, 0.99, 50)
    low, high = stoppable_payoffs(a, classes, noise)
    inside = low + (high - low) * np.linspace(1e-6, 1 - 1e-6, 40)[:, None]
    assert is_learnable(label_distribution(a, classes, noise), inside).all()
    assert np.all(plateau(a, inside, classes, noise) < untrained_loss(inside, classes))
    below = low * (1 - 1e-6)
    below = below[below > 1]
    assert not is_learnable(label_distribution(a[: len(below)], classes, noise), below).any()


def test_suggested_payoff_is_the_papers_where_that_works():
    assert_allclose(suggested_payoff(1 - PAPER_SYMMETRIC_RATES, 10), 9.99)
    assert_allclose(suggested_payoff(1 - PAPER_PAIRFLIP_RATES, 10, "pairflip"), 9.99)
    assert_allclose(suggested_payoff(1 - PAPER_IMDB_RATES, 2), 1.95)


@pytest.mark.parametrize(
    ("classes", "noise"), [(2, "symmetric"), (10, "symmetric"), (100, "pairflip")]
)
def test_suggested_payoff_always_works(classes, noise):
    chance = 1 / 2 if noise == "pairflip" else 1 / classes
    a = chance + (1 - chance) * np.linspace(1e-4, 1, 500)
    low, high = stoppable_payoffs(a, classes, noise)
    suggested = suggested_payoff(a, classes, noise)
    assert np.all((low < suggested) & (suggested < high))


@pytest.mark.parametrize(
    ("a", "classes", "noise", "limit"),
    [(0.1, 10, "symmetric", "1/10"), (0.5, 10, "pairflip", "1/2"), (0.4, 2, "symmetric", "1/2")],
)
def test_no_payoff_works_when_the_true_class_is_not_the_likeliest_label(a, classes, noise, limit):
    for function in (stoppable_payoffs, suggested_payoff):
        with pytest.raises(
            AbstainError, match=f"clean_rate must be greater than {limit} for {noise}"
        ):
            function(a, classes, noise)
