"""The plateau against SciPy and the paper, and its inverse."""

import numpy as np
import pytest
from as_printed import PAPER_SYMMETRIC_RATES, papers_plateau
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from abstain.errors import AbstainError
from abstain.theory import (
    clean_rate_from_plateau,
    optimal_bet,
    plateau,
    plateau_of,
    plateau_parts,
    plateau_parts_of,
    untrained_loss,
)

import reference


@pytest.mark.parametrize("noise", ["symmetric", "pairflip"])
@pytest.mark.parametrize("payoff", [1.5, 1.95, 3.0, 9.99, 20.0])
def test_plateau_parts_agree_with_scipy_on_every_row_of_the_noise_matrix(noise, payoff):
    matrix = reference.transition_matrix(0.7, 10, noise)
    right, wrong = [], []
    for true, row in enumerate(matrix):
        classes, abstention = reference.least_loss_bet(row, payoff)
        for given_label, share in enumerate(row):
            if share > 0:
                loss = -np.log(classes[given_label] + abstention / payoff)
                (right if given_label == true else wrong).append((loss, share))
    expected = [
        np.average([loss for loss, _ in part], weights=[share for _, share in part])
        for part in (right + wrong, right, wrong)
    ]
    assert_allclose(plateau_parts(0.7, payoff, 10, noise), expected, atol=1e-5)
    assert_allclose(plateau_parts_of(matrix, payoff), expected, atol=1e-5)


def test_plateau_of_weighs_classes_by_their_share():
    matrix = np.array([[0.9, 0.1, 0.0], [0.2, 0.6, 0.2], [0.0, 0.0, 1.0]])
    rows = optimal_bet(matrix, 2.5).loss
    assert_allclose(plateau_of(matrix, 2.5), rows.mean())
    assert_allclose(plateau_of(matrix, 2.5, priors=[0.5, 0.3, 0.2]), rows @ [0.5, 0.3, 0.2])
    parts = plateau_parts_of(matrix, 2.5, priors=[0.5, 0.3, 0.2])
    clean_share = np.diag(matrix) @ [0.5, 0.3, 0.2]
    assert_allclose(parts.total, clean_share * parts.clean + (1 - clean_share) * parts.corrupt)


def test_plateau_of_broadcasts_matrices_against_payoffs():
    matrices = np.stack([reference.transition_matrix(a, 4, "symmetric") for a in (0.5, 0.8)])
    payoffs = np.array([[2.5], [3.0], [3.9]])
    expected = plateau([0.5, 0.8], payoffs, 4)
    assert expected.shape == (3, 2)
    assert_allclose(plateau_of(matrices, payoffs), expected)


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.5, 0.65, 0.8, 0.85])
def test_symmetric_plateau_is_the_papers_and_splits_into_clean_and_corrupt(rate):
    a, payoff = 1 - rate, 9.99
    parts = plateau_parts(a, payoff, 10)
    assert_allclose(parts.total, papers_plateau(a, payoff))
    assert_allclose(parts.clean, -np.log(a))
    assert_allclose(parts.corrupt, np.log((payoff - 1) / (1 - a)))
    assert_allclose(parts.total, a * parts.clean + (1 - a) * parts.corrupt)


def test_plateau_agrees_with_the_papers_loss_minimised_numerically():
    bet, loss = reference.least_mean_field_loss(0.6, 4.0)
    assert_allclose(plateau(0.6, 4.0, 10), loss)
    assert_allclose(bet, (0.6 * 4 - 1) / 3, atol=1e-6)


def test_between_chance_and_one_over_payoff_there_is_only_log_payoff():
    a = np.linspace(1 / 10, 1 / 4, 7)
    assert_allclose(plateau(a, 4.0, 10), np.log(4))


def test_binary_plateaus_at_payoff_1_95():
    rates = np.array([0.1, 0.15, 0.2, 0.25, 0.3])
    expected = [0.3200, 0.4150, 0.4901, 0.5495, 0.5955]
    assert_allclose(plateau(1 - rates, 1.95, 2), expected, atol=5e-5)
    assert_allclose(untrained_loss(1.95, 2), 0.6846, atol=5e-5)


def test_untrained_loss_leaves_a_margin_of_0_013_at_a_rate_of_0_85():
    assert_allclose(untrained_loss(9.99, 10), 2.3025, atol=5e-5)
    assert_allclose(untrained_loss(9.99, 10) - plateau(0.15, 9.99, 10), 0.013, atol=5e-4)


def test_at_payoff_9_99_the_plateau_is_within_a_thousandth_of_cross_entropys():
    a = 1 - PAPER_SYMMETRIC_RATES
    gap = plateau(a, np.inf, 10) - plateau(a, 9.99, 10)
    assert np.all((gap > 0) & (gap < 0.001))


def test_without_wrong_labels_the_corrupt_part_is_not_a_number():
    parts = plateau_parts([0.0, 1.0], 9.99, 10)
    assert_allclose(parts.total, [np.log(9), 0], atol=1e-15)
    assert_allclose(parts.clean, [np.nan, 0])
    assert_allclose(parts.corrupt, [np.log(9), np.nan])


# Its inverse


@pytest.mark.parametrize(
    ("payoff", "classes", "noise"),
    [
        (9.99, 10, "symmetric"),
        (3.0, 10, "symmetric"),
        (1.95, 2, "symmetric"),
        (1 + 1e-6, 2, "symmetric"),
        (50.0, 10, "symmetric"),
        (np.inf, 10, "symmetric"),
        (1.5, 10, "pairflip"),
        (9.99, 10, "pairflip"),
    ],
)
def test_clean_rate_is_found_again_from_its_plateau(payoff, classes, noise):
    possible = 2 if noise == "pairflip" else classes
    floor = max(1 / payoff, 1 / possible)
    a = floor + (1 - floor) * np.linspace(0.01, 1, 50)
    found = clean_rate_from_plateau(plateau(a, payoff, classes, noise), payoff, classes, noise)
    assert_allclose(found, a, rtol=0, atol=1e-9)


def test_clean_rate_from_plateau_takes_numbers_and_broadcasts():
    assert np.ndim(clean_rate_from_plateau(1.0, 9.99, 10)) == 0
    assert clean_rate_from_plateau(0.0, 9.99, 10) == 1
    assert clean_rate_from_plateau([[0.1], [0.2]], [1.5, 2.0, 3.0], 3).shape == (2, 3)


def test_pairflip_inverse_is_the_root_above_one_half():
    loss = plateau(0.3, 9.99, 10, "pairflip")  # the same as at 0.7
    assert_allclose(clean_rate_from_plateau(loss, 9.99, 10, "pairflip"), 0.7)


@pytest.mark.parametrize("loss", [-0.1, np.log(9.99), 3.0, np.nan])
def test_a_loss_that_is_no_plateau_is_refused(loss):
    with pytest.raises(AbstainError, match=r"loss must lie in \[0, 2.30158\).* payoff 9.99, got "):
        clean_rate_from_plateau(loss, 9.99, 10)
    with pytest.raises(AbstainError, match=r"\[0, 0.693147\) to be a plateau of pairflip noise"):
        clean_rate_from_plateau([0.1, loss], 9.99, 10, "pairflip")


@given(st.floats(1.01, 10), st.floats(0.001, 1), st.sampled_from(["symmetric", "pairflip"]))
@settings(deadline=None)
def test_inverse_and_plateau_undo_each_other(payoff, part, noise):
    floor = max(1 / payoff, 1 / 2 if noise == "pairflip" else 1 / 10)
    a = floor + (1 - floor) * part
    found = clean_rate_from_plateau(plateau(a, payoff, 10, noise), payoff, 10, noise)
    assert_allclose(found, a, rtol=0, atol=1e-7)
