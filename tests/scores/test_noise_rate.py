import math

import numpy as np
import pytest
from simulated import simulated_run
from sklearn.metrics import f1_score

from abstain.errors import AbstainError
from abstain.noise import check_transition, pairflip, symmetric
from abstain.scores.label_quality import label_quality, label_quality_from_probabilities
from abstain.scores.noise_model import estimate_transition
from abstain.scores.noise_rate import estimate_noise

KINDS = [
    ("symmetric", 0.1),
    ("symmetric", 0.4),
    ("symmetric", 0.6),
    ("pairflip", 0.2),
    ("pairflip", 0.4),
]


def estimated(classes=5, **settings):
    ledger, given, true = simulated_run(classes=classes, **settings)
    quality = label_quality(ledger, given)
    return quality, estimate_noise(quality, given, classes), given, true


def test_intervals_cover_the_truth_in_simulated_runs():
    """Fifty runs: five kinds of noise, ten seeds each."""
    covered, errors = [], []
    for kind, rate in KINDS:
        for seed in range(10):
            _, estimate, given, true = estimated(kind=kind, rate=rate, seed=seed, samples=1500)
            truth = float((given != true).mean())
            covered.append(truth in estimate.rate)
            errors.append(abs(estimate.rate.value - truth))
    assert np.mean(covered) >= 0.9
    assert np.mean(errors) <= 0.02


@pytest.mark.parametrize("weights", [None, [0.6, 0.2, 0.1, 0.05, 0.05]])
def test_clean_labels_raise_no_alarm(weights):
    for seed in range(5):
        _, estimate, _, _ = estimated(rate=0.0, seed=seed, weights=weights)
        assert estimate.rate.low == 0
        assert estimate.rate.value < 0.01
        assert estimate.is_label_issue.mean() < 0.01
        assert estimate.expected_wrong(50).low < 25


def test_two_classes_and_unbalanced_ones():
    for weights in (None, [0.85, 0.15]):
        errors = []
        for seed in range(5):
            _, estimate, given, true = estimated(classes=2, rate=0.2, weights=weights, seed=seed)
            errors.append(estimate.rate.value - (given != true).mean())
        assert np.abs(errors).mean() < 0.03


def test_flags_and_probabilities_fit_the_truth():
    quality, estimate, given, true = estimated(rate=0.3, samples=4000)
    wrong = given != true
    assert f1_score(wrong, estimate.is_label_issue) > 0.9
    assert estimate.wrong_probability.mean() == pytest.approx(estimate.rate.value, abs=2e-3)
    order = quality.worst_first()
    for budget in (200, 600, 1200, 2000):
        expected = estimate.expected_wrong(budget)
        truth = wrong[order[:budget]].sum()
        assert abs(expected.value - truth) < 0.05 * budget
        assert expected.low <= expected.value <= expected.high
    assert estimate.expected_wrong(0).high == 0
    assert estimate.expected_wrong(4000).value == pytest.approx(
        4000 * estimate.rate.value, rel=0.01
    )
    with pytest.raises(AbstainError, match=r"budget must lie in \[0, 4000\], got 4001"):
        estimate.expected_wrong(4001)


@pytest.mark.parametrize(("kind", "matrix"), [("symmetric", symmetric), ("pairflip", pairflip)])
def test_transition_matrix_is_recovered(kind, matrix):
    _, estimate, given, true = estimated(kind=kind, rate=0.3, samples=6000)
    check_transition(estimate.transition)
    assert np.abs(estimate.transition - matrix(5, 0.3)).max() < 0.07
    assert (estimate.transition_low <= estimate.transition).all()
    assert (estimate.transition <= estimate.transition_high).all()
    happened = np.zeros((5, 5))
    np.add.at(happened, (true, given), 1)
    happened /= happened.sum(1, keepdims=True)
    covered = (estimate.transition_low <= happened) & (happened <= estimate.transition_high)
    assert covered.mean() >= 0.9


def test_shares_per_class():
    weights = [0.5, 0.3, 0.15, 0.05]
    covered = []
    for seed in range(8):
        _, estimate, given, true = estimated(
            classes=4, rate=0.2, weights=weights, samples=3000, seed=seed
        )
        for j, interval in enumerate(estimate.per_class):
            covered.append(float((given != true)[given == j].mean()) in interval)
    assert np.mean(covered) >= 0.9


def test_a_poor_model_makes_the_interval_wide():
    good = estimated(rate=0.2, seed=2, samples=4000)[1].rate
    _, poor, given, true = estimated(rate=0.2, seed=2, samples=4000, classes=8, skill=1.5)
    assert poor.rate.high - poor.rate.low > 3 * (good.high - good.low)
    assert (given != true).mean() in poor.rate


def test_poor_probabilities_make_the_interval_wide_too():
    rng = np.random.default_rng(0)
    true = rng.integers(8, size=6000)
    logits = rng.normal(size=(6000, 8))
    logits[np.arange(6000), true] += 2 * rng.random(6000)
    beliefs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    for given in (true, np.where(rng.random(6000) < 0.2, (true + 1) % 8, true)):
        quality = label_quality_from_probabilities(beliefs, given)
        rate = estimate_noise(quality, given, 8).rate
        assert (given != true).mean() in rate
        assert rate.high - rate.low > 0.15


def test_a_class_that_nobody_has_is_unknown():
    ledger, given, _ = simulated_run(classes=3, samples=600)
    estimate = estimate_noise(label_quality(ledger, given), given, 5)
    assert len(estimate.per_class) == 5
    assert math.isnan(estimate.per_class[4].value)
    assert (estimate.per_class[4].low, estimate.per_class[4].high) == (0, 1)
    assert estimate.transition.shape == (5, 5)
    check_transition(estimate.transition)


def test_few_samples_do_not_break_it():
    for samples in (1, 2, 5, 30):
        beliefs = np.full((samples, 3), 0.1) + 0.7 * np.eye(3)[np.arange(samples) % 3]
        given = np.arange(samples) % 3
        estimate = estimate_noise(label_quality_from_probabilities(beliefs, given), given, 3)
        assert 0 <= estimate.rate.low <= estimate.rate.value <= estimate.rate.high <= 1
        assert np.isfinite(estimate.wrong_probability).all()
        assert estimate.rate.low == 0
        check_transition(estimate.transition)


def test_transition_shrinks_chance_away_and_keeps_structure():
    rng = np.random.default_rng(0)
    draws = np.stack([rng.multinomial(200, row) for row in symmetric(10, 0.4)]).astype(float)
    raw = draws / draws.sum(1, keepdims=True)
    shrunk = estimate_transition(draws)
    np.testing.assert_allclose(shrunk.sum(1), 1)
    truth = symmetric(10, 0.4)
    assert np.abs(shrunk - truth).mean() < 0.5 * np.abs(raw - truth).mean()
    draws = np.stack([rng.multinomial(200, row) for row in pairflip(10, 0.4)]).astype(float)
    assert np.abs(estimate_transition(draws) - pairflip(10, 0.4)).max() < 0.1
    for empty in (np.zeros((3, 3)), np.diag([5.0, 0.0, 2.0])):
        matrix = estimate_transition(empty)
        assert np.isfinite(matrix).all()
        assert (matrix > 0).all()
        np.testing.assert_allclose(matrix.sum(1), 1)


def real_run(kind, rate, seed, epochs=None):
    from abstain import Recipe
    from abstain.train.run import train

    seeds = {"seed_noise": seed, "seed_init": seed, "seed_order": seed}
    recipe = Recipe(flip=rate, flip_kind=kind, epochs=epochs, **seeds)
    trained = train("digits", recipe)
    given, true = trained.data.given.numpy(), trained.data.true.numpy()
    quality = label_quality(trained.ledger, given)
    return estimate_noise(quality, given, 10), given != true


def test_a_real_training_tells_how_many_labels_are_wrong():
    estimate, wrong = real_run("symmetric", 0.3, seed=7, epochs=20)
    assert wrong.mean() in estimate.rate
    assert estimate.rate.value == pytest.approx(wrong.mean(), abs=0.05)
    assert f1_score(wrong, estimate.is_label_issue) > 0.9


@pytest.mark.slow
def test_intervals_cover_the_truth_in_real_trainings():
    settings = [("symmetric", 0.1), ("symmetric", 0.4), ("symmetric", 0.6), ("pairflip", 0.3)]
    settings += [("pairflip", 0.4), ("instance", 0.3)]
    covered, errors = [], []
    for kind, rate in settings:
        for seed in range(30, 37):
            estimate, wrong = real_run(kind, rate, seed)
            covered.append(wrong.mean() in estimate.rate)
            errors.append(abs(estimate.rate.value - wrong.mean()))
    assert np.mean(covered) >= 0.9
    assert np.mean(errors) <= 0.025
