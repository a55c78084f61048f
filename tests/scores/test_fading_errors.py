import numpy as np
import pytest
from hypothesis import given as forall
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit, ndtri, softmax

from abstain.scores.fading_errors import FadingErrors


def evidence_on_labels(rate, errors, samples, seed=0):
    """Of a model of two classes that errs so often: negative where a label is contradicted."""
    rng = np.random.default_rng(seed)
    evidence = rng.normal(-ndtri(errors), 1, samples)
    evidence[rng.random(samples) < rate] *= -1
    return evidence.astype(np.float32)


def likeliest(evidence):
    """Of two classes (rate, errors), by SciPy's search for what makes labels likeliest."""
    contrary, strength = evidence < 0, np.abs(evidence.astype(np.float64))

    def surprise(at):
        rate, slope = 0.5 * expit(at[0]), np.exp(at[1])
        chance = rate + (1 - 2 * rate) * expit(-slope * strength)
        return -np.log(np.where(contrary, chance, 1 - chance)).sum()

    best = minimize(surprise, [-1.5, 0.0], method="Nelder-Mead").x
    return 0.5 * expit(best[0]), float(expit(-np.exp(best[1]) * strength).mean())


@forall(st.floats(0, 0.3), st.floats(0.02, 0.25), st.integers(0, 1000))
def test_wrong_labels_are_told_from_errors(rate, errors, seed):
    evidence = evidence_on_labels(rate, errors, 8000, seed)
    told = FadingErrors.of(np.abs(evidence), evidence < 0, num_classes=2)
    # A part of errors is taken not to fade: that much less is called wrong.
    assert abs(told.rate - rate) < 4 * np.hypot(told.error, 0.005) + 0.1 * errors
    assert abs(told.errors - errors) < 0.05 + 3 * told.error


@pytest.mark.parametrize(("rate", "errors"), [(0.0, 0.1), (0.1, 0.2), (0.2, 0.15), (0.3, 0.05)])
def test_it_agrees_with_the_likeliest_of_all_models(rate, errors):
    evidence = evidence_on_labels(rate, errors, 20_000)
    told = FadingErrors.of(np.abs(evidence), evidence < 0, num_classes=2)
    best, mistaken = likeliest(evidence)
    assert abs(told.rate - best) < 3 * told.error + 0.06 * errors
    assert told.errors == pytest.approx(mistaken, abs=0.03)


@pytest.mark.parametrize("classes", [3, 5, 10])
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3])
def test_of_many_classes_too(classes, rate):
    """Clouds of points as large, as probable, and as far apart; the best of models judges them."""
    rng = np.random.default_rng(classes)
    true = rng.integers(classes, size=10_000)
    points = rng.normal(2.5 * np.eye(classes)[true], 1)
    beliefs = softmax(2.5 * points, 1)
    given = np.where(
        rng.random(10_000) < rate, (true + rng.integers(1, classes, 10_000)) % classes, true
    )
    predicted, sureness = beliefs.argmax(1), logit(beliefs.max(1)).astype(np.float32)
    told = FadingErrors.of(sureness, predicted != given, classes)
    assert told.rate == pytest.approx((given != true).mean(), abs=0.04)
    assert told.errors == pytest.approx((predicted != true).mean(), abs=0.06)
    assert told.told((0.1, 0.2)) == 1


@forall(st.integers(0, 1000), st.sampled_from([lambda x: 100 * x, np.cbrt, lambda x: x**3]))
def test_only_the_order_of_sureness_counts(seed, scaled):
    rng = np.random.default_rng(seed)
    sureness, contrary = rng.permutation(500) / 500, rng.random(500) < 0.3
    once = FadingErrors.of(sureness, contrary, num_classes=4)
    assert FadingErrors.of(scaled(sureness), contrary, num_classes=4) == once
    order = rng.permutation(500)
    assert FadingErrors.of(sureness[order], contrary[order], num_classes=4) == once


@pytest.mark.parametrize("samples", [0, 1, 7])
def test_of_next_to_nothing_little_is_told(samples):
    few = FadingErrors.of(np.ones(samples, np.float32), np.zeros(samples, dtype=bool), 2)
    assert few.told((0.03, 0.06)) == 0
    assert 0 <= few.rate <= 0.5
