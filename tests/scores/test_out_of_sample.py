import numpy as np
import pytest
from scipy.special import expit
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB

from abstain.scores.label_quality import label_quality_from_probabilities
from abstain.scores.noise_rate import estimate_noise

KINDS = [("symmetric", 0.1), ("symmetric", 0.4), ("pairflip", 0.2), ("pairflip", 0.4)]


def out_of_sample(seed, distance, rate=0.0, kind="symmetric", shares=(0.25,) * 4, samples=2000):
    """Given and true labels, and cross-validated probabilities of points around four centres."""
    rng = np.random.default_rng(seed)
    true = rng.choice(4, samples, p=shares)
    points = rng.normal(size=(4, 6))[true] * distance + rng.normal(size=(samples, 6))
    flip = rng.random(samples) < rate
    if kind == "one class":
        given = np.where(flip & (true == 1), 3, true)
    else:
        moved = 1 if kind == "pairflip" else rng.integers(1, 4, samples)
        given = np.where(flip, (true + moved) % 4, true)
    folds = StratifiedKFold(4, shuffle=True, random_state=seed)
    model = GaussianNB(var_smoothing=1e-2)
    told = cross_val_predict(model, points, given, cv=folds, method="predict_proba")
    return given, true, told


def estimated(given, told):
    return estimate_noise(label_quality_from_probabilities(told, given), given, 4)


@pytest.mark.parametrize("distance", [1.0, 2.0])
@pytest.mark.parametrize("shares", [(0.25,) * 4, (0.6, 0.2, 0.1, 0.1)])
def test_the_interval_covers(distance, shares):
    covered = []
    for seed in range(4):
        for kind, rate in [*KINDS, ("one class", 0.3), ("symmetric", 0.0)]:
            given, true, told = out_of_sample(seed, distance, rate, kind, shares)
            covered.append(float((given != true).mean()) in estimated(given, told).rate)
    assert np.mean(covered) >= 0.9


@pytest.mark.parametrize("seed", range(3))
def test_wrong_labels_of_one_class_alone_are_counted(seed):
    given, true, told = out_of_sample(seed, 2.0, 0.3, "one class")
    estimate, wrong = estimated(given, told), given != true
    assert abs(estimate.rate.value - wrong.mean()) < 0.03
    assert estimate.is_label_issue[wrong].mean() > 0.6
    clean = estimated(true, out_of_sample(seed, 2.0)[2])
    assert clean.rate.value < 0.005
    assert clean.rate.low == 0


def test_order_is_kept_where_beliefs_round_to_one():
    """Odds of a million to one and more, all 1 in float32: the surer, the rarer an error."""
    rng = np.random.default_rng(0)
    true, log_odds = rng.integers(2, size=3000), rng.uniform(17, 40, 3000)
    errs = rng.random(3000) < 0.4 * (1 - (log_odds - 17) / 23) ** 2
    looks = np.where(errs, 1 - true, true)
    told = np.empty((3000, 2))
    told[np.arange(3000), looks], told[np.arange(3000), 1 - looks] = 1.0, np.exp(-log_odds)
    assert (told.max(1).astype(np.float32) == 1).all()
    estimate = estimate_noise(label_quality_from_probabilities(told, true), true, 2)
    assert errs.mean() > 0.1
    assert estimate.rate.value < 0.05
    assert estimate.rate.low == 0


@pytest.mark.parametrize("told", [[1 / 3] * 3, [0.9, 0.05, 0.05], [0.4, 0.4, 0.2]])
def test_beliefs_that_are_all_alike_tell_nothing(told):
    given = np.random.default_rng(0).integers(3, size=600)
    quality = label_quality_from_probabilities(np.tile(told, (600, 1)), given)
    estimate = estimate_noise(quality, given, 3)
    assert estimate.trust == 0
    assert estimate.rate.low == 0
    assert estimate.rate.high > 0.5


@pytest.mark.parametrize("rates", [(0.0, 0.0), (0.1, 0.1), (0.2, 0.2), (0.0, 0.3), (0.2, 0.0)])
@pytest.mark.parametrize("calibrated", [True, False])
def test_of_two_classes_that_overlap_errors_are_told_from_wrong_labels(rates, calibrated):
    """The best of models errs on 16%, and is nowhere quite sure: it has no plateau."""
    rng = np.random.default_rng(0)
    true = rng.integers(2, size=8000)
    log_odds = 2 * rng.normal(2 * true - 1.0, 1)
    given = np.where(rng.random(8000) < np.array(rates)[true], 1 - true, true)
    of_second = expit(log_odds)
    if calibrated:  # to the labels as they are given
        of_second = rates[0] + (1 - sum(rates)) * of_second
    quality = label_quality_from_probabilities(np.stack([1 - of_second, of_second], 1), given)
    rate, truth = estimate_noise(quality, given, 2).rate, float((given != true).mean())
    assert truth in rate
    assert rate.value == pytest.approx(truth, abs=0.03)
    for label, wrong in enumerate(rates):
        assert quality.noise.transition[label, 1 - label] == pytest.approx(wrong, abs=0.1)
