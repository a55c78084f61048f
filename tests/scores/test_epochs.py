import numpy as np
import pytest
import torch
from hypothesis import given as forall
from hypothesis import strategies as st

from abstain.scores.epochs import (
    beliefs_of,
    contradicted,
    early_beliefs,
    evidence_of,
    likeliest_rival,
    sureness,
    weights_of_epochs,
)
from abstain.scores.ledger import Ledger
from abstain.scores.plateau import UNKNOWN, Beliefs


def seen(*epochs, labels):
    """Snapshots of epochs in which samples were believed to be of each of three classes so far."""
    ledger = Ledger(len(labels))
    for epoch, beliefs in enumerate(epochs):
        ids = torch.tensor([k for k, row in enumerate(beliefs) if row is not None])
        logits = torch.tensor([row for row in beliefs if row is not None]).log()
        ledger.update(ids, logits, torch.tensor(labels)[ids], has_abstention=False, epoch=epoch)
    return ledger.snapshots


def test_an_epoch_believes_the_label_or_its_rival():
    snapshots = seen([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], None], labels=[0, 1, 2])
    told = beliefs_of(snapshots[0], np.array([0, 1, 2], np.int32))
    assert told.predicted.tolist() == [0, 2, UNKNOWN]
    assert told.confidence[:2] == pytest.approx([0.7, 0.6], abs=1e-3)


def test_the_rival_is_the_class_with_the_most_belief_after_the_first_epoch():
    first = [[0.1, 0.8, 0.1]]
    later = [[0.4, 0.1, 0.5]]
    snapshots = seen(first, later, later, [[0.5, 0.3, 0.2]], labels=[0])
    assert likeliest_rival(snapshots).tolist() == [2]
    assert likeliest_rival(snapshots[:1]).tolist() == [1]


def test_evidence_of_some_epochs_is_theirs_and_none_of_what_they_did_not_see():
    sure, unsure = [0.98, 0.01, 0.01], [0.2, 0.5, 0.3]
    evidence = evidence_of(seen([sure, unsure, None], [sure, unsure, None], labels=[0, 0, 0]))
    assert evidence[0] > 0 > evidence[1]
    assert np.isnan(evidence[2])
    assert np.median(np.abs(evidence[:2])) == pytest.approx(0.85)


def believed(*epochs):
    return [
        Beliefs(predicted=np.array(x, np.int32), confidence=np.array(y, np.float32))
        for x, y in epochs
    ]


def test_early_beliefs_are_those_of_the_surest_of_the_first_epochs_that_know_labels():
    single = believed(([9], [0.9]), ([1], [0.5]), ([2], [0.6]), ([3], [0.55]))
    early, compared = early_beliefs([0, 1, 2, 4], single)
    assert early.predicted.tolist() == [2]
    assert early.confidence == pytest.approx([0.95])  # of the first two: half of one, and the other
    assert compared == tuple(single[1:])
    alone, _ = early_beliefs([3], single[3:])
    assert alone is single[3]


def test_of_many_samples_later_epochs_are_asked_too():
    """How sure a model is of a sample, before its label can have been learnt by heart."""

    # Nor of few if the model errs much. But not if it hardly errs: later epochs are surer where
    # labels agree.
    for samples, errors, weight in (
        (3000, 0.3, 0),
        (3000, 0.35, 0.5),
        (3000, 1.0, 1),
        (6500, 0.2, 0.5),
        (10_000, 0.2, 1),
        (12_000, 1.0, 1),
        (12_000, 0.045, 0.5),
        (12_000, 0.01, 0),
    ):
        assert weights_of_epochs(samples, errors, lag=1.0) == pytest.approx((1.0, weight))
    # Or the second epoch knew nearly as much, and the samples tell their classes.
    assert weights_of_epochs(12_000, errors=0.1, lag=0.0) == pytest.approx((0.3, 0.0))
    assert weights_of_epochs(12_000, errors=0.1, lag=0.055) == pytest.approx((0.65, 0.5))
    assert weights_of_epochs(12_000, errors=0.4, lag=0.0) == pytest.approx((1.0, 1.0))


@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.3, 0.5)])
def test_sureness_is_that_of_the_first_epochs(weights):
    rng = np.random.default_rng(0)
    predicted = np.zeros(50, np.int32)
    epochs = [
        Beliefs(predicted=predicted, confidence=rng.random(50, dtype=np.float32)) for _ in range(5)
    ]
    kept = [epoch.confidence.copy() for epoch in epochs]
    found = sureness([0, 1, 2, 4, 8], epochs, *weights)
    expected = kept[0] / 2 + weights[0] * kept[1] + weights[1] * (kept[2] + kept[3])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal([epoch.confidence for epoch in epochs], kept)
    np.testing.assert_array_equal(sureness([0, 1], epochs[:2], *weights), kept[0])


@forall(st.integers(1, 10**6), st.floats(0, 1), st.floats(-1, 1))
def test_late_epochs_are_asked_only_where_they_are_needed(samples, errors, lag):
    second, later = weights_of_epochs(samples, errors, lag)
    assert 0.3 - 1e-9 <= second <= 1
    assert 0 <= later <= 1
    assert weights_of_epochs(samples, 0.0, lag)[1] == 0  # a model that hardly errs
    assert weights_of_epochs(100, min(errors, 0.3), lag)[1] == 0  # few samples


def test_what_is_contradicted_is_told_by_the_last_epoch_that_saw_most():
    given = np.array([0, 0, 0, 0], np.int32)
    most, few = ([0, 1, 1, 0], [0.9] * 4), ([1, UNKNOWN, UNKNOWN, UNKNOWN], [0.9] * 4)
    assert contradicted(believed(most, few), given) == 0.5
    assert contradicted(believed(few), given) == 0.0
