"""Labels drawn from matrices and by features, against counts and one choice per label."""

import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from noisy_labels import class_counts, draw_labels, is_plausible, kinds, matrices, rates, seeds
from scipy import stats

from abstain import noise


@given(matrices(), seeds, st.booleans())
def test_only_possible_labels_come_out_and_the_seed_decides(matrix, seed, exact):
    true = draw_labels(len(matrix), 500, seed)
    before = true.copy()
    first = noise.corrupt(true, matrix, np.random.default_rng(seed), exact=exact)
    again = noise.corrupt(true, matrix, np.random.default_rng(seed), exact=exact)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(true, before)
    assert (matrix[true, first] > 0).all()


def test_another_seed_gives_other_flips():
    true = draw_labels(10, 200)
    matrix = noise.symmetric(10, 0.5)
    one, two = (noise.corrupt(true, matrix, np.random.default_rng(seed)) for seed in (0, 1))
    assert (one != two).any()


@given(kinds, class_counts, rates, seeds)
def test_realised_rate_is_binomial(kind, m, rate, seed):
    matrix = noise.transition(kind, m, rate)
    true = draw_labels(m, 2000, seed)
    wrong = int((noise.corrupt(true, matrix, np.random.default_rng(seed)) != true).sum())
    share = {"symmetric": rate, "pairflip": rate, "symmetric-any": rate * (m - 1) / m}[kind]
    assert is_plausible(wrong, 2000, share)


@given(st.sampled_from(["symmetric", "pairflip"]), class_counts, seeds, st.data())
def test_exact_count_is_exact(kind, m, seed, data):
    size = data.draw(st.integers(1, 400))
    hundredths = data.draw(st.integers(0, 100))
    true = draw_labels(m, size, seed)
    matrix = noise.transition(kind, m, hundredths / 100)
    out = noise.corrupt(true, matrix, np.random.default_rng(seed), exact=True)
    # in whole numbers, where a half is a half
    assert (out != true).sum() == round(Fraction(hundredths * size, 100))


@pytest.mark.parametrize("m", [2, 3, 7, 10])
def test_halves_round_to_even_whatever_floating_point_makes_of_them(m):
    true = draw_labels(m, 50)
    for hundredths in range(1, 100, 2):
        matrix = noise.symmetric(m, hundredths / 100)
        out = noise.corrupt(true, matrix, np.random.default_rng(0), exact=True)
        assert (out != true).sum() == round(Fraction(hundredths, 2))


@given(matrices(), seeds)
def test_exact_count_of_a_general_matrix_is_the_expected_number(matrix, seed):
    true = draw_labels(len(matrix), 300, seed)
    expected = sum(1 - matrix[label, label] for label in true)
    wrong = (noise.corrupt(true, matrix, np.random.default_rng(seed), exact=True) != true).sum()
    assert abs(wrong - expected) <= 0.5 + 1e-6


def test_exact_flips_follow_the_rate_of_each_class():
    matrix = np.array([[0.95, 0.05, 0.0], [0.25, 0.5, 0.25], [0.0, 0.0, 1.0]])
    true = np.repeat([0, 1, 2], 40)
    rng = np.random.default_rng(0)
    wrong = np.mean([noise.corrupt(true, matrix, rng, exact=True) != true for _ in range(4000)], 0)
    by_class = wrong.reshape(3, 40).mean(axis=1)
    np.testing.assert_allclose(by_class, [0.05, 0.5, 0.0], atol=0.003)
    # no sample of a class is favoured
    assert np.ptp(wrong[40:80]) < 0.06


@pytest.mark.parametrize("exact", [False, True])
def test_frequencies_follow_the_matrix(exact):
    rng = np.random.default_rng(3)
    matrix = rng.dirichlet(np.ones(6), size=6)
    true = draw_labels(6, 120_000)
    out = noise.corrupt(true, matrix, rng, exact=exact)
    counts = np.zeros((6, 6))
    np.add.at(counts, (true, out), 1)
    expected = counts.sum(axis=1, keepdims=True) * matrix
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert stats.chi2.sf(statistic, df=30) > 1e-4


def test_drawing_agrees_with_one_choice_per_label():
    """Against the slow, obvious version: numpy's own choice, label by label."""
    rng = np.random.default_rng(5)
    matrix = rng.dirichlet(np.full(4, 0.5), size=4)
    true = draw_labels(4, 20_000)
    slow = np.array([rng.choice(4, p=matrix[label]) for label in true])
    fast = noise.corrupt(true, matrix, rng)
    for label in range(4):
        table = [np.bincount(out[true == label], minlength=4) + 1 for out in (slow, fast)]
        assert stats.chi2_contingency(table).pvalue > 1e-4


@given(class_counts, seeds, st.booleans())
def test_symmetric_never_keeps_when_flipping(m, seed, exact):
    true = draw_labels(m, 300, seed)
    out = noise.corrupt(true, noise.symmetric(m, 1.0), np.random.default_rng(seed), exact=exact)
    assert (out != true).all()


def test_symmetric_any_keeps_some():
    true = draw_labels(10, 100_000)
    out = noise.corrupt(true, noise.symmetric_any(10, 0.8), np.random.default_rng(0))
    assert (out != true).mean() == pytest.approx(0.72, abs=0.01)


def test_a_million_labels_take_less_than_half_a_second():
    true, matrix = draw_labels(100, 10**6), noise.symmetric(100, 0.4)

    def seconds():  # of this process: others may hold the cores
        start = time.process_time()
        noise.corrupt(true, matrix, np.random.default_rng(0), exact=True)
        return time.process_time() - start

    assert min(seconds() for _ in range(3)) < 0.5


@settings(max_examples=30)
@given(class_counts, rates, seeds, st.booleans())
def test_instance_dependent_rate(m, rate, seed, exact):
    rng = np.random.default_rng(seed)
    features, true = rng.normal(size=(2000, 3)), rng.integers(m, size=2000)
    out, probability = noise.instance_dependent(features, true, m, rate, rng, exact=exact)
    wrong = int((out != true).sum())
    assert ((out >= 0) & (out < m)).all()
    assert ((probability >= 0) & (probability <= 1)).all()
    assert abs(probability.mean() - rate) < 6 * 0.1 / 2000**0.5
    if exact:
        assert wrong == round(rate * 2000)
    else:
        assert is_plausible(wrong, 2000, rate)


def test_instance_dependent_rate_is_not_pushed_up_near_zero():
    rng = np.random.default_rng(0)
    features, true = rng.normal(size=(50_000, 2)), rng.integers(5, size=50_000)
    out = noise.instance_dependent(features, true, 5, 0.05, rng).given
    assert (out != true).mean() == pytest.approx(0.05, abs=0.005)


def test_flips_follow_each_sample_s_own_probability():
    rng = np.random.default_rng(1)
    features, true = rng.normal(size=(50_000, 2)), rng.integers(5, size=50_000)
    out, probability = noise.instance_dependent(features, true, 5, 0.3, rng)
    wrong = out != true
    assert probability.std() == pytest.approx(0.1, abs=0.01)
    for low, high in [(0.1, 0.2), (0.2, 0.3), (0.3, 0.4), (0.4, 0.5)]:
        inside = (probability >= low) & (probability < high)
        assert wrong[inside].mean() == pytest.approx(probability[inside].mean(), abs=0.03)


def prototypes(count=30, copies=400, m=6):
    """Few distinct samples, each many times, with one label each."""
    rng = np.random.default_rng(7)
    kinds_of_sample = rng.normal(size=(count, 8))
    labels = np.arange(count) % m
    which = np.repeat(np.arange(count), copies)
    return kinds_of_sample[which], labels[which], which


def test_alike_samples_are_confused_with_the_same_class():
    features, true, which = prototypes()
    out = noise.instance_dependent(features, true, 6, 0.5, np.random.default_rng(0)).given
    favourites, shares = [], []
    for prototype in range(30):
        flipped_to = np.bincount(out[(which == prototype) & (out != true)], minlength=6)
        favourites.append(int(flipped_to.argmax()))
        shares.append(flipped_to.max() / flipped_to.sum())
    # one in five if features did not matter
    assert np.mean(shares) > 0.8
    # one wrong class per true class would be a transition matrix, not dependence on the input
    by_class = [set(favourites[label::6]) for label in range(6)]
    assert np.mean([len(wrong) for wrong in by_class]) > 1.5


def test_without_its_features_a_sample_has_no_favourite():
    features, true, which = prototypes()
    shuffled = np.random.default_rng(1).permutation(features)
    out = noise.instance_dependent(shuffled, true, 6, 0.5, np.random.default_rng(0)).given
    shares = []
    for prototype in range(30):
        flipped_to = np.bincount(out[(which == prototype) & (out != true)], minlength=6)
        shares.append(flipped_to.max() / flipped_to.sum())
    assert np.mean(shares) < 0.5


def test_units_of_the_features_do_not_matter():
    features, true, _ = prototypes(copies=20)
    one, two = (
        noise.instance_dependent(x, true, 6, 0.4, np.random.default_rng(2)).given
        for x in (features, features.reshape(-1, 2, 4) * 255 + 1000)
    )
    np.testing.assert_array_equal(one, two)


def test_constant_features_and_absent_classes_are_harmless():
    out = noise.instance_dependent(
        np.ones((100, 3)), np.zeros(100, int), 4, 0.5, np.random.default_rng(0), exact=True
    ).given
    assert (out != 0).sum() == 50
