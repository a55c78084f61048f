import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose
from scipy.optimize import brentq
from scipy.special import entr
from threadpoolctl import threadpool_limits

from abstain.errors import AbstainError
from abstain.theory import (
    clean_rate_from_plateau,
    entropy_bound,
    is_learnable,
    label_distribution,
    optimal_bet,
    plateau,
    plateau_of,
    plateau_parts,
    plateau_parts_of,
    robustness_gain,
    stoppable_payoffs,
    suggested_payoff,
    untrained_loss,
)

import reference

PAPER_SYMMETRIC_RATES = np.array([0.2, 0.5, 0.65, 0.8, 0.85])
PAPER_PAIRFLIP_RATES = np.array([0.2, 0.3, 0.45])
PAPER_IMDB_RATES = np.array([0.15, 0.2, 0.25, 0.3])


def binary_entropy(a):
    return entr(a) + entr(1 - np.asarray(a))


def papers_plateau(a, payoff):
    """Theorem 4.1 as printed, with no condition on the payoff or on the kind of noise."""
    return binary_entropy(a) + (1 - np.asarray(a)) * np.log(payoff - 1)


# ---------------------------------------------------------------- the best bet


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


# ---------------------------------------------------------------- the plateau


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


def test_label_distribution_is_a_row_of_the_noise_matrix():
    for noise in ("symmetric", "pairflip"):
        row = reference.transition_matrix(0.3, 7, noise)[0]
        assert_allclose(label_distribution(0.3, 7, noise), row)


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


def test_untrained_loss_is_the_loss_of_an_even_bet():
    even = np.full(10, 1 / 11)
    assert_allclose(untrained_loss(4.0, 10), reference.bet_loss(np.eye(10)[3], 4.0, even, 1 / 11))
    assert_allclose(untrained_loss(np.inf, 10), np.log(11))


def test_at_payoff_9_99_the_plateau_is_within_a_thousandth_of_cross_entropys():
    a = 1 - PAPER_SYMMETRIC_RATES
    gap = plateau(a, np.inf, 10) - plateau(a, 9.99, 10)
    assert np.all((gap > 0) & (gap < 0.001))


def test_without_wrong_labels_the_corrupt_part_is_not_a_number():
    parts = plateau_parts([0.0, 1.0], 9.99, 10)
    assert_allclose(parts.total, [np.log(9), 0], atol=1e-15)
    assert_allclose(parts.clean, [np.nan, 0])
    assert_allclose(parts.corrupt, [np.log(9), np.nan])


# ---------------------------------------------------------------- where the paper is wrong


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


# ---------------------------------------------------------------- its inverse


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


# ---------------------------------------------------------------- which payoffs work


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


# ---------------------------------------------------------------- what always holds


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


@given(st.floats(1.01, 10), st.floats(0.001, 1), st.sampled_from(["symmetric", "pairflip"]))
@settings(deadline=None)
def test_inverse_and_plateau_undo_each_other(payoff, part, noise):
    floor = max(1 / payoff, 1 / 2 if noise == "pairflip" else 1 / 10)
    a = floor + (1 - floor) * part
    found = clean_rate_from_plateau(plateau(a, payoff, 10, noise), payoff, 10, noise)
    assert_allclose(found, a, rtol=0, atol=1e-7)


# ---------------------------------------------------------------- wrong input


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
