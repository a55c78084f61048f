import numpy as np
import pytest
from hypothesis import given as forall
from hypothesis import strategies as st

from abstain.audit import audit
from abstain.scores.beyond_mix_ups import BeyondMixUps, confusion, habits
from abstain.scores.plateau import Beliefs

SAMPLES = 20_000


def simulated(m, errors, transition, seed=0, samples=SAMPLES):
    """A model that takes classes for their neighbours on a ring, the more often the less sure."""
    rng = np.random.default_rng(seed)
    true = rng.integers(m, size=samples)
    given = (rng.random(samples)[:, None] > np.cumsum(transition, 1)[true]).sum(1)
    sure = rng.random(samples).astype(np.float32)
    steps = rng.choice([-2, -1, 1, 2], samples, p=[0.1, 0.4, 0.4, 0.1])
    errs = rng.random(samples) < 2 * errors * (1 - sure)
    believed = np.where(errs, (true + steps) % m, true).astype(np.int32)
    return Beliefs(predicted=believed, confidence=sure), given.astype(np.int32), given != true


def evenly(m, rate):
    return np.full((m, m), rate / (m - 1)) + np.eye(m) * (1 - rate - rate / (m - 1))


@pytest.mark.parametrize("m", [6, 10, 30])
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.4, 0.6])
@pytest.mark.parametrize("errors", [0.05, 0.3])
def test_labels_that_go_anywhere_are_told_however_weak_the_model(m, rate, errors):
    beliefs, given, wrong = simulated(m, errors, evenly(m, rate))
    told = BeyondMixUps.of(beliefs, given, m)
    assert (given != beliefs.predicted).mean() > wrong.mean() + 0.3 * errors * (1 - rate)
    # What far pairs are taken to be mixed up where the model is surest.
    mixed_up = 1.5 / (m - 1) * 0.2 * errors
    assert abs(told.anywhere - wrong.mean()) < 3 * told.error + mixed_up
    assert told.by_habit < 0.02
    assert told.alone < 0.01


@pytest.mark.parametrize("samples", [400, 4000])
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3])
def test_no_more_labels_go_anywhere_than_all_samples_tell(samples, rate):
    covers = []
    for seed in range(20):
        beliefs, given, wrong = simulated(5, 0.2, evenly(5, rate), seed, samples)
        covers.append(wrong.mean() <= BeyondMixUps.of(beliefs, given, 5).at_most)
    assert np.mean(covers) >= 0.9
    # Of nine on a ring, most are never taken for each other.
    beliefs, given, _ = simulated(9, 0.2, np.eye(9), samples=samples)
    assert BeyondMixUps.of(beliefs, given, 9).at_most < 4 / np.sqrt(samples)


@pytest.mark.parametrize("rate", [0.2, 0.4])
def test_a_habit_is_told_of_a_model_that_mixes_up_the_same_classes(rate):
    """Some labels of every third class go to the next, for which it is taken too."""
    m, transition = 12, np.eye(12)
    for i in range(0, m, 3):
        transition[i, i], transition[i, i + 1] = 1 - rate, rate
    beliefs, given, wrong = simulated(m, 0.2, transition)
    told = BeyondMixUps.of(beliefs, given, m)
    assert told.by_habit == pytest.approx(wrong.mean(), abs=0.03)
    assert told.anywhere < 0.02


def test_labels_of_one_class_alone_that_the_model_is_not_sure_of():
    m, transition = 8, np.eye(8)
    transition[1, 1], transition[1, 4] = 0.7, 0.3
    beliefs, given, wrong = simulated(m, 0.1, transition)
    unsure = np.where(beliefs.predicted == 1, 0.3 * beliefs.confidence, beliefs.confidence)
    beliefs = Beliefs(predicted=beliefs.predicted, confidence=unsure.astype(np.float32))
    told = BeyondMixUps.of(beliefs, given, m)
    assert told.rate < 0.01  # the surest of all have none of that class
    assert told.alone == pytest.approx(wrong.mean(), abs=0.006)
    counts = told.among(np.diag(np.full(m, 100.0)))
    assert counts[1, 4] / counts[1].sum() == pytest.approx(0.3, abs=0.04)
    assert (counts[[0, 2, 3]] == np.diag(np.full(m, 100.0))[[0, 2, 3]]).all()


def test_what_goes_both_ways_between_classes_that_are_alike_is_not_told():
    """Nothing tells a swap of neighbours from a model that takes each for the other."""
    m = 8
    beliefs, given, wrong = simulated(m, 0.2, 0.7 * np.eye(m) + 0.3 * np.eye(m)[np.arange(m) ^ 1])
    told = BeyondMixUps.of(beliefs, given, m)
    assert wrong.mean() > 0.28
    assert told.rate < 0.03
    assert told.alone < 0.01


def test_its_error_is_that_of_chance():
    """Against the spread over draws."""
    told = [
        BeyondMixUps.of(*simulated(6, 0.1, evenly(6, 0.2), seed, samples=2000)[:2], 6)
        for seed in range(60)
    ]
    spread = np.std([x.anywhere for x in told])
    # The pairs are chosen anew each time, among so few: that evens chance out a little.
    assert spread < np.mean([x.error for x in told]) < 1.6 * spread


def test_samples_that_were_not_seen_have_no_say():
    beliefs, given, _ = simulated(6, 0.1, evenly(6, 0.2))
    unseen = np.arange(SAMPLES) % 3 == 0
    part = Beliefs(
        predicted=np.where(unseen, -1, beliefs.predicted).astype(np.int32),
        confidence=beliefs.confidence,
    )
    seen = Beliefs(predicted=beliefs.predicted[~unseen], confidence=beliefs.confidence[~unseen])
    told, expected = BeyondMixUps.of(part, given, 6), BeyondMixUps.of(seen, given[~unseen], 6)
    assert told.rate == pytest.approx(expected.rate, abs=1e-9)


@forall(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=50))
def test_confusion_counts_every_pair(pairs):
    given, believed = (np.array([pair[k] for pair in pairs], np.int32) for k in (0, 1))
    counts = confusion(given, believed, 4)
    for i in range(4):
        for j in range(4):
            assert counts[i, j] == pairs.count((j, i))


@forall(st.integers(2, 8), st.integers(0, 10_000), st.integers(0, 50))
def test_a_habit_goes_one_way_or_the_other(m, seed, most):
    seen = np.random.default_rng(seed).integers(0, most + 1, (m, m)).astype(float)
    one_way, sure = habits(seen)
    assert ((sure >= 0) & (sure <= 1)).all()
    assert not ((sure > 0) & (sure.T > 0)).any()
    assert (np.diagonal(sure) == 0).all()
    assert (one_way[sure > 0] > 0).all()


@pytest.mark.parametrize("pairs", [{1: 3}, {1: 3, 0: 2}])
def test_wrong_labels_of_some_classes_alone_are_counted(pairs):
    """The model is surest of the other classes, none of whose labels are wrong."""
    rng = np.random.default_rng(0)
    true = rng.integers(5, size=1500)
    centres = rng.normal(size=(5, 20)) * 1.4
    features = (centres[true] + rng.normal(size=(1500, 20))).astype(np.float32)
    given = true.copy()
    for one, other in pairs.items():
        given[(true == one) & (rng.random(1500) < 0.3)] = other
    found = audit((features, given))
    truth = float((given != true).mean())
    assert truth in found.noise_rate
    assert abs(found.noise_rate.value - truth) < 0.02
    assert found.flagged > 0.7 * 1500 * truth
    clean = audit((features, true)).noise_rate
    assert clean.value < 0.005
    assert clean.high < 0.03
