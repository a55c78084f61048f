from dataclasses import replace

import numpy as np
import pytest
from simulated import set_aside, simulated_run
from sklearn.datasets import make_classification

from abstain.audit import audit
from abstain.scores.first_epoch import FirstEpoch
from abstain.scores.held_out import HeldOut
from abstain.scores.label_quality import label_quality
from abstain.scores.noise_rate import Interval, estimate_noise
from abstain.scores.plateau import Beliefs, find_plateau
from abstain.scores.two_classes import TwoClasses
from abstain.scores.whole_training import share_by_whole_training
from abstain.scores.wrong_share import share_by_first_epochs

KINDS = [("symmetric", 0.1), ("symmetric", 0.4), ("pairflip", 0.2), ("pairflip", 0.4)]


def believed(true, errors, rng, classes):
    """Beliefs of a model that errs on this share of samples, the surest ones apart."""
    confidence = rng.random(len(true)).astype(np.float32)
    wrong = (rng.random(len(true)) < errors / 0.8) & (confidence < 0.8)
    predicted = np.where(wrong, (true + rng.integers(1, classes, len(true))) % classes, true)
    return Beliefs(predicted=predicted.astype(np.int32), confidence=confidence)


def shares(given, first, whole, held_out, classes, blind=None):
    plateau = find_plateau(first, given, classes)[0]
    early = share_by_first_epochs(given, first, [plateau] * 3, 0.0, classes)
    unseen = FirstEpoch.of(first if blind is None else blind, given, held_out, classes)
    return early, share_by_whole_training(given, whole, unseen, plateau, held_out, early)


def planted(rate, rng, samples=4000, classes=5):
    true = rng.integers(classes, size=samples).astype(np.int32)
    flip = rng.random(samples) < rate
    return true, np.where(flip, (true + 1) % classes, true).astype(np.int32)


def test_the_whole_training_is_believed_where_it_is_good():
    rng = np.random.default_rng(0)
    true, given = planted(0.2, rng)
    first, whole = believed(true, 0.3, rng, 5), believed(true, 0.01, rng, 5)
    rows = np.arange(400)
    met = float((whole.predicted == given)[rows].mean())
    held_out = HeldOut(epoch=5, accuracy=met, rows=rows)
    early, share = shares(given, first, whole, held_out, 5)
    truth = float((given != true).mean())
    assert share.value == pytest.approx(truth, abs=0.015)
    assert share.low <= truth <= share.high
    assert share.trust == 1
    assert share.plateau.share > early.plateau.share


def test_labels_learnt_by_heart_are_told_by_those_set_aside():
    """Nine wrong labels of ten were learnt, but for those set aside: the first epochs know."""
    rng = np.random.default_rng(1)
    true, given = planted(0.3, rng)
    first = believed(true, 0.05, rng, 5)
    learnt = (rng.random(4000) < 0.9) & (np.arange(4000) >= 400)
    predicted = np.where(learnt, given, true).astype(np.int32)
    whole = Beliefs(predicted=predicted, confidence=first.confidence)
    rows = np.arange(400)
    held_out = HeldOut(epoch=5, accuracy=0.6, rows=rows)
    share = shares(given, first, whole, held_out, 5)[1]
    assert float((predicted != given).mean()) < 0.07
    assert share.value == pytest.approx(0.3, abs=0.04)


def test_a_weak_model_that_learnt_labels_by_heart_is_weak_all_the_same():
    """Right labels only, of which it learnt a part; its first epochs erred more."""
    rng = np.random.default_rng(3)
    given = rng.integers(4, size=1000).astype(np.int32)
    confidence, draws = rng.random(1000).astype(np.float32), rng.random(1000)
    errs = 0.1 + 0.6 * (1 - confidence)
    mended = (rng.random(1000) < 0.6) & (np.arange(1000) >= 200)
    first, whole = (
        Beliefs(
            predicted=np.where(contrary, (given + 1) % 4, given).astype(np.int32),
            confidence=confidence,
        )
        for contrary in (draws < errs, (draws < errs) & ~mended)
    )
    rows = np.arange(200)
    met = float((whole.predicted == given)[rows].mean())
    share = shares(given, first, whole, HeldOut(epoch=9, accuracy=met, rows=rows), 4)[1]
    assert share.low == 0
    assert share.value < 0.12


def test_errors_of_a_weak_model_are_counted_off():
    """Right labels only; a model that contradicts half of them at first, in the end a fourth."""
    rng = np.random.default_rng(2)
    given = rng.integers(4, size=2000).astype(np.int32)
    confidence = rng.random(2000).astype(np.float32)
    draws = rng.random(2000)
    first, whole = (
        Beliefs(
            predicted=np.where(draws < errors, (given + 1) % 4, given).astype(np.int32),
            confidence=confidence,
        )
        for errors in (0.5, 0.25)
    )
    # Before it knew a label, it erred as often, but not where it was surest.
    unsure = rng.random(2000) < np.minimum(1.2 * (1 - confidence), 1)
    blind = Beliefs(
        predicted=np.where(unsure, (given + 1) % 4, given).astype(np.int32), confidence=confidence
    )
    rows = np.arange(200)
    weak = HeldOut(epoch=3, accuracy=0.5, rows=rows)
    share = shares(given, first, whole, weak, 4, blind)[1]
    assert share.value < 0.1
    assert share.low == 0
    assert share.high > 0.25
    assert share.trust == 0
    # One that meets as many labels set aside as are right has no errors to count off.
    good = HeldOut(epoch=3, accuracy=0.75, rows=rows)
    share = shares(given, whole, whole, good, 4)[1]
    assert share.value == pytest.approx(0.25, abs=0.02)
    assert share.low > 0.1
    assert share.trust == 1


def test_a_level_share_tells_nothing_where_the_first_epochs_knew_nothing():
    """Two labels of five are contradicted, of those set aside too: wrong ones, or errors?

    If the first epochs contradicted as few where they were surest, these were right, and so the
    labels are wrong. If they contradicted more, they knew nothing, and all may be errors.
    """
    rng = np.random.default_rng(4)
    given = rng.integers(4, size=3000).astype(np.int32)
    confidence, draws = rng.random(3000).astype(np.float32), rng.random(3000)
    more, whole = (
        Beliefs(
            predicted=np.where(draws < errors, (given + 1) % 4, given).astype(np.int32),
            confidence=confidence,
        )
        for errors in (0.5, 0.4)
    )
    held_out = HeldOut(epoch=3, accuracy=0.6, rows=np.arange(300))
    told, untold = (shares(given, first, whole, held_out, 4)[1] for first in (whole, more))
    assert told.low > 0.3
    assert told.trust == 1
    assert untold.low == 0
    assert untold.high > 0.4
    assert untold.trust == 0


def test_a_model_without_a_plateau_is_weak_however_many_labels_were_set_aside():
    """Right labels only; the surer the model, the rarer its errors, but nowhere does that end."""
    rng = np.random.default_rng(5)
    given = rng.integers(10, size=10_000).astype(np.int32)
    confidence = rng.random(10_000).astype(np.float32)
    predicted = np.where(rng.random(10_000) < 0.75 - 0.5 * confidence, given ^ 1, given)
    beliefs = Beliefs(predicted=predicted.astype(np.int32), confidence=confidence)
    rows = np.arange(2000)
    met = float((predicted == given)[rows].mean())
    share = shares(given, beliefs, beliefs, HeldOut(epoch=7, accuracy=met, rows=rows), 10)[1]
    assert share.trust < 0.5
    assert share.low < 0.1
    # Where it is quite sure it errs on a fourth, for all that anyone can tell.
    assert share.value < 0.25 < (predicted != given).mean()


def test_of_many_labels_set_aside_a_small_difference_is_none():
    """First epochs a hundredth worse than labels set aside, of which there are fifty thousand."""
    rng = np.random.default_rng(7)
    true, given = planted(0.1, rng, samples=200_000)
    whole = Beliefs(predicted=true, confidence=rng.random(200_000).astype(np.float32))
    rows = np.arange(50_000)
    met = float((whole.predicted == given)[rows].mean()) + 0.01
    share = shares(given, whole, whole, HeldOut(epoch=3, accuracy=met, rows=rows), 5)[1]
    assert share.trust == 1
    assert share.low > 0.05
    assert share.low <= 0.1 <= share.high


@pytest.mark.parametrize("classes", [2, 5])
def test_guesses_tell_nothing(classes):
    """Whatever the labels, a model that guesses contradicts most of them."""
    rng = np.random.default_rng(6)
    given = rng.integers(classes, size=4000).astype(np.int32)
    first, whole = (
        Beliefs(
            predicted=rng.integers(classes, size=4000).astype(np.int32),
            confidence=rng.random(4000).astype(np.float32),
        )
        for _ in range(2)
    )
    rows = np.arange(400)
    met = float((whole.predicted == given)[rows].mean())
    share = shares(given, first, whole, HeldOut(epoch=3, accuracy=met, rows=rows), classes)[1]
    assert share.trust == 0
    assert share.low == 0


def test_few_contradictions_are_no_alarm():
    """A model that contradicted 5% of the labels set aside and 1% in the end: none is wrong."""
    rng = np.random.default_rng(3)
    true, given = planted(0.0, rng)
    first, whole = believed(true, 0.05, rng, 5), believed(true, 0.01, rng, 5)
    share = shares(given, first, whole, HeldOut(epoch=3, accuracy=0.95, rows=np.arange(400)), 5)[1]
    assert share.value < 1e-3
    assert share.low == 0


def test_expectations_and_intervals_with_labels_set_aside():
    """For every budget up to the number of wrong labels, in twenty runs."""
    covered, within, expected_covers = [], [], []
    for kind, rate in KINDS:
        for seed in range(5):
            settings = {"kind": kind, "rate": rate, "seed": seed, "samples": 1500}
            ledger, given, true = simulated_run(**settings, memory=3.0, aside=200)
            quality = label_quality(ledger, given, set_aside(ledger, given, 200))
            estimate = estimate_noise(quality, given, 5)
            wrong = (given != true)[quality.worst_first()].cumsum()
            covered.append(float((given != true).mean()) in estimate.rate)
            for tenths in range(1, 11):
                budget = max(1, round(tenths / 10 * estimate.rate.value * len(given)))
                expected = estimate.expected_wrong(budget)
                within.append(abs(expected.value - wrong[budget - 1]) <= 0.05 * budget)
                expected_covers.append(wrong[budget - 1] in expected)
    assert np.mean(covered) >= 0.9
    assert np.mean(within) >= 0.9
    assert np.mean(expected_covers) >= 0.95


def rising(rng, samples, classes, surest_share, slope):
    """Labels, and a model that is contradicted the more the less sure it is, set aside or not."""
    surest = rng.random(samples)
    predicted = rng.integers(classes, size=samples).astype(np.int32)
    contrary = rng.random(samples) < surest_share + slope * (1 - surest)
    given = np.where(contrary, (predicted + 1) % classes, predicted).astype(np.int32)
    beliefs = Beliefs(predicted=predicted, confidence=surest.astype(np.float32))
    accuracy = 1 - float(contrary.mean())
    return given, beliefs, HeldOut(epoch=4, accuracy=accuracy, rows=np.arange(samples // 10))


@pytest.mark.parametrize(("slope", "overlaps"), [(0.0, False), (0.02, False), (0.5, True)])
def test_a_share_that_rises_among_the_surest_is_of_classes_that_overlap(slope, overlaps):
    """Three classes, 30% contradicted at the surest; the model is as good on labels set aside."""
    given, beliefs, aside = rising(np.random.default_rng(0), 4000, 3, 0.3, slope)
    first, _ = find_plateau(beliefs, given, 3)
    early = share_by_first_epochs(given, beliefs, [first], aside.disagreement, 3)
    unseen = FirstEpoch.of(beliefs, given, aside, 3)
    share = share_by_whole_training(given, beliefs, unseen, first, aside, early)
    assert share.trust == (0 if overlaps else 1)
    assert (share.low == 0) == overlaps
    assert share.value == pytest.approx(0.3, abs=0.05)
    assert 0.3 in Interval(value=share.value, low=share.low, high=share.high)


def test_classes_that_overlap_are_asked_where_the_model_is_quite_sure():
    """A tenth is wrong, and of the right ones up to half contradicted: of the least sure."""
    rng = np.random.default_rng(6)
    given, beliefs, aside = rising(rng, 40_000, 5, 0.1, 0.9 * 0.5)
    first, _ = find_plateau(beliefs, given, 5)
    early = share_by_first_epochs(given, beliefs, [first], aside.disagreement, 5)
    unseen = FirstEpoch.of(beliefs, given, aside, 5)
    share = share_by_whole_training(given, beliefs, unseen, first, aside, early)
    assert share.value == pytest.approx(0.1, abs=0.02)
    assert share.low == 0
    # Had the first epochs been contradicted more, the model would be learning still, and weak.
    more = np.where(rng.random(40_000) < 0.3, (beliefs.predicted + 1) % 5, given).astype(np.int32)
    weaker, _ = find_plateau(beliefs, more, 5)
    knows_little = replace(beliefs, predicted=rng.integers(5, size=40_000).astype(np.int32))
    unseen = FirstEpoch.of(knows_little, given, aside, 5)
    share = share_by_whole_training(given, beliefs, unseen, weaker, aside, early)
    assert share.value < 0.02


def test_what_the_first_epoch_had_not_seen_it_cannot_have_learnt_by_heart():
    """A fast learner agrees with most wrong labels in the end; before it saw them, with none."""
    rng = np.random.default_rng(0)
    true, given = planted(0.3, rng, samples=20_000)
    blind = believed(true, 0.1, rng, 5)
    by_heart = rng.random(len(true)) < 0.7
    whole = replace(blind, predicted=np.where(by_heart, given, blind.predicted).astype(np.int32))
    first = replace(blind, predicted=np.where(rng.random(len(true)) < 0.4, given, blind.predicted))
    rows = np.arange(1000)
    met = float((blind.predicted == given)[rows].mean())
    held_out = HeldOut(epoch=1, accuracy=met, rows=rows)
    knew = shares(given, first, whole, held_out, 5, blind)[1]
    assert knew.value == pytest.approx(0.3, abs=0.05)
    assert 0.3 in Interval(value=knew.value, low=knew.low, high=knew.high)
    # One whose first epoch knew little is not asked what it was.
    knows_little = replace(blind, predicted=rng.integers(5, size=len(true)).astype(np.int32))
    assert shares(given, first, whole, held_out, 5, knows_little)[1].value < 0.2
    # Nor one that meets no more labels than a guess would, however often it contradicts them.
    guess = HeldOut(epoch=1, accuracy=0.2, rows=rows)
    assert shares(given, first, whole, guess, 5, knows_little)[1].low == 0


def test_clean_classes_that_overlap_are_not_called_wrong():
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=1500)
    found = audit(((rng.normal(size=(1500, 3)) + 0.7 * labels[:, None]).astype(np.float32), labels))
    assert found.noise_rate.low == 0
    assert found.noise_rate.value < 0.1
    assert found.caution is not None


def test_few_clean_samples_of_a_scale_are_not_called_wrong():
    """Three steps, each of which looks like the next: a fifth of them had been called wrong."""
    off = []
    for seed in range(3):
        rng = np.random.default_rng([seed, 5])
        labels = rng.integers(3, size=500)
        samples = rng.normal(size=(500, 4)).astype(np.float32)
        samples[:, 0] += 1.67 * labels
        found = audit((samples, labels))
        assert found.noise_rate.low == 0
        assert found.caution is not None
        off.append(found.noise_rate.value)
    assert np.mean(off) < 0.1


def test_few_samples_that_a_network_can_hardly_order_are_not_called_wrong():
    """In few steps it learns nothing of which it is sure, and errors lie anywhere."""
    false_alarms, off = [], []
    for seed in range(8):
        samples, labels = make_classification(
            500, 8, n_informative=4, n_redundant=1, n_classes=4, n_clusters_per_class=1,
            class_sep=1.0, flip_y=0, random_state=seed,
        )  # fmt: skip
        rate = audit((samples.astype(np.float32), labels)).noise_rate
        false_alarms.append(rate.low > 0)
        off.append(rate.value)
    assert np.mean(false_alarms) <= 0.125
    assert np.mean(off) < 0.03


@pytest.mark.parametrize("shares", [[0.5, 0.5], [0.8, 0.1, 0.1]])
def test_where_samples_tell_nothing_all_labels_may_be_right(shares):
    rng = np.random.default_rng(0)
    labels = rng.choice(len(shares), 800, p=shares)
    found = audit((rng.normal(size=(800, 5)).astype(np.float32), labels))
    assert found.noise_rate.low == 0
    assert found.caution is not None


def test_of_two_classes_that_are_hardly_told_not_all_that_is_contradicted_is_wrong():
    """40% are wrong, the model errs on 38%, and what the evidence says of that is vague."""
    rng = np.random.default_rng(0)
    true = rng.integers(2, size=10_000).astype(np.int32)
    given = np.where(rng.random(10_000) < 0.4, 1 - true, true).astype(np.int32)
    predicted = np.where(rng.random(10_000) < 0.38, 1 - true, true).astype(np.int32)
    beliefs = Beliefs(predicted=predicted, confidence=rng.random(10_000).astype(np.float32))
    rows = np.arange(500)
    aside = HeldOut(epoch=5, accuracy=float((predicted == given)[rows].mean()), rows=rows)
    first, _ = find_plateau(beliefs, given, 2)
    early = share_by_first_epochs(given, beliefs, [first] * 3, first.disagreement, 2)
    unseen = FirstEpoch.of(beliefs, given, aside, 2)
    vague = TwoClasses(rate=0.25, error=0.09, errors=0.4, by_class=(0.25, 0.25), uneven=0.0)
    assert vague.told == 0
    alone, heard = (
        share_by_whole_training(given, beliefs, unseen, first, aside, early, two)
        for two in (None, vague)
    )
    assert alone.value > 0.45
    assert heard.value == pytest.approx(0.4, abs=0.02)
    assert heard.low < 0.05
    assert heard.high >= alone.value
