"""Answering and abstaining, against plain loops and exact binomial tails."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from abstain.errors import AbstainError
from abstain.scores.selective import (
    labels_needed,
    risk_bound,
    risk_coverage,
    select_by_coverage,
    select_by_expected_risk,
    threshold_for_risk,
)

# Few values, so that ties are common.
answers = st.lists(
    st.tuples(st.integers(0, 5), st.booleans(), st.sampled_from([0.5, 0.7, 0.9, 1.0])),
    min_size=1,
    max_size=30,
)


def columns(rows):
    return [np.array(column) for column in zip(*rows, strict=True)]


@given(answers, st.floats(0, 1))
def test_coverage_takes_the_most_willing_and_no_more(rows, coverage):
    willing, _, _ = columns(rows)
    chosen = select_by_coverage(willing, coverage)
    assert chosen.sum() == round(coverage * len(rows))
    for i, j in itertools.product(np.flatnonzero(chosen), np.flatnonzero(~chosen)):
        assert (willing[i], -i) > (willing[j], -j)


@given(answers, st.floats(0, 1))
def test_expected_risk_takes_the_longest_prefix_that_keeps_it(rows, max_risk):
    willing, _, confidence = columns(rows)
    order = sorted(range(len(rows)), key=lambda i: (-willing[i], i))
    longest = 0
    for count in range(1, len(rows) + 1):
        if sum(1 - confidence[i] for i in order[:count]) / count <= max_risk:
            longest = count
    chosen = select_by_expected_risk(willing, confidence, max_risk)
    assert set(np.flatnonzero(chosen)) == set(order[:longest])


def test_curve_is_the_mean_over_all_orders_of_equal_scores():
    willing = np.array([2, 1, 1, 1, 0, 0])
    wrong = np.array([0, 1, 0, 0, 1, 0], dtype=bool)
    curves = [
        [sum(wrong[i] for i in order[:k]) / k for k in range(1, 7)]
        for order in itertools.permutations(range(6))
        if all(willing[a] >= willing[b] for a, b in itertools.pairwise(order))
    ]
    curve = risk_coverage(willing, wrong)
    assert len(curves) == 12
    np.testing.assert_allclose(curve.risk, np.mean(curves, axis=0))
    np.testing.assert_allclose(curve.coverage, np.arange(1, 7) / 6)
    assert curve.area == pytest.approx(np.mean(curves))


def test_curve_does_not_depend_on_the_order_of_the_samples():
    rng = np.random.default_rng(0)
    willing, wrong = rng.integers(0, 10, 200), rng.random(200) < 0.3
    shuffled = rng.permutation(200)
    curve, again = risk_coverage(willing, wrong), risk_coverage(willing[shuffled], wrong[shuffled])
    np.testing.assert_allclose(curve.risk, again.risk)


def test_area_is_least_for_the_oracle_and_the_error_rate_for_a_useless_score():
    wrong = np.arange(1000) < 200
    assert risk_coverage(np.zeros(1000), wrong).area == pytest.approx(0.2)
    oracle = risk_coverage(~wrong, wrong).area
    # ∫ (c − 0.8)/c dc from 0.8 to 1
    assert oracle == pytest.approx(0.2 + 0.8 * math.log(0.8), abs=1e-3)
    assert oracle < risk_coverage(wrong, wrong).area


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.9999])
def test_bound_is_clopper_pearson(confidence):
    cases = [(0, 1), (0, 50), (3, 50), (49, 50), (50, 50), (17, 4000), (1, 1)]
    wrong, answered = np.transpose(cases)
    expected = [
        stats.binomtest(int(k), int(n), alternative="less")
        .proportion_ci(confidence, method="exact")
        .high
        for k, n in cases
    ]
    np.testing.assert_allclose(risk_bound(wrong, answered, confidence), expected, rtol=1e-9)


def test_no_answers_rule_no_risk_out():
    assert risk_bound([0], [0], 0.95).tolist() == [1.0]


def slow_threshold(willing, wrong, max_risk, confidence):
    """Use plain loops: every look, its samples, and the binomial tail instead of its inverse."""
    total = len(willing)
    looks = max(1, math.ceil(math.log2(total)))
    level = (1 - confidence) / looks
    fewest = next((n for n in range(1, total + 1) if (1 - max_risk) ** n <= level), None)
    best = (math.inf, 0, 0)
    if fewest is None:
        return best
    descending = sorted(willing, reverse=True)
    for look in range(looks):
        step = (total - fewest) * look / (looks - 1) if looks > 1 else 0
        rank = round(fewest + step)
        threshold = descending[rank] if rank < total else -math.inf
        above = [wrong[i] for i in range(total) if willing[i] > threshold]
        errors = sum(above)
        if above and stats.binom.cdf(errors, len(above), max_risk) <= level:
            best = (threshold, len(above), errors)
    return best


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 10_000),
    st.integers(2, 400),
    st.sampled_from([0.02, 0.1, 0.3, 0.9]),
    st.sampled_from([0.5, 0.95]),
    st.booleans(),
)
def test_threshold_is_that_of_a_slow_search(seed, total, max_risk, confidence, tied):
    rng = np.random.default_rng(seed)
    willing = rng.random(total)
    wrong = rng.random(total) > willing**0.3
    if tied:
        willing = willing.round(1)
    found = threshold_for_risk(willing, wrong, max_risk, confidence)
    assert (found.threshold, found.answered, found.wrong) == slow_threshold(
        willing, wrong, max_risk, confidence
    )
    assert found.samples == total
    assert (found.bound is None) == (found.answered == 0)
    assert found.answered == (willing > found.threshold).sum()


GRID = np.linspace(0, 1, 2001)
MIDDLES = (GRID[1:] + GRID[:-1]) / 2
CHANCES = {
    "risk grows with coverage": lambda s: 0.3 * (1 - s) ** 2,
    # The most willing are wrong together: risk falls with coverage before it grows.
    "confidently wrong": lambda s: np.where(s > 0.9, 0.3, np.where(s > 0.3, 0.01, 0.4)),
    "few scores": lambda s: np.ceil(8 * (1 - s)) / 40,
    # Every threshold is just too risky: whatever is answered breaks the promise.
    "useless score": lambda s: np.full_like(s, 0.101),
}


def true_risk(chance, threshold, levels):
    """True risk of scores that are uniform on [0, 1], or on the middles of so many levels."""
    scores = (np.arange(levels) + 0.5) / levels if levels else MIDDLES
    above = scores > threshold
    return chance(scores[above]).mean() if above.any() else 0.0


def uncorrected(willing, wrong, max_risk, confidence):
    """Take the best of all thresholds, each at full confidence: what must not be done."""
    order = np.argsort(-willing)
    counts = np.arange(1, len(willing) + 1)
    passed = np.flatnonzero(risk_bound(np.cumsum(wrong[order]), counts, confidence) <= max_risk)
    if not len(passed):
        return math.inf
    return np.append(willing[order], -math.inf)[passed[-1] + 1]


@pytest.mark.parametrize("kind", CHANCES)
def test_guaranteed_risk_holds_as_often_as_promised(kind):
    rng = np.random.default_rng(1)
    chance, levels = CHANCES[kind], 8 if kind == "few scores" else None
    rounds, allowed, max_risk = 1500, 0.2, 0.1
    broken = naive = answered = 0
    for _ in range(rounds):
        willing = rng.random(400)
        if levels:
            willing = (np.floor(willing * levels) + 0.5) / levels
        wrong = rng.random(400) < chance(willing)
        found = threshold_for_risk(willing, wrong, max_risk, 1 - allowed)
        broken += true_risk(chance, found.threshold, levels) > max_risk
        answered += found.answered > 0
        cut = uncorrected(willing, wrong, max_risk, 1 - allowed)
        naive += true_risk(chance, cut, levels) > max_risk
    noise = 3 * math.sqrt(allowed * (1 - allowed) / rounds)
    assert broken / rounds < allowed + noise
    if kind == "useless score":
        # The simulation can tell: without the correction the promise is broken.
        assert naive / rounds > allowed + noise
    else:
        assert answered / rounds > 0.5


def test_needed_labels_are_just_enough_when_all_are_right():
    for max_risk, confidence in [(0.02, 0.95), (0.5, 0.9), (0.001, 0.999), (1.0, 0.95)]:
        needed = labels_needed(max_risk, confidence)

        def answers(total, max_risk=max_risk, confidence=confidence):
            right = np.zeros(total, dtype=bool)
            return threshold_for_risk(np.arange(total), right, max_risk, confidence).answered

        assert answers(needed) == needed
        assert needed == 1 or answers(needed - 1) == 0


def test_half_precision_scores_are_cut_where_they_stand():
    rng = np.random.default_rng(0)
    willing = rng.random(500).astype(np.float32)
    wrong = rng.random(500) > willing
    found = threshold_for_risk(willing, wrong, 0.3)
    assert 0 < found.answered < 500
    assert (willing > found.threshold).sum() == found.answered


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: select_by_coverage([1.0], 1.5), r"coverage must lie in \[0, 1\], got 1.5"),
        (lambda: select_by_coverage([1.0], math.nan), "coverage must lie in"),
        (
            lambda: select_by_coverage([math.nan, 1.0], 0.5),
            "willing must be numbers, got NaN for 1",
        ),
        (lambda: select_by_coverage([[1.0]], 0.5), "willing must be one score per sample"),
        (lambda: select_by_expected_risk([1.0], [0.5], -0.1), "max_risk must lie in"),
        (lambda: select_by_expected_risk([1.0], [0.5, 0.5], 0.1), "confidence must have one value"),
        (lambda: risk_coverage([1.0, 2.0], [True]), "wrong must have one value per sample, 2"),
        (lambda: risk_coverage([], []), "willing must hold samples"),
        (lambda: threshold_for_risk([1.0], [False], 0.0), r"max_risk must lie in \(0, 1\]"),
        (lambda: threshold_for_risk([1.0], [False], 0.1, 1.0), r"confidence must lie in \(0, 1\)"),
        (lambda: labels_needed(0.1, 0.0), "confidence must lie in"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(AbstainError, match=message):
        call()


def test_nothing_to_select_from_selects_nothing():
    assert select_by_coverage([], 0.5).tolist() == []
    assert select_by_expected_risk([], [], 0.5).tolist() == []
