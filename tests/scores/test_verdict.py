"""P(wrong) and all that is read off it, against plain loops, SciPy and simulated data sets."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st
from scipy.special import expit

from abstain.errors import AbstainError
from abstain.scores.curve import Learnt
from abstain.scores.evidence import UNKNOWN, Evidence
from abstain.scores.verdict import judge

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
    odds = np.clip(rng.normal(1.5, 2, samples), -4.6, 4.6)
    wrong = rng.random(samples) < expit(drawn_line(rng, learnt, odds))
    return evidence_of(odds), np.zeros(samples, np.int64), wrong


def drawn_line(rng, learnt, odds):
    """Log odds of a data set: the learnt line, a level, and a random walk to both sides of 0."""
    grid = np.linspace(0, 4.6, 461)
    level = learnt.level_spread * rng.normal()
    steps = learnt.wander * 0.1 * rng.normal(size=(2, 460))
    above, below = (np.append(0, np.cumsum(x)) for x in steps)
    walk = np.where(odds > 0, np.interp(odds, grid, above), np.interp(-odds, grid, below))
    return learnt.intercept - math.exp(learnt.log_slope) * odds + level + walk


def with_pairs(evidence, classes):
    """Every pair of given class and rival as often as any other: evidence, given labels, rivals."""
    rows = np.arange(len(evidence))
    given = rows % classes
    rival = (given + 1 + rows // classes % (classes - 1)) % classes
    return replace(evidence, rival=rival.astype(np.int32)), given, rival


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


@pytest.mark.parametrize("mean", [-1, 0, 1, 2, 3])
def test_the_flags_have_nearly_the_best_expected_f1_of_all_prefixes(mean):
    rng = np.random.default_rng(1)
    found = judge(evidence_of(np.clip(rng.normal(mean, 2, 900), -4.6, 4.6)), np.zeros(900, int), 2)
    p = np.sort(found.wrong_probability.astype(float))[::-1]
    f1 = [2 * p[:k].sum() / (k + p.sum()) for k in range(1, 901)]
    assert f1[int(found.is_label_issue.sum()) - 1] > 0.97 * max(f1)


def test_where_nothing_is_doubted_nothing_is_flagged():
    for odds in (4.5, 0.0, -4.5):  # a rate of 1, 23 or 92%, and no label worse than another
        found = judge(evidence_of(np.full(100, odds)), np.zeros(100, int), 2)
        assert not found.is_label_issue.any()


@pytest.mark.parametrize("classes", [2, 10])
def test_one_typing_error_does_not_turn_the_verdict_over(classes):
    evidence, given, rival = with_pairs(drawn_set(5)[0], classes)
    before = judge(evidence, given, classes)
    best = int(np.argmax(evidence.log_odds))
    after = judge(evidence, given, classes, {best: int(rival[best])})
    assert 0 < after.rate.value - before.rate.value < 0.015
    assert abs(after.is_label_issue.mean() - before.is_label_issue.mean()) < 0.03


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
    assert np.mean(errors[60]) < np.mean(errors[0])


def test_reviews_of_pairs_change_the_order_of_open_labels():
    """0 → 1 was right in all reviews, 2 → 3 wrong: equal evidence is no longer equal doubt."""
    given, rival = np.repeat([0, 2], 40), np.repeat([1, 3], 40)
    evidence = evidence_of(np.tile(np.linspace(-3, -1, 40), 2), rival)
    before = judge(evidence, given, 4)
    assert (before.given[before.order[:20]] == 0).sum() == 10
    reviewed = dict.fromkeys(range(15), 0) | {40 + k: 3 for k in range(15)}
    after = judge(evidence, given, 4, reviewed)
    assert (after.given[after.order[:10]] == 2).all()
    assert after.is_label_issue[55]
    assert after.per_class[2].value > before.per_class[2].value
    assert after.per_class[0].value < before.per_class[0].value


@settings(deadline=None, max_examples=30)
@forall(seed=st.integers(0, 10_000), reviews=st.integers(0, 60))
def test_numbering_classes_otherwise_changes_nothing(seed, reviews):
    rng = np.random.default_rng(seed)
    evidence, given, rival = with_pairs(evidence_of(rng.normal(0, 2, 300)), 5)
    rows = rng.permutation(300)[:reviews]
    answers = np.where(rng.random(reviews) < 0.5, given[rows], rival[rows])
    other = rng.permutation(5)
    one = judge(evidence, given, 5, dict(zip(rows.tolist(), answers.tolist(), strict=True)))
    two = judge(
        replace(evidence, rival=other[rival].astype(np.int32)),
        other[given],
        5,
        dict(zip(rows.tolist(), other[answers].tolist(), strict=True)),
    )
    np.testing.assert_allclose(two.logits, one.logits, rtol=1e-4, atol=1e-5)
    for found, expected in [(two.unseen, one.unseen)] + [
        (two.per_class[other[k]], one.per_class[k]) for k in range(5)
    ]:
        ends = [(x.low, x.value, x.high) for x in (found, expected)]
        np.testing.assert_allclose(*ends, rtol=1e-4)


def test_intervals_cover_where_pairs_differ_as_was_learnt():
    """On data sets drawn by the model, of four classes: all labels, and those of a class."""
    covered, of_classes = [], []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        evidence, given, rival = with_pairs(drawn_set(seed)[0], 4)
        shift = LEARNT.class_spread * rng.normal(size=(4, 4))[given, rival]
        wrong = rng.random(len(given)) < expit(shift + drawn_line(rng, LEARNT, evidence.log_odds))
        rows = rng.permutation(len(given))[:200].tolist()
        reviewed = {k: int(rival[k] if wrong[k] else given[k]) for k in rows}
        found = judge(evidence, given, 4, reviewed)
        covered.append(wrong[~found.is_reviewed].sum() in found.unseen)
        of_classes += [wrong[given == k].mean() in found.per_class[k] for k in range(4)]
    assert np.mean(covered) > 0.86
    assert 0.86 < np.mean(of_classes) < 0.97


def test_labels_beyond_any_doubt_have_an_interval_too():
    """P(wrong) that rounds to 1 moves with nothing."""
    learnt = replace(LEARNT, intercept=40.0)
    given, reviewed = np.zeros(30, np.int64), {0: 1, 1: 1}
    found = judge(evidence_of(np.full(30, -3.0)), given, 2, reviewed, learnt)
    assert found.unseen.value == pytest.approx(28)
    assert found.per_class[0].high == pytest.approx(1)


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


@forall(st.integers(0, 2**16), st.integers(0, 40), st.integers(0, 40))
@settings(max_examples=25, deadline=None)
def test_without_dropped_samples_the_verdict_is_that_of_a_set_without_them(seed, reviews, drops):
    evidence, given, wrong = drawn_set(seed, 300)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(300)
    dropped, reviewed = rows[:drops], rows[drops : drops + reviews].tolist()
    answers = {row: int(wrong[row]) for row in reviewed}
    found = judge(evidence, given, 2, answers, dropped=dropped.tolist())
    stays = np.setdiff1d(np.arange(300), dropped)
    place = {row: k for k, row in enumerate(stays.tolist())}
    less = replace(
        evidence,
        **{x.name: getattr(evidence, x.name)[stays] for x in fields(evidence)
           if x.name != "memorised"},
    )  # fmt: skip
    alone = judge(less, given[stays], 2, {place[row]: k for row, k in answers.items()})
    assert found.rate.value == pytest.approx(alone.rate.value)
    assert found.unseen.high == pytest.approx(alone.unseen.high)
    assert found.to_check == alone.to_check
    assert (found.is_label_issue[stays] == alone.is_label_issue).all()
    assert not found.is_label_issue[dropped].any()
    assert (found.order[: found.to_check] == stays[alone.order[: alone.to_check]]).all()
    assert found.per_class[0].low == pytest.approx(alone.per_class[0].low)
    np.testing.assert_allclose(found.transition, alone.transition, rtol=1e-6)


@forall(st.integers(0, 2**16), st.integers(0, 100))
@settings(max_examples=25, deadline=None)
def test_an_unsure_answer_only_takes_the_flag_away(seed, count):
    evidence, given, _ = drawn_set(seed, 300)
    unsure = np.random.default_rng(seed).permutation(300)[:count].tolist()
    before, found = judge(evidence, given, 2), judge(evidence, given, 2, unsure=unsure)
    np.testing.assert_array_equal(found.wrong_probability, before.wrong_probability)
    assert (found.rate, found.unseen) == (before.rate, before.unseen)
    assert not found.is_label_issue[unsure].any()
    assert not set(found.order[: found.to_check].tolist()) & set(unsure)
    assert found.to_check == 300 - count


@pytest.mark.parametrize("name", ["unsure", "dropped"])
def test_rows_that_are_not_there_cannot_be_unsure_or_dropped(name):
    with pytest.raises(AbstainError, match=f"{name} must be rows below 4, got 4"):
        judge(evidence_of(np.zeros(4)), np.zeros(4, int), 2, **{name: [1, 4]})
