"""The best bet against SciPy and its optimality conditions, and what always holds of it."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose
from scipy.special import entr
from threadpoolctl import threadpool_limits

from abstain.theory import entropy_bound, is_learnable, optimal_bet, untrained_loss

import reference


def random_problem(rng):
    """A distribution and a payoff of every kind; no probability lies between 0 and 1e-4."""
    m = int(rng.integers(2, 51))
    spread = {
        "even": lambda: rng.dirichlet(np.ones(m)),
        "skewed": lambda: rng.dirichlet(np.full(m, 0.1)),
        "sparse": lambda: rng.dirichlet(np.ones(m)) * (rng.random(m) < 0.3) + np.eye(m)[0] / m,
        "uniform": lambda: np.ones(m),
        "one-hot": lambda: np.eye(m)[rng.integers(m)],
    }
    odds = {
        "near 1": lambda: 1 + 10 ** rng.uniform(-6, -1),
        "between": lambda: rng.uniform(1, m),
        "near m": lambda: m - 10 ** rng.uniform(-4, -1),
        "m": lambda: float(m),
        "above m": lambda: m + 10 ** rng.uniform(-4, 2),
    }
    p = spread[rng.choice(list(spread))]()
    p = np.where(p < 1e-4 * p.sum(), 0, p)
    return p / p.sum(), odds[rng.choice(list(odds))]()


def test_optimal_bet_agrees_with_scipy_on_many_random_problems():
    rng = np.random.default_rng(0)
    with threadpool_limits(1):  # problems this small only lose by being shared between cores
        for _ in range(1500):
            p, payoff = random_problem(rng)
            classes, abstention = reference.least_loss_bet(p, payoff)
            slow = reference.bet_loss(p, payoff, classes, abstention)
            assert_allclose(optimal_bet(p, payoff).loss, slow, rtol=0, atol=1e-7)


@pytest.mark.parametrize("m", [2, 3, 10, 50])
def test_no_bet_can_beat_the_optimal_one_even_at_the_edges(m):
    # What SciPy cannot resolve: probabilities of 1e-40, payoffs within 1e-12 of 1 and of m.
    rng = np.random.default_rng(m)
    payoffs = [1 + 1e-12, 1.5, m - 1e-12, m, m + 1e-12, 2 * m, 1e300, np.inf]
    p = rng.dirichlet(np.full(m, 0.02), size=60)
    for row, payoff in itertools.product(p, payoffs):
        bet = optimal_bet(row, payoff)
        assert reference.optimality_gap(row, payoff, bet.classes, bet.abstention) < 1e-12
        assert_allclose(
            bet.loss, reference.bet_loss(row, payoff, bet.classes, bet.abstention), atol=1e-12
        )


def test_optimal_bet_on_two_classes_is_theorem_3_2():
    p, payoff = 0.8, 1.6
    bet = optimal_bet([p, 1 - p], payoff)
    assert_allclose(bet.classes, [(p * payoff - 1) / (payoff - 1), 0])
    assert_allclose(bet.abstention, payoff * (1 - p) / (payoff - 1))


@pytest.mark.parametrize("payoff", [3.0001, 5.0, 1e9, np.inf])
def test_above_m_nothing_is_abstained_and_the_loss_is_the_entropy(payoff):
    p = np.array([0.5, 0.3, 0.2])
    bet = optimal_bet(p, payoff)
    assert_allclose(bet.classes, p)
    assert bet.abstention == 0
    assert_allclose(bet.loss, entr(p).sum())


def test_at_payoff_m_the_tie_goes_to_abstention_and_costs_nothing():
    bet = optimal_bet([0.5, 0.3, 0.2], 3.0)
    assert_allclose(bet.abstention, 0.6)
    assert_allclose(bet.loss, entr([0.5, 0.3, 0.2]).sum())
    assert_allclose(optimal_bet(np.full(4, 0.25), 4.0).abstention, 1.0)


def test_a_sure_point_is_bet_on_in_full_at_any_payoff():
    bet = optimal_bet([0.0, 1.0, 0.0], [1 + 1e-9, 2.0, 3.0, np.inf])
    assert_allclose(bet.classes, np.broadcast_to([0, 1, 0], (4, 3)))
    assert_allclose(bet.abstention, 0)
    assert_allclose(bet.loss, 0)


def test_optimal_bet_broadcasts_points_against_payoffs():
    rng = np.random.default_rng(0)
    p, payoffs = rng.dirichlet(np.ones(6), size=(5, 1)), np.array([1.5, 3.0, 6.0, 8.0])
    bet = optimal_bet(p, payoffs)
    assert bet.classes.shape == (5, 4, 6)
    assert bet.abstention.shape == bet.loss.shape == is_learnable(p, payoffs).shape == (5, 4)
    for i, j in np.ndindex(5, 4):
        one = optimal_bet(p[i, 0], payoffs[j])
        assert_allclose(bet.classes[i, j], one.classes)
        assert_allclose(bet.loss[i, j], one.loss)


@pytest.mark.parametrize(("payoff", "learnable"), [(1.99, False), (2.0, False), (2.01, True)])
def test_points_are_learnable_above_one_over_the_largest_probability(payoff, learnable):
    p = [0.5, 0.3, 0.2]
    assert is_learnable(p, payoff) == learnable
    bet = optimal_bet(p, payoff)
    assert (bet.abstention < 1 - 1e-9) == learnable
    if not learnable:
        assert_allclose(bet.loss, np.log(payoff))


def test_untrained_loss_is_the_loss_of_an_even_bet():
    even = np.full(10, 1 / 11)
    assert_allclose(untrained_loss(4.0, 10), reference.bet_loss(np.eye(10)[3], 4.0, even, 1 / 11))
    assert_allclose(untrained_loss(np.inf, 10), np.log(11))


@st.composite
def problems(draw):
    m = draw(st.integers(2, 12))
    p = draw(arrays(float, m, elements=st.floats(0, 1).map(lambda x: x if x > 1e-9 else 0.0)))
    assume(p.sum() > 0)
    payoff = draw(st.floats(1, 2 * m, exclude_min=True) | st.just(float(m)))
    return p / p.sum(), payoff


@given(problems())
@settings(deadline=None)
def test_a_bet_spends_everything_and_beats_both_abstaining_and_never_abstaining(problem):
    p, payoff = problem
    bet = optimal_bet(p, payoff)
    assert np.all(bet.classes >= 0)
    assert bet.abstention >= 0
    assert_allclose(bet.classes.sum() + bet.abstention, 1)
    assert -1e-12 <= bet.loss <= min(np.log(payoff), entr(p).sum()) + 1e-12
    assert bet.loss <= untrained_loss(payoff, len(p)) + 1e-12
    assert reference.optimality_gap(p, payoff, bet.classes, bet.abstention) < 1e-9


@given(problems(), st.floats(1, 3))
@settings(deadline=None)
def test_a_higher_payoff_never_lowers_the_loss_nor_raises_abstention(problem, factor):
    p, payoff = problem
    before, after = optimal_bet(p, payoff), optimal_bet(p, payoff * factor)
    assert after.loss >= before.loss - 1e-12
    assert after.abstention <= before.abstention + 1e-9


@given(problems(), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_the_order_of_the_classes_does_not_matter(problem, random):
    p, payoff = problem
    order = list(range(len(p)))
    random.shuffle(order)
    bet, shuffled = optimal_bet(p, payoff), optimal_bet(p[order], payoff)
    assert_allclose(shuffled.classes, bet.classes[order], atol=1e-9)
    assert_allclose(shuffled.loss, bet.loss, atol=1e-12)


@given(problems())
@settings(deadline=None)
def test_learnable_points_stay_within_the_entropy_bound(problem):
    p, payoff = problem
    if is_learnable(p, payoff):
        assert entr(p).sum() <= entropy_bound(payoff, len(p)) + 1e-9
