import math

import numpy as np
import pytest
import torch
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st
from simulated import simulated_run
from sklearn.metrics import average_precision_score, roc_auc_score

from abstain.errors import AbstainError
from abstain.scores.held_out import HeldOut
from abstain.scores.label_quality import (
    _ascending,
    _together,
    label_quality,
    label_quality_from_probabilities,
)
from abstain.scores.ledger import Ledger


@pytest.mark.parametrize("kind", ["symmetric", "pairflip"])
def test_wrong_labels_come_first_and_the_right_class_is_proposed(kind):
    ledger, given, true = simulated_run(kind=kind, rate=0.3)
    quality, wrong = label_quality(ledger, given), given != true
    assert roc_auc_score(wrong, -quality.label_score) > 0.97
    first = quality.worst_first()[: wrong.sum()]
    assert wrong[first].mean() > 0.9
    doubted = quality.predicted_label != given
    assert (quality.predicted_label == true)[doubted & wrong].mean() > 0.9
    assert quality.label_score.dtype == np.float32
    assert quality.predicted_label.dtype == np.int64
    assert ((quality.label_score >= 0) & (quality.label_score <= 1)).all()
    assert ((quality.confidence > 0) & (quality.confidence <= 1)).all()
    assert np.isnan(quality.abstention).all()


def test_labels_learnt_by_heart_are_still_found_where_the_plain_mean_fails():
    ledger, given, true = simulated_run(rate=0.3, memory=12.0, skill=5.0, epochs=64, seed=1)
    wrong = given != true
    score = average_precision_score(wrong, -label_quality(ledger, given).label_score)
    plain = average_precision_score(wrong, -ledger.margin.numpy())
    assert score > plain + 0.02


def test_where_wrong_labels_go_tells_them_apart():
    """With pairflip noise a rival that is never mistaken for the label is no reason for doubt."""
    ledger, given, true = simulated_run(
        kind="pairflip", rate=0.3, classes=10, samples=4000, skill=4.0, memory=12.0
    )
    wrong = given != true
    score = average_precision_score(wrong, -label_quality(ledger, given).label_score)
    assert score > average_precision_score(wrong, -ledger.log_odds.numpy()) + 0.01


def test_of_two_labels_the_more_absurd_one_is_worse():
    """Both are hopeless, and no belief says more than that; the logits do."""
    given = np.arange(200) % 4
    ledger = Ledger(200)
    for epoch in range(4):
        logits = torch.zeros(200, 4)
        logits[np.arange(200), given] = 6.0
        logits[:40, :] = 0.0
        logits[np.arange(40), (given[:40] + 1) % 4] = 12.0
        logits[np.arange(40), given[:40]] = -torch.arange(40.0)
        ledger.update(torch.arange(200), logits, torch.tensor(given), None, False, epoch=epoch)
    aside = HeldOut(epoch=2, accuracy=0.8, rows=np.arange(0, 200, 2))
    worst = label_quality(ledger, given, aside).worst_first()[:40]
    assert worst.tolist() == list(range(39, -1, -1))


def test_a_sample_never_seen_gets_the_score_of_all():
    ledger, given, _ = simulated_run(samples=500)
    seen = Ledger(501)
    state = seen.state_dict()
    for name, value in ledger.state_dict().items():
        if name in ("rival", "beliefs"):
            state[name][..., :500] = value
        elif name != "step":
            state[name][:500] = value
    quality = label_quality(seen, np.append(given, 2))
    assert quality.label_score[500] == pytest.approx(1 - quality.noise.share.value, abs=1e-3)
    assert quality.predicted_label[500] == 2
    assert math.isnan(quality.confidence[500])
    np.testing.assert_allclose(
        quality.label_score[:500], label_quality(ledger, given).label_score, atol=0.1
    )


def test_one_epoch_is_enough_for_an_opinion():
    ledger, given, true = simulated_run(epochs=1, skill=12.0)
    quality = label_quality(ledger, given)
    assert roc_auc_score(given != true, -quality.label_score) > 0.95


def test_labels_that_the_second_epoch_has_learnt_do_not_make_it_surer_of_fewer_wrong_ones():
    """A fast learner is surer of samples whose labels agree, from the second epoch on.

    Where that epoch knew all there is to know, the first is asked; the share is else too low.
    """
    rng = np.random.default_rng(0)
    samples, classes, rate = 12_000, 10, 0.2
    true = torch.from_numpy(rng.integers(classes, size=samples))
    wrong = torch.from_numpy(rng.random(samples) < rate)
    other = (true + torch.from_numpy(rng.integers(1, classes, samples))) % classes
    given = torch.where(wrong, other, true)
    clear = torch.from_numpy(rng.gamma(2.0, 2.0, samples)).float()
    ledger = Ledger(samples)
    for epoch in range(9):
        logits = torch.from_numpy(rng.normal(size=(samples, classes))).float()
        logits[torch.arange(samples), true] += clear
        if epoch:
            logits[torch.arange(samples), given] += 1.0
        ledger.update(torch.arange(samples), logits, given, has_abstention=False, epoch=epoch)
    aside = np.arange(600)
    met = (logits.argmax(1)[aside] == given[aside]).double().mean()
    held_out = HeldOut(epoch=5, accuracy=float(met), rows=aside)
    labels = given.numpy()
    found = label_quality(ledger, labels, held_out).noise.share.value
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("abstain.scores.epochs._NOT_NEEDED", 0.0)
        patch.setattr("abstain.scores.epochs._LAGS", (-2.0, -1.0))
        asked_too = label_quality(ledger, labels, held_out).noise.share.value
    assert asked_too < found
    assert abs(found - rate) < abs(asked_too - rate)


def test_a_ledger_that_saw_nothing_is_refused():
    with pytest.raises(AbstainError, match="ledger must have seen a training"):
        label_quality(Ledger(3), [0, 1, 2])


def test_neither_order_of_samples_nor_names_of_classes_matter():
    ledger, given, _ = simulated_run(samples=1500, seed=3)
    quality = label_quality(ledger, given)
    order = np.random.default_rng(0).permutation(len(given))
    shuffled = Ledger(len(given))
    state = shuffled.state_dict()
    for name, value in ledger.state_dict().items():
        last = name in ("rival", "beliefs")
        state[name].copy_(value[..., order] if last else value if name == "step" else value[order])
    again = label_quality(shuffled, given[order])
    # Not to the bit: equally sure samples are taken in random order.
    np.testing.assert_allclose(again.label_score, quality.label_score[order], atol=0.05)


def probabilities(samples=1200, classes=4, rate=0.2, seed=0):
    rng = np.random.default_rng(seed)
    true = rng.integers(classes, size=samples)
    given = np.where(rng.random(samples) < rate, (true + 1) % classes, true)
    logits = rng.normal(size=(samples, classes))
    logits[np.arange(samples), true] += 5 * rng.beta(4, 1, samples)
    exp = np.exp(logits)
    return exp / exp.sum(1, keepdims=True), given, true


def test_probabilities_of_the_user_serve_as_well():
    beliefs, given, true = probabilities()
    quality = label_quality_from_probabilities(beliefs, given)
    assert roc_auc_score(given != true, -quality.label_score) > 0.97
    assert quality.noise.share.value == pytest.approx((given != true).mean(), abs=0.03)
    assert (quality.predicted_label == true).mean() > 0.95
    halved = label_quality_from_probabilities(beliefs.astype(np.float16), given)
    np.testing.assert_allclose(halved.label_score, quality.label_score, atol=0.05)


@pytest.mark.parametrize(
    ("beliefs", "given", "message"),
    [
        ([0.5, 0.5], [0], r"probabilities must be \(samples, classes\), got shape \(2,\)"),
        ([[0.5, 0.6]], [0], "rows of probabilities must sum to 1, got 1.1"),
        ([[0.8, 0.08]], [0], "must sum to 1, got 0.88; .* divide each row by its sum"),
        ([[1.5, -0.5]], [0], r"lie in \[0, 1\], got 1.5; of logits, take the softmax"),
        ([[math.nan, 0.5]], [0], r"probabilities must lie in \[0, 1\], got nan"),
        ([["a", "b"]], [0], "probabilities must be numbers"),
        ([[0.5, 0.5]], [0, 1], "given must have one label for each of 1 samples"),
        ([[0.5, 0.5]], [2], r"given must be class indices in \[0, 2\), got 2"),
        ([[0.5, 0.5]], [-1], r"given must be class indices in \[0, 2\), got -1"),
        ([[0.5, 0.5]], [0.5], "given must be class indices, got float64"),
    ],
)
def test_bad_arguments(beliefs, given, message):
    with pytest.raises(AbstainError, match=message):
        label_quality_from_probabilities(beliefs, given)


@forall(st.lists(st.floats(width=32, allow_nan=False), max_size=30))
@settings(max_examples=200)
def test_ranking_is_a_stable_argsort(values):
    array = np.array(values, np.float32)
    assert _ascending(array).tolist() == np.argsort(array, kind="stable").tolist()


def test_log_odds_are_brought_to_the_scale_of_evidence():
    rng = np.random.default_rng(0)
    evidence = rng.normal(1, 1, 500).astype(np.float32)
    log_odds = (evidence + 0.1 * rng.normal(size=500)).astype(np.float32)
    once = _together(evidence, log_odds)
    np.testing.assert_allclose(_together(evidence, 40 * log_odds), once, rtol=1e-5)
    np.testing.assert_allclose(_together(evidence, 7 * evidence), evidence, rtol=1e-5)
    unseen = np.concatenate([evidence, [np.nan]]).astype(np.float32)
    assert np.isnan(_together(unseen, unseen)).tolist() == [False] * 500 + [True]
    assert (_together(evidence, np.zeros(500, np.float32)) == evidence / 2).all()


def test_takes_tensors_and_lists():
    ledger, given, _ = simulated_run(samples=300)
    one, two = label_quality(ledger, torch.from_numpy(given)), label_quality(ledger, given.tolist())
    np.testing.assert_array_equal(one.label_score, two.label_score)


@pytest.mark.parametrize("rate", [0.2, 0.4])
def test_proposals_are_right_as_often_as_confidence_says_or_oftener(rate):
    """And where it says that they are, most wrong labels are put right."""
    from abstain import Recipe
    from abstain.train.run import train

    trained = train("digits", Recipe.of("auto", epochs=15, flip=rate))
    given, true = trained.data.given.numpy(), trained.data.true.numpy()
    quality = label_quality(trained.ledger, given, trained.held_out)
    proposed = quality.predicted_label != given
    right, confidence = (quality.predicted_label == true)[proposed], quality.confidence[proposed]
    assert confidence.mean() < right.mean() + 0.03
    for low, high in ((0.5, 0.7), (0.7, 0.9), (0.9, 1.0)):
        these = (confidence > low) & (confidence <= high)
        assert right[these].mean() > confidence[these].mean() - 0.05
    taken = proposed & (quality.confidence > 0.5)
    assert (np.where(taken, quality.predicted_label, given) != true).mean() < rate / 3
