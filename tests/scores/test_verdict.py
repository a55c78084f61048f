"""P(wrong) and all that is read off it, against plain loops, SciPy and simulated data sets."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit

from abstain.errors import AbstainError
from abstain.scores.evidence import UNKNOWN, Evidence
from abstain.scores.verdict import Learnt, fit_curve, judge

LEARNT = Learnt.load()


def evidence_of(odds, rival=None, memorised=0.0):
    odds = np.asarray(odds, np.float32)
    return Evidence(
        log_odds=odds,
        rival=np.ones(len(odds), np.int32) if rival is None else np.asarray(rival, np.int32),
        rival_share=np.ones(len(odds), np.float32),
        memorised=memorised,
        abstention=np.full(len(odds), np.nan, np.float32),
    )


def drawn_set(seed, samples=3000, learnt=LEARNT):
    """A data set whose curve is drawn as `learnt` says: evidence, given labels, which are wrong."""
    rng = np.random.default_rng(seed)
    offset = learnt.intercept + learnt.offset_spread * rng.normal()
    slope = math.exp(learnt.log_slope + learnt.slope_spread * rng.normal())
    odds = np.clip(rng.normal(1.5, 2, samples), -4.6, 4.6)
    wrong = rng.random(samples) < expit(offset - slope * odds)
    return evidence_of(odds), np.zeros(samples, np.int64), wrong


def test_p_wrong_is_the_logistic_curve_of_the_evidence():
    odds = np.linspace(-4, 4, 9)
    found = judge(evidence_of(odds, memorised=0.3), np.zeros(9, int), 2)
    offset = LEARNT.intercept + 0.3 * LEARNT.memorised
    for p, e in zip(found.wrong_probability, odds, strict=True):
        assert p == pytest.approx(1 / (1 + math.exp(math.exp(LEARNT.log_slope) * e - offset)))
    np.testing.assert_allclose(found.label_score, 1 - found.wrong_probability)
    assert found.rate.value == pytest.approx(found.wrong_probability.mean(), rel=1e-5)


def test_more_is_wrong_where_labels_were_memorised():
    odds = np.linspace(-4, 4, 9)
    rates = [judge(evidence_of(odds, memorised=x), np.zeros(9, int), 2).rate for x in (0, 1)]
    assert rates[1].value > rates[0].value


@settings(deadline=None, max_examples=60)
@forall(seed=st.integers(0, 10_000), samples=st.integers(1, 200), reviews=st.integers(0, 40))
def test_order_flags_and_sums_agree(seed, samples, reviews):
    rng = np.random.default_rng(seed)
    given = rng.integers(0, 3, samples)
    rival = (given + rng.integers(1, 3, samples)) % 3
    rows = rng.permutation(samples)[:reviews].tolist()
    reviewed = {row: int(rng.integers(0, 3)) for row in rows}
    found = judge(evidence_of(rng.normal(0, 2, samples), rival), given, 3, reviewed)
    p, left = found.wrong_probability, samples - len(reviewed)
    assert sorted(found.order.tolist()) == list(range(samples))
    assert (np.diff(p[found.order[:left]]) <= 1e-7).all()
    assert set(found.order[left:].tolist()) == set(reviewed)
    flags = found.is_label_issue
    assert flags[found.order[: flags.sum()]].all()
    for budget in {0, min(1, left), left // 2, left}:
        expected = found.expected_wrong(budget)
        assert expected.value == pytest.approx(p[found.order[:budget]].sum(), rel=1e-4, abs=1e-4)
        assert 0 <= expected.low <= expected.value + 1e-6
        assert expected.value - 1e-6 <= expected.high <= budget + 1e-6
    shares = [x.value for x in found.per_class]
    sizes = np.bincount(given, minlength=3)
    total = sum(n * x for n, x in zip(sizes, shares, strict=True) if n)
    assert total == pytest.approx(p.sum(), rel=1e-4)
    np.testing.assert_allclose(found.transition.sum(1), 1)
    for row, label in reviewed.items():
        assert p[row] == (label != given[row])
        assert found.predicted_label[row] == label
        assert found.confidence[row] == 1
        assert not flags[row]


def test_the_flags_have_the_best_expected_f1_of_all_prefixes():
    rng = np.random.default_rng(1)
    found = judge(evidence_of(rng.normal(1, 2, 300)), np.zeros(300, int), 2)
    p = np.sort(found.wrong_probability.astype(float))[::-1]
    f1 = [2 * p[:k].sum() / (k + p.sum()) for k in range(1, 301)]
    assert found.is_label_issue.sum() == 1 + int(np.argmax(f1))


def test_where_nothing_is_doubted_nothing_is_flagged():
    for odds in (4.5, 0.0, -4.5):  # a rate of 1, 23 or 92%, and no label worse than another
        found = judge(evidence_of(np.full(100, odds)), np.zeros(100, int), 2)
        assert not found.is_label_issue.any()


def test_one_typing_error_does_not_turn_the_verdict_over():
    evidence, given, _ = drawn_set(5)
    before = judge(evidence, given, 2)
    best = int(np.argmax(evidence.log_odds))
    after = judge(evidence, given, 2, {best: 1})
    assert after.rate.value < 1.7 * before.rate.value
    assert after.is_label_issue.mean() < 0.5
    # Among twenty answers that are as expected it hardly matters.
    right = {int(k): 0 for k in np.argsort(evidence.log_odds)[-20:-1]}
    assert judge(evidence, given, 2, {**right, best: 1}).rate.value < 1.15 * before.rate.value


def test_the_transition_counts_wrong_labels_for_their_rivals():
    given, rival = np.array([0, 0, 1, 2]), np.array([1, 2, 0, 1])
    found = judge(evidence_of([-3, -1, 2, 4], rival), given, 3)
    p = found.wrong_probability.astype(float)
    joint = np.zeros((3, 3))
    for g, r, wrong in zip(given, rival, p, strict=True):
        joint[r, g] += wrong
        joint[g, g] += 1 - wrong
    np.testing.assert_allclose(found.transition, joint / joint.sum(1, keepdims=True), rtol=1e-5)


def test_of_a_sample_that_was_never_seen_only_the_rate_is_known():
    found = judge(evidence_of([-2, 3, np.nan], rival=[1, 1, UNKNOWN]), [0, 0, 0], 2)
    p = found.wrong_probability
    assert p[2] == pytest.approx(p[:2].mean(), rel=1e-5)
    assert found.predicted_label[2] == 0
    assert np.isnan(found.confidence[2])


# ── Reviewed labels ───────────────────────────────────────────────────────────────────────────────


def test_the_curve_is_the_posterior_mode():
    rng = np.random.default_rng(0)
    odds = rng.normal(0, 2, 60)
    wrong = rng.random(60) < expit(0.5 - 1.5 * odds)
    found = fit_curve(LEARNT, 0.2, odds, wrong)
    prior = np.array([LEARNT.intercept + 0.2 * LEARNT.memorised, LEARNT.log_slope])
    spread = np.array([LEARNT.offset_spread, LEARNT.slope_spread])

    crowd = np.array([(np.floor(odds) == np.floor(x)).sum() for x in odds])
    weight = 1 / (1 + LEARNT.shape_spread**2 / 4 * crowd)

    def cost(place):
        z = place[0] - np.exp(place[1]) * odds
        answer = 0.98 * expit(z) + 0.02 * expit(-z)  # of a hundred answers two are slips
        likelihood = weight @ np.where(wrong, np.log(answer), np.log(1 - answer))
        return (((place - prior) / spread) ** 2).sum() / 2 - likelihood

    best = minimize(cost, prior, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-10}).x
    np.testing.assert_allclose([found.offset, found.log_slope], best, atol=1e-4)


def test_without_reviews_the_curve_is_the_one_that_was_learnt():
    curve = fit_curve(LEARNT, 0.0)
    assert curve.offset == LEARNT.intercept
    np.testing.assert_allclose(
        curve.covariance, np.diag([LEARNT.offset_spread**2, LEARNT.slope_spread**2])
    )


@pytest.mark.parametrize("wrong", [0.0, 1.0])
def test_answers_that_are_all_alike_never_turn_the_order_around(wrong):
    """The worst are all right: then the rest is no worse, whatever a straight line would say."""
    curve = fit_curve(LEARNT, 0.0, np.linspace(-4.5, -3, 200), np.full(200, wrong))
    p = expit(curve.logits(np.array([-4.0, 0.0, 4.0])))
    assert p[0] > p[1] > p[2]
    before = expit(fit_curve(LEARNT, 0.0).logits(np.array([-4.0])))
    assert (p[0] > before) == bool(wrong)


def test_intervals_cover_as_often_as_they_say_before_and_after_reviews():
    """On data sets drawn by the very model: worst-first reviews do not pass for a random sample."""
    covered = {0: [], 60: []}
    errors = {0: [], 60: []}
    for seed in range(200):
        evidence, given, wrong = drawn_set(seed)
        worst = np.argsort(evidence.log_odds)
        for reviews, hits in covered.items():
            reviewed = {int(row): int(wrong[row]) for row in worst[:reviews]}
            found = judge(evidence, given, 2, reviewed)
            left = np.setdiff1d(np.arange(len(given)), worst[:reviews])
            hits.append(wrong[left].sum() in found.unseen)
            errors[reviews].append(abs(found.unseen.value - wrong[left].sum()))
    assert 0.84 < np.mean(covered[0]) < 0.96
    assert 0.84 < np.mean(covered[60]) < 0.97
    assert np.mean(errors[60]) < 0.9 * np.mean(errors[0])


def test_once_all_labels_are_reviewed_nothing_is_uncertain():
    found = judge(evidence_of([-1, 2]), [0, 1], 2, {0: 1, 1: 1})
    assert (found.rate.low, found.rate.value, found.rate.high) == (0.5, 0.5, 0.5)
    assert found.unseen.high == 0


@pytest.mark.parametrize("reviewed", [{5: 0}, {-1: 0}, {0: 2}, {0: -1}])
def test_reviews_of_what_is_not_there_are_refused(reviewed):
    with pytest.raises(AbstainError, match="reviewed must map rows below 2 to classes below 2"):
        judge(evidence_of([1, 2]), [0, 1], 2, reviewed)


def test_a_budget_beyond_all_labels_is_refused():
    with pytest.raises(AbstainError, match=r"budget must lie in \[0, 2\], got 3"):
        judge(evidence_of([1, 2]), [0, 1], 2).expected_wrong(3)


def test_every_learnt_number_matters():
    evidence, given, wrong = drawn_set(3)
    reviewed = {int(row): int(wrong[row]) for row in np.argsort(evidence.log_odds)[:50]}
    evidence = replace(evidence, memorised=0.4)

    def figures(learnt):
        found = judge(evidence, given, 2, reviewed, learnt)
        return found.rate, found.per_class

    for field in fields(Learnt):
        moved = replace(LEARNT, **{field.name: 1.2 * getattr(LEARNT, field.name)})
        assert figures(moved) != figures(LEARNT), field.name
