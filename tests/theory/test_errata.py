"""Errata of the paper: what it prints, and what is true.

Tests of all modules of the theory, by the statements of the paper.
"""

import numpy as np
from as_printed import PAPER_IMDB_RATES, PAPER_PAIRFLIP_RATES, binary_entropy, papers_plateau
from numpy.testing import assert_allclose
from scipy.optimize import brentq
from scipy.special import entr

from abstain.theory import (
    clean_rate_from_plateau,
    entropy_bound,
    is_learnable,
    label_distribution,
    optimal_bet,
    plateau,
    robustness_gain,
    stoppable_payoffs,
    untrained_loss,
)

import reference


def test_pairflip_plateau_is_not_the_papers_formula_above_payoff_two():
    a = 1 - PAPER_PAIRFLIP_RATES
    assert_allclose(papers_plateau(a, 9.99), [0.940, 1.270, 1.676], atol=5e-4)
    true = plateau(a, 9.99, 10, noise="pairflip")
    assert_allclose(true, [0.500, 0.611, 0.688], atol=5e-4)
    assert_allclose(true, binary_entropy(a))
    bet = optimal_bet(label_distribution(a, 10, "pairflip"), 9.99)
    assert_allclose(bet.abstention, 0)


def test_pairflip_plateau_is_the_papers_formula_up_to_payoff_two():
    for payoff in (1.7, 1.95, 2.0):
        assert_allclose(plateau(0.8, payoff, 10, "pairflip"), papers_plateau(0.8, payoff))


def test_theorem_3_2_is_wrong_where_two_classes_are_worth_a_bet():
    p, payoff = [0.5, 0.4, 0.1], 2.5  # 1 < payoff < m and learnable, as the theorem asks
    bet = optimal_bet(p, payoff)
    assert bet.classes[1] > 0.1
    stake = (p[0] * payoff - 1) / (payoff - 1)
    assert bet.loss < reference.bet_loss(p, payoff, [stake, 0, 0], 1 - stake) - 0.01


def test_perturbative_corollary_has_the_wrong_limit():
    a, payoff, smoothing = 0.7, 1.8, 1 - 1e-12
    trained = (smoothing * payoff - 1) / (payoff - 1)
    gain = reference.generalisation_error(smoothing, a, smoothing) - reference.generalisation_error(
        smoothing, a, trained
    )
    assert_allclose(robustness_gain(a, payoff), gain, atol=1e-4)
    papers = (1 - a) * smoothing / (payoff - 1)
    assert abs(papers - gain) > 0.1


def test_entropy_bound_of_the_paper_holds_for_two_classes_only():
    payoff, q = 4.0, 0.25
    assert_allclose(entropy_bound(1.6, 2), binary_entropy(1 / 1.6))
    learnable = np.array([q + 1e-9] + [(1 - q - 1e-9) / 9] * 9)
    assert is_learnable(learnable, payoff)
    assert entr(learnable).sum() > binary_entropy(q) + 1
    assert_allclose(entr(learnable).sum(), entropy_bound(payoff, 10), atol=1e-7)
    assert_allclose(entropy_bound([10.0, 15.0, np.inf], 10), np.log(10))


def test_appendix_loss_needs_a_plus_sign():
    a, payoff = 0.8, 1.6
    bet = (a * payoff - 1) / (payoff - 1)
    with_plus, with_minus = (
        -a * np.log(bet + sign * (1 - bet) / payoff) - (1 - a) * np.log((1 - bet) / payoff)
        for sign in (1, -1)
    )
    assert_allclose(plateau(a, payoff, 2), with_plus)
    assert with_minus > with_plus + 1


def test_appendix_plateau_weighs_corrupt_points_by_one_minus_clean_rate_not_epsilon():
    a, payoff = 0.8, 1.6
    clean, corrupt = -np.log(a), -np.log((1 - a) / (payoff - 1))
    assert_allclose(plateau(a, payoff, 2), a * clean + (1 - a) * corrupt)
    for epsilon in (0.0, 0.01, 0.1):  # whatever small number was meant
        assert a * clean + (1 - epsilon) * corrupt > plateau(a, payoff, 2) + 0.5


def test_a_higher_payoff_makes_a_network_abstain_less_not_more():
    payoffs = np.linspace(1.01, 12, 200)
    for p in ([0.6, 0.2, 0.1, 0.1], [0.3, 0.3, 0.2, 0.2]):
        abstention = optimal_bet(p, payoffs).abstention
        assert np.all(np.diff(abstention) <= 1e-12)
        assert abstention[0] > 0.9
        assert abstention[-1] == 0


def test_false_second_root_of_the_papers_formula_is_not_returned():
    payoff, a = 4.0, 0.35
    loss = papers_plateau(a, payoff)
    false = brentq(lambda b: papers_plateau(b, payoff) - loss, 1e-9, 1 / payoff)
    assert false < 1 / payoff
    assert_allclose(clean_rate_from_plateau(loss, payoff, 10), a)
    assert_allclose(plateau(false, payoff, 10), np.log(payoff))  # there is no plateau but this


def test_two_classes_need_a_payoff_below_two_where_the_paper_prints_9_99():
    a = 1 - PAPER_IMDB_RATES
    # The printed payoff puts the threshold above log 2, the loss of a network that only guesses.
    assert np.all(papers_plateau(a, 9.99) > np.log(2))
    low, high = stoppable_payoffs(a, 2)
    assert np.all((low < 1.95) & (high == 2))
    assert np.all(plateau(a, 1.95, 2) < untrained_loss(1.95, 2))
