from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given as forall
from hypothesis import strategies as st
from scipy.special import logit, ndtri

from abstain.scores.held_out import HeldOut
from abstain.scores.plateau import Beliefs
from abstain.scores.two_classes import OneOfTwo, TwoClasses


def normal_evidence(rates, errors, samples, seed=0, positives=0.5):
    """Log odds of given labels, by a model that errs so often if classes are as large, and these.

    Args:
        rates: Share of wrong labels of each class.
        errors: Share of samples whose class is mistaken, were both classes as large.
        samples: How many.
        seed: Of all draws.
        positives: Share of samples of the second class.
    """
    rng = np.random.default_rng(seed)
    true = (rng.random(samples) < positives).astype(np.int32)
    mean = -ndtri(errors)
    log_odds = 2 * mean * rng.normal(np.where(true == 1, mean, -mean), 1) + logit(positives)
    wrong = rng.random(samples) < np.array(rates)[true]
    given = np.where(wrong, 1 - true, true).astype(np.int32)
    return np.where(given == 1, log_odds, -log_odds).astype(np.float32), given, wrong


@forall(st.floats(0, 0.3), st.floats(0.02, 0.25), st.integers(0, 1000))
def test_wrong_labels_are_told_from_errors(rate, errors, seed):
    evidence, given, wrong = normal_evidence((rate, rate), errors, 8000, seed)
    told = TwoClasses.of(evidence, given)
    # A part of errors is taken not to fade: that much less is called wrong.
    assert abs(told.rate - wrong.mean()) < 4 * told.error + 0.1 * errors
    assert abs(told.errors - errors) < 0.05 + 3 * told.error


def test_labels_of_one_class_alone_are_wrong():
    evidence, given, wrong = normal_evidence((0.0, 0.3), 0.1, 8000)
    told = TwoClasses.of(evidence, given)
    assert told.by_class == (pytest.approx(0.0, abs=0.02), pytest.approx(0.3, abs=0.06))
    assert told.rate == pytest.approx(wrong.mean(), abs=0.03)
    assert told.uneven == 1
    even = [TwoClasses.of(*normal_evidence((0.2, 0.2), 0.1, 8000, x)[:2]) for x in range(10)]
    assert np.mean([x.uneven for x in even]) < 0.1


def test_a_rare_class_counts_for_as_little_as_there_is_of_it():
    evidence, given, wrong = normal_evidence((0.05, 0.3), 0.05, 20_000, positives=0.1)
    told = TwoClasses.of(evidence, given)
    assert told.rate == pytest.approx(wrong.mean(), abs=0.02)


@forall(st.integers(0, 1000), st.sampled_from([lambda x: 100 * x, np.cbrt, lambda x: x**3]))
def test_only_the_order_of_the_evidence_counts(seed, scaled):
    evidence, given, _ = normal_evidence((0.2, 0.1), 0.1, 1000, seed)
    evidence = np.unique(np.abs(evidence)) * np.sign(evidence[: len(np.unique(np.abs(evidence)))])
    given = given[: len(evidence)]
    once = TwoClasses.of(evidence.astype(np.float64), given)
    assert TwoClasses.of(scaled(evidence.astype(np.float64)), given) == once


def test_evidence_of_nothing_tells_nothing():
    rng = np.random.default_rng(0)
    guesses, given = rng.normal(size=5000).astype(np.float32), rng.integers(2, size=5000)
    guess = TwoClasses.of(guesses, given.astype(np.int32))
    assert guess.told < 1
    assert guess.rate > 0.35
    for samples in (0, 1, 5):
        few = TwoClasses.of(np.full(samples, np.nan, np.float32), given[:samples])
        assert few.told == 0


def test_samples_that_were_not_seen_have_no_say():
    evidence, given, _ = normal_evidence((0.2, 0.2), 0.1, 4000)
    unseen = np.concatenate([evidence, np.full(1000, np.nan, np.float32)])
    labels = np.concatenate([given, np.zeros(1000, np.int32)])
    assert TwoClasses.of(unseen, labels) == TwoClasses.of(evidence, given)


def test_labels_learnt_by_heart_are_told_by_those_set_aside():
    """Each label that was taught has more evidence by it; those set aside have none."""
    evidence, given, _ = normal_evidence((0.2, 0.2), 0.15, 8000)
    met = float((evidence > 0).mean())
    aside = HeldOut(epoch=3, accuracy=met, rows=np.arange(400))
    assert TwoClasses.of(evidence, given).unspoilt(aside) == 1
    learnt = TwoClasses.of(evidence + np.float32(3), given)
    assert learnt.rate < 0.1
    assert learnt.unspoilt(aside) < 0.5


def test_a_share_seen_otherwise_is_mended_only_where_that_is_sure():
    told = TwoClasses(rate=0.2, error=0.01, errors=0.1, by_class=(0.2, 0.2), uneven=0.0)
    assert told.beside(0.3) == pytest.approx(0.2)
    assert told.beside(0.3, believed=0.5) == pytest.approx(0.25)
    assert told.beside(0.1) == 0.1
    assert replace(told, uneven=1.0).beside(0.1) == pytest.approx(0.2)
    assert replace(told, uneven=1.0).beside(0.195) == 0.195
    assert [told.surely_less_than(x) for x in (0.1, 0.2, 0.215, 0.3)] == pytest.approx(
        [0, 0, 0.5, 1]
    )


def test_counts_have_as_many_wrong_labels_as_there_are_of_each_class():
    counts = np.array([[90.0, 10.0], [10.0, 90.0]])
    even = TwoClasses(rate=0.2, error=0.01, errors=0.1, by_class=(0.0, 0.4), uneven=0.0)
    assert (even.among(counts) == counts).all()
    uneven = replace(even, uneven=1.0)
    assert uneven.among(counts).tolist() == [[100.0, 0.0], [40.0, 60.0]]
    assert (replace(uneven, error=0.1).among(counts) == counts).all()


def believed(share, missed, errors, seed=0, samples=8000):
    """A model that errs the more often the less sure it is, of whose rare class some are missed."""
    rng = np.random.default_rng(seed)
    true = (rng.random(samples) < share).astype(np.int32)
    sure = rng.random(samples).astype(np.float32)
    predicted = np.where(rng.random(samples) < 2 * errors * (1 - sure) ** 3, 1 - true, true)
    given = np.where((true == 1) & (rng.random(samples) < missed), 0, true).astype(np.int32)
    return Beliefs(predicted=predicted.astype(np.int32), confidence=sure), given, given != true


@pytest.mark.parametrize("share", [0.03, 0.1, 0.4])
@pytest.mark.parametrize("errors", [0.0, 0.02])
def test_missed_positives_are_counted_however_rare_they_are(share, errors):
    beliefs, given, wrong = believed(share, 0.4, errors * share)
    told = OneOfTwo.of(beliefs, given)
    assert told.of_class == 1
    assert abs(told.rate - wrong.mean()) < 3 * told.error + 0.1 * wrong.mean()
    counts = told.among(np.array([[900.0, 0], [0, 100]]))
    assert counts[1, 0] / counts[1].sum() == pytest.approx(told.share)
    assert (counts[0] == [900, 0]).all()
    assert (told.among(np.array([[900.0, 0], [80, 20]])) == [[900, 0], [80, 20]]).all()


@pytest.mark.parametrize("share", [0.03, 0.1, 0.4])
@pytest.mark.parametrize("errors", [0.0, 0.02, 0.3])
def test_without_missed_positives_none_are_counted(share, errors):
    told = [OneOfTwo.of(*believed(share, 0.0, errors * share, seed)[:2]) for seed in range(8)]
    assert np.mean([x.rate for x in told]) < 0.002


def test_where_labels_of_both_classes_are_wrong_they_are_not_of_one():
    beliefs, given, _ = believed(0.3, 0.3, 0.0)
    also = (given == 0) & (np.random.default_rng(1).random(len(given)) < 0.15)
    assert OneOfTwo.of(beliefs, np.where(also, 1, given)).rate == 0


def test_a_class_that_is_never_believed_tells_nothing():
    beliefs = Beliefs(predicted=np.zeros(50, np.int32), confidence=np.ones(50, np.float32))
    assert OneOfTwo.of(beliefs, np.arange(50, dtype=np.int32) % 2).rate == 0


def test_equal_beliefs_tell_the_same_in_any_order_of_the_data():
    """Right positives first, as in a file sorted by label: they are not its surest."""
    found, truth = [], []
    for seed in range(8):
        beliefs, given, wrong = believed(0.1, 0.4, 0.0, seed)
        order = np.argsort(wrong, kind="stable")
        alike = Beliefs(
            predicted=beliefs.predicted[order], confidence=np.ones(len(given), np.float32)
        )
        found.append(OneOfTwo.of(alike, given[order]).rate)
        truth.append(wrong.mean())
    # Chance makes one look steep, and nothing is said of it.
    assert 0.6 * np.mean(truth) < np.mean(found) < 1.1 * np.mean(truth)
