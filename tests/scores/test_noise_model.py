import math

import numpy as np
import pytest
from hypothesis import given as forall
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score

from abstain.scores import noise_model
from abstain.scores.beyond_mix_ups import confusion
from abstain.scores.label_quality import label_quality_from_probabilities
from abstain.scores.noise_model import (
    SLOPE,
    _slope,
    estimate_transition,
    mix_ups,
    one_way,
    typical_log_odds,
)
from abstain.scores.plateau import Plateau
from abstain.scores.wrong_share import WrongShare


@forall(st.integers(2, 6), st.integers(0, 10_000))
def test_mix_ups_are_what_wrong_labels_do_not_explain(m, seed):
    rng = np.random.default_rng(seed)
    believed, given = (rng.integers(m, size=200).astype(np.int32) for _ in range(2))
    transition = estimate_transition(rng.integers(0, 50, (m, m)).astype(float))
    found = mix_ups(confusion(given, believed, m), transition)
    for i in range(m):
        for j in range(m):
            both = sum((b, g) == (i, j) for b, g in zip(believed, given, strict=True))
            share = max(transition[i, j], (1 - transition[i, i]) / (m - 1))
            wrong = sum(b == i for b in believed) * share
            excess = max(0.0, math.log((both + 5) / (wrong + 5))) if i != j else 0.0
            assert math.isclose(found[i, j], excess, rel_tol=1e-5, abs_tol=1e-6)


def test_classes_that_the_model_mixes_up_are_doubted_less(monkeypatch):
    """Classes 0 and 1 look alike where they are unclear; labels of all are wrong as often."""
    rng = np.random.default_rng(0)
    true = rng.integers(6, size=3000)
    wrong = rng.random(3000) < 0.1
    given = np.where(wrong, (true + rng.integers(1, 6, 3000)) % 6, true)
    alike, clear = true < 2, rng.random(3000)
    looks = np.where(alike & (rng.random(3000) < 0.6 * (clear < 0.5)), 1 - true, true)
    beliefs = np.full((3000, 6), 0.02)
    beliefs[np.arange(3000), looks] += np.where(alike, 0.2, 0.4) + 0.3 * clear
    beliefs /= beliefs.sum(1, keepdims=True)

    def precision():
        quality = label_quality_from_probabilities(beliefs, given)
        return average_precision_score(wrong, -quality.label_score)

    known = precision()
    monkeypatch.setattr(noise_model, "mix_ups", lambda *_: np.zeros((6, 6), np.float32))
    assert known > precision() + 0.02


def confused(rng, samples, m, alike, habits=()):
    """Counts of a model that mixes up pairs of classes, and labels with habits (i, j, share)."""
    true = rng.integers(m, size=samples)
    given, believed = true.copy(), true.copy()
    for i, j, share in habits:
        given[(true == i) & (rng.random(samples) < share)] = j
    for i, j in alike:
        for one, other in ((i, j), (j, i)):
            believed[(true == one) & (rng.random(samples) < 0.3)] = other
    errs = rng.random(samples) < 0.2
    believed[errs] = rng.integers(m, size=int(errs.sum()))
    return confusion(given.astype(np.int32), believed.astype(np.int32), m)


def test_a_habit_goes_one_way():
    rng = np.random.default_rng(0)
    alike, habits = [(0, 1), (2, 3)], [(1, 0, 0.2), (4, 5, 0.2), (6, 2, 0.1)]
    found = one_way(confused(rng, 20_000, 8, alike, habits), rate=0.07)
    assert {(int(i), int(j)) for i, j in np.argwhere(found > 0.5)} == {(1, 0), (4, 5), (6, 2)}
    assert found[4, 5] > found[6, 2]


@pytest.mark.parametrize("m", [3, 5, 10])
def test_what_goes_both_ways_is_no_habit(m):
    """Of models that mix classes up: how many times more often than evenly is chance alone."""
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        pairs = rng.permutation(m)[: m // 2 * 2].reshape(-1, 2)
        found.append(np.expm1(one_way(confused(rng, 4000, m, pairs.tolist()), rate=0.2)).sum())
    assert np.mean(found) < 1.0


@forall(st.integers(2, 8), st.integers(0, 10_000))
def test_counts_that_are_the_same_both_ways_have_no_habit(m, seed):
    seen = np.random.default_rng(seed).integers(0, 500, (m, m)).astype(float)
    both_ways = seen + seen.T
    sizes = both_ways.sum(1)
    alike = both_ways + np.diag(sizes.max() - sizes)  # classes that are believed as often
    assert (one_way(alike, rate=0.2) == 0).all()
    assert (one_way(np.zeros((m, m)), rate=0.2) == 0).all()


def test_of_two_classes_no_way_is_the_other():
    assert (one_way(np.array([[900.0, 100], [10, 990]]), rate=0.1) == 0).all()


@pytest.mark.parametrize(
    ("errors", "m", "rate"),
    [
        (0.02, 10, 0.2),
        (0.15, 10, 0.4),
        (0.35, 10, 0.1),
        (0.5, 10, 0.2),
        (0.15, 2, 0.2),
        (0.3, 3, 0.3),
    ],
)
def test_typical_log_odds_are_those_of_evidence_that_is_normal(errors, m, rate):
    """Against logistic regression on evidence drawn so that the model errs as often."""
    rng = np.random.default_rng(0)
    wrong = rng.random(200_000) < rate
    above = np.where(wrong, norm.ppf(errors / (m - 1)), norm.isf(errors))
    evidence = 0.7 * (above + rng.normal(size=len(wrong)))
    assert (evidence[~wrong] < 0).mean() == pytest.approx(errors, abs=0.01)
    assert (evidence[wrong] > 0).mean() == pytest.approx(errors / (m - 1), abs=0.01)
    slope = LogisticRegression(C=1e6).fit(-evidence[:, None], wrong).coef_[0, 0]
    expected = slope * np.median(np.abs(evidence))
    assert typical_log_odds(errors, 1 / (m - 1), m, rate) == pytest.approx(expected, rel=0.03)


def share_of(value, excess, m=10, trust=1.0, shape=0.0, anywhere=1.0):
    """What is read of a share by `_slope`."""
    plateau = Plateau(share=1.0, samples=1, disagreement=value, curve=np.full(10, value))
    counts = np.ones((m, m))
    return WrongShare(
        value=value,
        low=0,
        high=1,
        plateau=plateau,
        counts=counts,
        trust=trust,
        excess=excess,
        shape=shape,
        anywhere=anywhere,
    )


@forall(st.floats(0, 0.6), st.floats(0, 0.6), st.floats(0, 0.6), st.floats(0.1, 4))
def test_evidence_of_a_model_that_errs_counts_for_less(rate, excess, more, typical):
    evidence = np.array([-typical, typical, 3 * typical], np.float32)
    few, many = sorted((excess, more))
    less, most = (_slope(evidence, share_of(rate, x)) for x in (many, few))
    assert 0 < less <= most <= SLOPE
    # Whatever the scale of the evidence, a typical label has the same odds.
    assert _slope(10 * evidence, share_of(rate, many)) <= less
    assert _slope(10 * evidence, share_of(rate, many)) * 10 * typical <= 7.0 + 1e-4


def test_little_evidence_counts_by_how_well_it_is_known():
    evidence = np.array([-0.1, 0.1, 0.3], np.float32)
    slopes = [_slope(evidence, share_of(0.3, 0.0, m=2, shape=x)) for x in (0.0, 0.5, 1.0)]
    assert slopes[0] == SLOPE < slopes[1] < slopes[2] == 3.0


def test_of_two_classes_little_evidence_of_a_weak_model_counts_for_more():
    evidence = np.array([-0.1, 0.1, 0.3], np.float32)
    strong, weak = (_slope(evidence, share_of(0.3, 0.0, m=2, trust=x)) for x in (1.0, 0.0))
    assert weak == 5.8 > strong == SLOPE
    assert _slope(evidence, share_of(0.3, 0.0, m=3, trust=0.0)) == SLOPE
    # As far as its errors are told by their shape, that is known better.
    assert _slope(evidence, share_of(0.3, 0.0, m=2, trust=0.0, shape=1.0)) == 3.0


@forall(st.floats(0.05, 0.5), st.floats(0.05, 0.4), st.floats(0, 1), st.floats(0, 1))
def test_a_model_learns_where_wrong_labels_go(rate, excess, one, other):
    """Where they go to few classes, evidence for them tells less: the more, the more are wrong."""
    evidence = np.array([-1, 1, 3], np.float32)
    few, most = sorted((one, other))
    less, more = (_slope(evidence, share_of(rate, excess, anywhere=x)) for x in (few, most))
    assert less <= more + 1e-9
    # Of few wrong labels it has learnt nothing.
    few_wrong = [_slope(evidence, share_of(0.1, excess, anywhere=x)) for x in (few, most)]
    assert few_wrong[0] == pytest.approx(few_wrong[1])


def test_evidence_that_contradicts_more_labels_than_are_wrong_counts_for_less():
    evidence = np.concatenate([np.full(700, 1.0), np.full(300, -1.0)]).astype(np.float32)
    slopes = [_slope(evidence, share_of(rate, 0.0)) for rate in (0.3, 0.2, 0.1, 0.0)]
    assert slopes == sorted(slopes, reverse=True)
    assert slopes[-1] < 0.8 * slopes[0]
