import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st
from scipy.optimize import minimize

from abstain.scores.kept_errors import _POWER, _SPREAD, _slope, without_kept_errors
from abstain.scores.plateau import PARTS, Beliefs, find_plateau, tenths

LENIENT = (2.0, 2.5, 3.0)


def run(rng, samples=1500, classes=5, rate=0.2, errors=0.0, learnt=None, shares=None):
    """Beliefs of a model that errs as the third power of the rank, and never predicts some classes.

    Returns beliefs, given and true labels.
    """
    true = rng.choice(classes, samples, p=shares)
    given = np.where(
        rng.random(samples) < rate, (true + rng.integers(1, classes, samples)) % classes, true
    )
    unsure = rng.random(samples)
    # Of what it never learnt, a model is not sure.
    unlearnt = true >= (classes if learnt is None else learnt)
    unsure = np.where(unlearnt, 0.5 + unsure / 2, unsure)
    errs = (rng.random(samples) < errors * 4 * unsure**3) | unlearnt
    others = (true + rng.integers(1, classes, samples)) % (learnt or classes)
    predicted = np.where(errs, others, true)
    beliefs = Beliefs(predicted=predicted.astype(np.int32), confidence=-unsure.astype(np.float32))
    return beliefs, given.astype(np.int32), true


def levels(beliefs, given, classes):
    """Disagreement of the lenient plateau with errors counted off, and without; and the counts."""
    plateau, counts = find_plateau(beliefs, given, classes, LENIENT, 0.2)
    mended, fewer = without_kept_errors(plateau, counts, beliefs, given)
    return mended.disagreement, plateau.disagreement, fewer, counts


@pytest.mark.parametrize("errors", [0.0, 0.02, 0.05])
def test_errors_of_the_least_sure_are_counted_off(errors):
    """Over forty small sets the share of wrong labels is met on average, and was not before."""
    mended, plain = [], []
    for seed in range(40):
        beliefs, given, true = run(np.random.default_rng(seed), 600, errors=errors)
        truth = float((given != true).mean())
        found = levels(beliefs, given, 5)
        mended.append(found[0] - truth)
        plain.append(found[1] - truth)
    assert abs(np.mean(mended)) < 0.012
    if errors:
        assert abs(np.mean(mended)) < np.mean(plain) - 0.004
        assert np.mean(np.abs(mended)) < np.mean(np.abs(plain))


def test_labels_of_classes_never_predicted_are_not_all_wrong():
    shares = [0.5, 0.3, 0.13, 0.07]
    mended, plain = [], []
    for seed in range(40):
        drawn_run = run(np.random.default_rng(seed), 400, 4, learnt=3, shares=shares)
        beliefs, given, true = drawn_run
        truth = float((given != true).mean())
        found, before, fewer, counts = levels(beliefs, given, 4)
        mended.append(found - truth)
        plain.append(before - truth)
        assert (fewer <= counts + 1e-9).all()
        assert (np.diagonal(fewer) == np.diagonal(counts)).all()
        assert (fewer[:, :3] == counts[:, :3]).all()
    assert np.mean(np.abs(mended)) < 0.7 * np.mean(np.abs(plain))
    assert abs(np.mean(mended)) < 0.6 * np.mean(plain)


def test_a_class_most_of_whose_labels_are_wrong_keeps_them():
    """As many of the surest as of the others: these are no errors of the model."""
    rng = np.random.default_rng(0)
    beliefs, given, true = run(rng, 4000, 5, rate=0.0, shares=[0.3, 0.3, 0.3, 0.05, 0.05])
    given = np.where((true < 3) & (rng.random(4000) < 0.15), 4, given).astype(np.int32)
    assert (beliefs.predicted == 4).sum() < (given == 4).sum() / 2
    mended, plain, _, _ = levels(beliefs, given, 5)
    assert mended == pytest.approx((given != true).mean(), abs=0.012)
    assert mended == pytest.approx(plain, abs=0.012)


@drawn(st.integers(0, 10_000), st.floats(0.05, 0.6), st.integers(100, 100_000))
def test_the_slope_is_the_least_squares_one(seed, rate, samples):
    rng = np.random.default_rng(seed)
    parts = np.clip(rate + 0.2 * rng.random(PARTS).cumsum() / PARTS, 0, 1)
    curve = np.cumsum(parts) / np.arange(1, PARTS + 1)
    middles = (np.arange(PARTS * 1000) + 0.5) / (PARTS * 1000)
    shape = (middles**_POWER).reshape(PARTS, -1).mean(1)
    variance = curve[-1] * (1 - curve[-1]) / (samples / PARTS)

    def loss(x):
        level, slope = x
        misfit = np.square(parts - level - slope * shape).sum() / variance
        return misfit + (slope / (_POWER + 1) / _SPREAD) ** 2

    best = minimize(loss, [rate, 0.0], bounds=[(None, None), (0, None)]).x[1]
    assert _slope(curve, samples) == pytest.approx(best, abs=2e-3)


@drawn(st.integers(0, 1000), st.integers(1, 60), st.integers(2, 4))
def test_of_any_beliefs_a_share_is_left(seed, samples, classes):
    rng = np.random.default_rng(seed)
    predicted = rng.integers(-1, classes, samples).astype(np.int32)
    beliefs = Beliefs(predicted=predicted, confidence=rng.random(samples).astype(np.float32))
    given = rng.integers(classes, size=samples).astype(np.int32)
    mended, plain, fewer, counts = levels(beliefs, given, classes)
    assert 0 <= mended <= plain <= 1
    assert (fewer >= 0).all()
    assert (fewer <= counts).all()


@drawn(st.lists(st.floats(0, 1, width=16), min_size=1, max_size=200))
def test_tenths_are_of_equal_size_and_in_order(values):
    confidence = np.array(values, np.float32)
    part = tenths(confidence)
    sizes = np.bincount(part, minlength=PARTS)
    assert sizes.max() - sizes.min() <= 1
    for one, other in zip(np.argsort(part)[:-1], np.argsort(part)[1:], strict=True):
        assert confidence[one] >= confidence[other] - 1e-5 or part[one] == part[other]
