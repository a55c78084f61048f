"""The curve and the shifts of pairs, against a general optimiser on the same posterior."""

import numpy as np
import pytest
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit

from abstain.scores.curve import Learnt, fit_curve

LEARNT = Learnt.load()


def answers(seed, size=60, pairs=4):
    """Evidence, whether it was wrong, and pair: each pair has a shift of its own."""
    rng = np.random.default_rng(seed)
    odds, pair = rng.normal(0, 2, size), rng.integers(0, pairs, size)
    return odds, rng.random(size) < expit(0.5 + rng.normal(0, 1, pairs)[pair] - 1.5 * odds), pair


def crowds(odds, pair=None):
    """How many answers of the same pair lie in the same unit of evidence."""
    pair = np.zeros(len(odds)) if pair is None else pair
    places = list(zip(np.floor(odds), pair, strict=True))
    return np.array([places.count(x) for x in places])


def negative_log_posterior(odds, wrong, pair=None, memorised=0.0):
    """Of offset, log slope and the shift of each pair, written out."""
    prior = np.array([LEARNT.intercept + memorised * LEARNT.memorised, LEARNT.log_slope])
    spread = np.array([LEARNT.offset_spread, LEARNT.slope_spread])
    weight = 1 / (1 + LEARNT.shape_spread**2 / 4 * crowds(odds, pair))

    def cost(place):
        z = place[0] - np.exp(place[1]) * odds
        if pair is not None:
            z = z + place[2:][pair]
        answer = 0.98 * expit(z) + 0.02 * expit(-z)  # of a hundred answers two are slips
        likelihood = weight @ np.where(wrong, np.log(answer), np.log(1 - answer))
        squares = (((place[:2] - prior) / spread) ** 2).sum()
        return (squares + (place[2:] ** 2).sum() / LEARNT.class_spread**2) / 2 - likelihood

    return cost, prior


def test_the_curve_is_the_posterior_mode():
    odds, wrong, _ = answers(0)
    found = fit_curve(LEARNT, 0.2, odds, wrong)
    cost, prior = negative_log_posterior(odds, wrong, memorised=0.2)
    best = minimize(cost, prior, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-10}).x
    np.testing.assert_allclose([found.offset, found.log_slope], best, atol=1e-4)


@settings(deadline=None, max_examples=15)
@forall(seed=st.integers(0, 1000), size=st.integers(1, 150))
def test_shifts_are_the_posterior_mode_too(seed, size):
    odds, wrong, pair = answers(seed, size)
    pairs, place = np.unique(pair, return_inverse=True)
    found = fit_curve(LEARNT, 0.0, odds, wrong, 10 * pair)
    cost, prior = negative_log_posterior(odds, wrong, place)
    start = np.append(prior, np.zeros(len(pairs)))
    best = minimize(cost, start, method="BFGS", options={"gtol": 1e-6}).x
    np.testing.assert_array_equal(found.pairs, 10 * pairs)
    mode = [found.offset, found.log_slope, *found.shifts[:-1]]
    assert cost(np.array(mode)) <= cost(best) + 1e-6
    np.testing.assert_allclose(mode, best, atol=2e-3)


def test_the_uncertainty_is_that_of_the_whole_posterior():
    """Inverse of the expected information on offset, log slope and shifts, without shortcuts."""
    odds, wrong, pair = answers(3)
    found = fit_curve(LEARNT, 0.0, odds, wrong, pair)
    z = found.offset - np.exp(found.log_slope) * odds + found.shifts[pair]
    q = 0.02 + 0.96 * expit(z)
    steep = 0.96 * expit(z) * expit(-z)
    known = steep**2 / (q * (1 - q)) / (1 + LEARNT.shape_spread**2 / 4 * crowds(odds, pair))
    moves = np.column_stack(
        [np.ones(60), -np.exp(found.log_slope) * odds, pair[:, None] == np.arange(4)]
    )
    spreads = np.array([LEARNT.offset_spread, LEARNT.slope_spread, *[LEARNT.class_spread] * 4])
    whole = np.linalg.inv(moves.T @ (moves * known[:, None]) + np.diag(spreads**-2.0))
    follows = found.follows[:-1]
    of_shifts = follows @ found.covariance @ follows.T + np.diag(found.variances[:-1])
    np.testing.assert_allclose(found.covariance, whole[:2, :2], rtol=1e-5)
    np.testing.assert_allclose(follows @ found.covariance, whole[2:, :2], rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(of_shifts, whole[2:, 2:], rtol=1e-5, atol=1e-8)


def test_without_reviews_the_curve_is_the_one_that_was_learnt():
    curve = fit_curve(LEARNT, 0.0, pair=())
    assert curve.offset == LEARNT.intercept
    np.testing.assert_allclose(
        curve.covariance, np.diag([LEARNT.offset_spread**2, LEARNT.slope_spread**2])
    )
    assert curve.shifts.tolist() == curve.variances.tolist() == [0]


def test_pairs_that_nobody_reviewed_have_no_shift():
    curve = fit_curve(LEARNT, 0.0, [-2.0, -1.0, 0.0], [1, 0, 0], [7, 7, 3])
    places = curve.places(np.array([0, 3, 5, 7, 9]))
    assert places.tolist() == [2, 0, 2, 1, 2]
    assert curve.shifts[2] == curve.variances[2] == 0
    assert not curve.follows[2].any()
    assert curve.shifts[0] < 0


@pytest.mark.parametrize("wrong", [0.0, 1.0])
def test_answers_that_are_all_alike_never_turn_the_order_around(wrong):
    """The worst are all right: then the rest is no worse, whatever a straight line would say."""
    curve = fit_curve(LEARNT, 0.0, np.linspace(-4.5, -3, 200), np.full(200, wrong))
    p = expit(curve.logits(np.array([-4.0, 0.0, 4.0])))
    assert p[0] > p[1] > p[2]
    before = expit(fit_curve(LEARNT, 0.0).logits(np.array([-4.0])))
    assert (p[0] > before) == bool(wrong)
