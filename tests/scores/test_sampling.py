"""Tests of sampling.py and interval.py: the draws and the coverage of the intervals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from abstain.errors import AbstainError
from abstain.scores.interval import Interval
from abstain.scores.sampling import (
    STRATA,
    answers_needed,
    draw,
    measured_rate,
    strata,
    stratified_interval,
    wrong_unchecked,
)

probabilities = st.lists(st.floats(0, 1), min_size=1, max_size=60)


def reference_interval(answers, errors, sizes, confidence=0.95):
    """`stratified_interval` by loops and scipy.stats, for strata that all have answers."""
    left = [size - n for size, n in zip(sizes, answers, strict=True)]
    rate = mean = variance = 0.0
    for n, k, rest in zip(answers, errors, left, strict=True):
        if rest:
            weight, smooth = rest / sum(left), (k + 1) / (n + 2)
            rate += weight * k / n
            mean += weight * smooth
            variance += weight**2 * smooth * (1 - smooth) * (1 / n + 1 / rest)
    size = mean * (1 - mean) / variance
    tail = (1 - confidence) / 2
    low = stats.beta.ppf(tail, rate * size, (1 - rate) * size + 1) if rate > 0 else 0
    high = stats.beta.ppf(1 - tail, rate * size + 1, (1 - rate) * size) if rate < 1 else 1
    value = sum(size * k / n for n, k, size in zip(answers, errors, sizes, strict=True))
    ends = np.floor(sum(errors) + sum(left) * low), np.ceil(sum(errors) + sum(left) * high)
    return value / sum(sizes), ends[0] / sum(sizes), ends[1] / sum(sizes)


@given(probabilities, st.data())
def test_a_sample_has_each_row_at_most_once_with_its_stratum_and_sizes(p, data):
    size = data.draw(st.integers(1, len(p)))
    sample = draw(p, size, np.random.default_rng(data.draw(st.integers(0, 99))))
    assert len(sample.rows) == len(set(sample.rows.tolist())) == size
    assert sample.rows.dtype == np.int64
    np.testing.assert_array_equal(sample.stratum, strata(p)[sample.rows])
    np.testing.assert_array_equal(sample.sizes, np.bincount(strata(p), minlength=STRATA))
    inclusion = sample.inclusion_probability
    assert np.all((inclusion > 0) & (inclusion <= 1))
    # Of a stratum without a draw it is unknown here; with draws from all, the sum is the size.
    of_stratum = dict(zip(sample.stratum.tolist(), inclusion.tolist(), strict=True))
    if len(of_stratum) == np.count_nonzero(sample.sizes):
        total = sum(sample.sizes[k] * x for k, x in of_stratum.items())
        assert total == pytest.approx(size)


@given(probabilities)
def test_strata_ascend_with_wrong_probability(p):
    stratum = strata(p)
    assert np.all(np.diff(stratum[np.argsort(p, kind="stable")]) >= 0)
    assert stratum.min() >= 0
    assert stratum.max() < STRATA


@given(probabilities, st.data())
def test_each_prefix_has_the_strata_in_proportion(p, data):
    sample = draw(p, len(p), np.random.default_rng(0))
    prefix = sample.stratum[: data.draw(st.integers(1, len(p)))]
    drawn = np.bincount(prefix, minlength=STRATA)
    unfinished = drawn < sample.sizes
    # Strata take turns: those with labels left are at most one draw behind any other.
    if unfinished.any():
        assert drawn.max() <= drawn[unfinished].min() + 1


def test_inclusion_probability_is_how_often_a_label_is_drawn_also_in_a_prefix():
    p, rng, draws = np.array([0.01] * 12 + [0.3] * 3 + [0.5] * 2), np.random.default_rng(0), 3_000
    for size, prefix in ((1, 1), (9, 9), (15, 15), (15, 6)):
        count, expected = np.zeros(len(p)), np.zeros(len(p))
        for _ in range(draws):
            rows = draw(p, size, rng).rows[:prefix]
            count[rows] += 1
        for _ in range(400):  # until each label was drawn once
            sample = draw(p, prefix, rng)
            expected[sample.rows] = sample.inclusion_probability
        assert expected.sum() == pytest.approx(prefix)
        error = np.sqrt(expected * (1 - expected) / draws)
        np.testing.assert_array_less(np.abs(count / draws - expected), 4.5 * error + 1e-9)


def test_every_label_has_half_the_inclusion_probability_of_a_plain_sample_or_more():
    p = np.where(np.arange(10_000) < 100, 0.5, 1e-9)
    assert draw(p, 400, np.random.default_rng(0)).inclusion_probability.min() > 0.49 * 400 / 10_000


def test_the_estimate_is_unbiased_where_wrong_probability_is_reversed():
    rng = np.random.default_rng(0)
    p = rng.beta(0.5, 3, 500)
    wrong = rng.random(500) < np.sort(p)[::-1][np.argsort(np.argsort(p))]
    found = []
    for _ in range(2_000):
        sample = draw(p, 40, rng)
        found.append(measured_rate(sample.stratum, wrong[sample.rows], sample.sizes).value)
    assert abs(np.mean(found) - wrong.mean()) < 4 * np.std(found) / np.sqrt(len(found))


@given(st.lists(st.tuples(*[st.integers(0, 40)] * 3), min_size=1, max_size=6))
def test_the_interval_agrees_with_loops_over_strata(counts):
    errors, rights, rest = np.array(counts).T
    answers = np.maximum(errors + rights, 1)
    rest[0] += 1
    found = stratified_interval(answers, errors, answers + rest)
    np.testing.assert_allclose(found, reference_interval(answers, errors, answers + rest))


@settings(max_examples=50)
@given(st.lists(st.tuples(*[st.integers(0, 9)] * 3), min_size=1, max_size=6), st.floats(0.5, 0.99))
def test_the_interval_holds_the_value_and_what_is_known(counts, confidence):
    errors, rights, rest = np.array(counts).T
    errors[0] += 1
    answers, sizes = errors + rights, errors + rights + rest
    value, low, high = stratified_interval(answers, errors, sizes, confidence)
    assert errors.sum() / sizes.sum() <= low <= value <= high
    assert high <= (errors + rest).sum() / sizes.sum()
    assert (low < high) == (rest.sum() > 0)


def test_one_stratum_of_a_large_population_is_the_exact_binomial_interval():
    for k in (0, 3, 50, 100):
        _, low, high = stratified_interval([100], [k], [10**9])
        exact = stats.binomtest(k, 100).proportion_ci(method="exact")
        np.testing.assert_allclose([low, high], [exact.low, exact.high], atol=1e-6)


@pytest.mark.parametrize("kind", ["right", "reversed", "shuffled", "constant", "polarised"])
@pytest.mark.parametrize("rate", [0.02, 0.2])
def test_the_interval_covers_whatever_wrong_probability_is(kind, rate):
    rng = np.random.default_rng(0)
    chance = rng.beta(0.4, 0.4 / rate - 0.4, 3_000)
    wrong = rng.random(3_000) < chance
    p = {
        "right": chance,
        "reversed": np.sort(chance)[::-1][np.argsort(np.argsort(chance))],
        "shuffled": rng.permutation(chance),
        "constant": np.full(3_000, 0.1),
        "polarised": np.where(wrong, 1e-9, np.where(rng.random(3_000) < 0.03, 0.5, 1e-9)),
    }[kind]
    errors = np.bincount(strata(p)[wrong], minlength=STRATA)
    for size in (5, 20, 100, 200, 400, 2_900):
        sample = draw(p, size, rng)
        answers = np.bincount(sample.stratum, minlength=STRATA)
        found = rng.hypergeometric(errors, sample.sizes - errors, answers, (4_000, STRATA))
        _, low, high = stratified_interval(answers, found, sample.sizes)
        assert np.mean((low <= wrong.mean()) & (wrong.mean() <= high)) > 0.935, size


def test_the_interval_of_drawn_answers_covers():
    rng = np.random.default_rng(0)
    p = rng.beta(0.5, 3, 600)
    wrong = rng.random(600) < p / 2
    covers = 0
    for _ in range(1_000):
        sample = draw(p, 100, rng)
        first = slice(0, 70)
        rate = measured_rate(sample.stratum[first], wrong[sample.rows[first]], sample.sizes)
        covers += wrong.mean() in rate
    assert covers / 1_000 > 0.935


@given(probabilities, st.integers(0, 99))
def test_the_interval_is_exact_when_all_labels_are_checked(p, seed):
    rng = np.random.default_rng(seed)
    wrong = rng.random(len(p)) < 0.3
    sample = draw(p, len(p), rng)
    rate = measured_rate(sample.stratum, wrong[sample.rows], sample.sizes)
    assert rate.low == rate.value == rate.high == wrong.sum() / len(p)
    left = wrong_unchecked(rate, len(p), len(p), int(wrong.sum()))
    assert left == Interval(value=0, low=0, high=0)


@pytest.mark.parametrize("answers", [1, 2, 5, 100])
def test_answers_all_right_or_all_wrong_leave_room(answers):
    stratum = np.arange(answers) % STRATA
    right = measured_rate(stratum, [False] * answers, [300, 200, 100, 50])
    wrong = measured_rate(stratum, [True] * answers, [300, 200, 100, 50])
    assert right.value == right.low == 0
    assert wrong.value == wrong.high == 1
    assert right.high == pytest.approx(1 - wrong.low)
    assert right.high > 0.9 / answers


def test_a_stratum_without_answers_may_have_any_rate():
    rate = measured_rate([0] * 50, [True] * 10 + [False] * 40, [500, 500])
    assert rate.value == pytest.approx(0.2)
    assert rate.low < 0.1
    assert rate.high > 0.6


def test_fewer_wrong_labels_are_left_when_more_are_known():
    rate = Interval(value=0.1, low=0.05, high=0.2)
    assert wrong_unchecked(rate, 1_000, 0, 0) == Interval(value=100, low=50, high=200)
    assert wrong_unchecked(rate, 1_000, 150, 100) == Interval(value=0, low=0, high=100)
    assert wrong_unchecked(rate, 1_000, 950, 10).high == 50


@pytest.mark.parametrize(("answers", "total"), [(100, 10**7), (200, 3_000), (50, 400)])
def test_the_answers_needed_halve_the_interval(answers, total):
    def width(n):
        _, low, high = stratified_interval([n], [n * 0.3], [total])
        return high - low

    more = answers_needed(answers, total)
    assert width(answers + more) / width(answers) == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: draw([0.1, 0.2], 3, np.random.default_rng(0)), r"size .* \[1, 2\].* got 3"),
        (lambda: draw([0.1, 0.2], 0, np.random.default_rng(0)), r"size .* got 0"),
        (lambda: strata([0.1, np.nan]), r"wrong_probability must lie in \[0, 1\], got nan"),
        (lambda: strata([0.1, 1.5]), r"got 1\.5"),
        (lambda: strata([]), r"one number per label, got shape \(0,\)"),
        (lambda: measured_rate([], [], [5]), r"at least one, got shapes \(0,\)"),
        (lambda: measured_rate([0], [True, False], [5]), r"got shapes \(1,\) and \(2,\)"),
        (lambda: measured_rate([2], [True], [5, 5]), r"stratum must lie in \[0, 1\], got 2"),
        (lambda: measured_rate([-1], [True], [5, 5]), r"got -1"),
        (lambda: measured_rate([1, 1], [True, True], [5, 1]), r"1 has 1 labels, got 2 answers"),
        (lambda: measured_rate([0], [True], [5], 95), r"confidence must lie in \(0, 1\), got 95"),
        (lambda: wrong_unchecked(Interval(value=0, low=0, high=1), 5, 6, 0), r"got 0, 6 and 5"),
        (lambda: answers_needed(0, 5), r"answers must lie in \[1, 5\], got 0"),
    ],
)
def test_errors_name_argument_rule_and_value(call, message):
    with pytest.raises(AbstainError, match=message):
        call()
