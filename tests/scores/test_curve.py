"""The deviation from the learnt line, against a general solver and closed forms."""

import numpy as np
import pytest
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st
from scipy.optimize import least_squares
from scipy.special import expit

from abstain.scores.curve import BALLAST, NODES, Learnt, between, fit_curve, precision

LEARNT = Learnt.load()
LINE = LEARNT.line(0.0, NODES)


def labels_of(seed, size=3000, pairs=4, answers=60):
    """Evidence and pair of all labels, rows of answers, and which of these are wrong."""
    rng = np.random.default_rng(seed)
    odds, pair = np.clip(rng.normal(1, 2, size), -4.6, 4.6), rng.integers(0, pairs, size)
    rows = rng.permutation(size)[:answers]
    shift = rng.normal(0, 1, pairs)[pair[rows]]
    return odds, pair, rows, rng.random(answers) < expit(0.5 + shift - 1.5 * odds[rows])


def at_node(odds):
    return np.abs(odds[:, None] - NODES).argmin(1)


def best_deviation(odds, answers, weight=1.0):
    """Find where all pulls are in balance, by a general solver.

    Args:
        odds: Evidence of all labels.
        answers: (2, nodes) how many answers are right and wrong.
        weight: How much the ballast counts, which is spread as the labels are.
    """
    labels = np.bincount(at_node(odds), minlength=len(NODES))
    ballast = weight * BALLAST * labels / labels.sum()
    count, instead = answers.sum(0), np.minimum(answers.sum(0), ballast)
    prior, expected = precision(LEARNT.level_spread, LEARNT.wander), expit(LINE)

    def pull(deviation):
        p = expit(LINE + deviation)
        beyond = answers[1] - (count - instead) * p - instead * expected
        return beyond + ballast * (expected - p) - prior @ deviation

    found = least_squares(pull, np.zeros(len(NODES)), xtol=1e-12, ftol=1e-12, gtol=1e-12).x
    assert np.abs(pull(found)).max() < 1e-6
    return found


def limit_of(odds, beyond):
    """The rise of all log odds that raises the expected rate by what was found beyond it."""
    beyond /= BALLAST
    labels = np.bincount(at_node(odds), minlength=len(NODES)) / len(odds)
    rises = np.linspace(0, 20, 200_001)
    rates = sum(n * (expit(z + rises) - expit(z)) for n, z in zip(labels, LINE, strict=True))
    return rises[min(np.searchsorted(rates, beyond), len(rises) - 1)] if beyond > 0 else 0.0


def test_the_prior_is_a_random_walk_from_a_random_level():
    covariance = np.linalg.inv(precision(0.8, 0.5))
    same_side = NODES[:, None] * NODES >= 0
    shorter = np.minimum(np.abs(NODES[:, None]), np.abs(NODES))
    np.testing.assert_allclose(covariance, 0.64 + 0.25 * same_side * shorter, atol=1e-9)


def test_nothing_in_the_prior_pulls_two_nodes_apart():
    """On this the promise rests that an answer never works backwards."""
    prior = precision(LEARNT.level_spread, LEARNT.wander)
    assert (prior[~np.eye(len(NODES), dtype=bool)] <= 0).all()
    assert (prior.sum(1) > -1e-9).all()


@settings(deadline=None, max_examples=6)
@forall(seed=st.integers(0, 1000), count=st.integers(1, 400))
def test_of_one_pair_the_deviation_is_the_posterior_mode(seed, count):
    odds, pair, rows, wrong = labels_of(seed, pairs=1, answers=count)
    found = fit_curve(LEARNT, 0.0, odds, pair, rows, wrong).deviations
    nodes = at_node(odds[rows])
    answers = np.stack([np.bincount(nodes[wrong == x], minlength=len(NODES)) for x in (0, 1)])
    beyond = wrong.sum() - expit(LEARNT.line(0.0, odds[rows])).sum()
    limited = np.minimum(best_deviation(odds, answers), limit_of(odds, beyond))
    np.testing.assert_allclose(found[0], limited, atol=5e-3)


@pytest.mark.parametrize(("of_the_pair", "weight"), [(100, 0.25), (250, 0.5), (900, 1.0)])
def test_of_a_pair_its_own_answers_count_more_than_others(of_the_pair, weight):
    """Four times its share, and what all others tell of it (0.1 here), as a power of two."""
    odds, _, rows, _ = labels_of(3, answers=200)
    pair = np.random.default_rng(0).permutation(
        np.repeat([7, 8], [of_the_pair, 3000 - of_the_pair])
    )
    own, nodes = pair[rows] == 7, at_node(odds[rows])
    found = fit_curve(LEARNT, 0.0, odds, pair, rows, own)  # all of its own are wrong
    of_own, of_others = (np.bincount(nodes[own == x], minlength=len(NODES)) for x in (True, False))
    shared = weight * of_others / (1 + LEARNT.class_spread**2 / 4 * of_others)
    best = best_deviation(odds, np.stack([shared, of_own]), weight)
    limit = limit_of(odds, own.sum() - expit(LEARNT.line(0.0, odds[rows])).sum())
    np.testing.assert_allclose(found.deviations[0], np.minimum(best, limit), atol=5e-3)
    assert found.pairs == 2
    assert found.deviations[0].mean() > found.deviations[1].mean()


def test_the_uncertainty_is_that_of_the_answers_without_ballast():
    odds, pair, rows, wrong = labels_of(5, pairs=1)
    found = fit_curve(LEARNT, 0.0, odds, pair, rows, wrong)
    p = expit(LINE + found.untied)
    count = np.bincount(at_node(odds[rows]), minlength=len(NODES)).astype(float)
    count /= 1 + LEARNT.class_spread**2 / 4 * count
    knows = np.diag(count * p * (1 - p))
    whole = np.linalg.inv(precision(LEARNT.level_spread, LEARNT.wander) + knows)
    np.testing.assert_allclose(found.covariance, whole, rtol=1e-5)


def test_without_reviews_the_curve_is_the_line_that_was_learnt():
    odds, pair, _, _ = labels_of(0)
    curve = fit_curve(LEARNT, 0.0, odds, pair)
    slope = np.exp(LEARNT.log_slope)
    np.testing.assert_allclose(curve.logits(odds), LEARNT.intercept - slope * odds, rtol=1e-5)
    prior = precision(LEARNT.level_spread, LEARNT.wander)
    np.testing.assert_allclose(curve.covariance, np.linalg.inv(prior))


def test_the_expected_rate_moves_by_what_was_found_beyond_expectation_over_the_ballast():
    """But for the prior, which holds the deviation back, the two would be equal."""
    odds, pair, _, _ = labels_of(1, pairs=1)
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(odds))[:40]
    before = expit(LINE[at_node(odds)])
    for wrong in (np.ones(40, bool), rng.random(40) < 0.5):
        beyond = wrong.sum() - before[rows].sum()
        curve = fit_curve(LEARNT, 0.0, odds, pair, rows, wrong)
        moved = expit(curve.logits(odds)).mean() - before.mean()
        assert 0.3 * beyond / BALLAST < moved < beyond / BALLAST


@settings(deadline=None, max_examples=40)
@forall(seed=st.integers(0, 10_000), count=st.integers(0, 300), is_wrong=st.booleans())
def test_an_answer_never_works_backwards(seed, count, is_wrong):
    odds, pair, rows, wrong = labels_of(seed, answers=count + 1)
    before = fit_curve(LEARNT, 0.0, odds, pair, rows[1:], wrong[1:]).logits(odds)
    after = fit_curve(LEARNT, 0.0, odds, pair, rows, np.append(is_wrong, wrong[1:])).logits(odds)
    assert ((after - before) * (1 if is_wrong else -1) > -1e-5).all()


@pytest.mark.parametrize("wrong", [0.0, 1.0])
def test_answers_that_are_all_alike_move_everything_their_way(wrong):
    odds = np.sort(labels_of(0)[0])
    curve = fit_curve(LEARNT, 0.0, odds, np.zeros(3000, int), np.arange(200), np.full(200, wrong))
    moved = curve.logits(odds) - fit_curve(LEARNT, 0.0, odds, np.zeros(3000, int)).logits(odds)
    assert ((moved > 0) == bool(wrong)).all()
    assert np.abs(moved[200]) > np.abs(moved[1500]) > np.abs(moved[2900])


def test_labels_never_seen_are_left_out():
    odds, pair, rows, wrong = labels_of(2, answers=20)
    more = np.append(odds, [np.nan] * 50)
    found = fit_curve(LEARNT, 0.0, more, np.append(pair, [9] * 50), rows, wrong)
    assert np.isnan(found.logits(more)[-50:]).all()
    assert np.isfinite(found.logits(more)[:-50]).all()


def test_numbers_of_pairs_may_be_anything():
    odds, pair, rows, wrong = labels_of(4)
    one = fit_curve(LEARNT, 0.0, odds, pair, rows, wrong)
    two = fit_curve(LEARNT, 0.0, odds, pair * 10**9 - 5, rows, wrong)
    np.testing.assert_array_equal(one.logits(odds), two.logits(odds))


def test_between_nodes_is_a_straight_line():
    rng = np.random.default_rng(0)
    values, odds = rng.normal(size=(2, len(NODES))), rng.normal(0, 3, 200)
    for k in (0, 1):
        found = between(values, odds, np.full(200, k))
        np.testing.assert_allclose(found, np.interp(odds, NODES, values[k]), atol=1e-5)
