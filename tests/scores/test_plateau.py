import numpy as np
import pytest
from hypothesis import given as forall
from hypothesis import strategies as st

from abstain.scores.plateau import (
    Beliefs,
    at_certainty,
    certainty_error,
    find_plateau,
    shrunk_rates,
    within_classes,
)


@pytest.mark.parametrize(("share", "samples"), [(0.1, 2000), (0.4, 500)])
def test_the_error_at_certainty_is_that_of_chance(share, samples):
    """Against the spread of what is read off draws."""
    rng = np.random.default_rng(0)
    drawn = rng.binomial(samples // 10, share, (4000, 10)) / (samples // 10)
    curves = np.cumsum(drawn, 1) / np.arange(1, 11)
    # Without the end at none, which cuts off a part of the spread.
    read = [at_certainty(1 + curve) - 1 for curve in curves]
    error = np.mean([certainty_error(curve, samples) for curve in curves])
    assert np.mean(read) == pytest.approx(share, abs=0.005)
    assert error == pytest.approx(np.std(read), rel=0.05)


def test_a_plateau_ends_where_errors_of_the_model_begin():
    """Sure half: 20% of the labels contradict; unsure half: the prediction is a guess."""
    rng = np.random.default_rng(0)
    true = rng.integers(4, size=8000).astype(np.int32)
    given = np.where(rng.random(8000) < 0.2, (true + 1) % 4, true).astype(np.int32)
    confidence = rng.random(8000).astype(np.float32)
    predicted = np.where(confidence > 0.5, true, rng.integers(4, size=8000)).astype(np.int32)
    early = Beliefs(predicted=predicted, confidence=confidence)
    plateau, counts = find_plateau(early, given, 4)
    assert plateau.share in (0.4, 0.5)
    assert plateau.disagreement == pytest.approx(0.2, abs=0.02)
    assert counts.sum() == plateau.samples
    assert plateau.curve[-1] == pytest.approx((predicted != given).mean())


def test_curve_against_a_loop_over_classes():
    """Of the surest tenths, the share of each class, drawn to the common one, by its frequency."""
    rng = np.random.default_rng(1)
    predicted = rng.choice(3, 900, p=[0.6, 0.3, 0.1]).astype(np.int32)
    given = np.where(rng.random(900) < 0.1 + 0.2 * predicted, 2 - predicted, predicted)
    confidence = rng.permutation(900).astype(np.float32)
    predicted[:50] = -1  # not seen
    beliefs = Beliefs(predicted=predicted, confidence=confidence)
    plateau, _ = find_plateau(beliefs, given.astype(np.int32), 3)
    seen = np.flatnonzero(predicted >= 0)
    seen = seen[np.argsort(-confidence[seen])]
    for tenths in range(1, 11):
        on = seen[: tenths * 85]
        totals = np.array([(predicted[on] == j).sum() for j in range(3)], float)
        hits = np.array([(given[on] != j)[predicted[on] == j].sum() for j in range(3)], float)
        common = hits.sum() / totals.sum()
        extra = np.square(hits - totals * common) / (totals * common * (1 - common))
        typical = np.square(totals).sum() / totals.sum()
        correlation = np.clip((extra.sum() / 2 - 1) / (typical - 1), 1e-9, 1)
        strength = (1 - correlation) / correlation
        rates = (hits + strength * common) / (totals + strength)
        expected = sum(rates[j] * (predicted[seen] == j).mean() for j in range(3))
        assert plateau.curve[tenths - 1] == pytest.approx(expected, abs=1e-6)


def test_a_class_that_the_model_never_tells_apart_is_not_taken_for_wrong_labels():
    """A fifth of the labels are wrong; of one class in five, the model guesses every second."""
    rng = np.random.default_rng(2)
    true = rng.integers(5, size=10_000).astype(np.int32)
    given = np.where(rng.random(10_000) < 0.2, (true + rng.integers(1, 5, 10_000)) % 5, true)
    hard = true == 4
    confidence = rng.random(10_000) + ~hard
    predicted = np.where(hard & (rng.random(10_000) < 0.5), 3, true).astype(np.int32)
    beliefs = Beliefs(predicted=predicted, confidence=confidence.astype(np.float32))
    plateau, _ = find_plateau(beliefs, given.astype(np.int32), 5)
    assert (predicted != given).mean() > 0.26
    assert plateau.disagreement == pytest.approx(0.2, abs=0.02)


def test_wrong_labels_of_one_class_count_by_how_many_it_has():
    """The model is surest where hardly a label is wrong; half of a rarer, harder class are."""
    rng = np.random.default_rng(3)
    true = rng.choice(2, 10_000, p=[0.7, 0.3]).astype(np.int32)
    given = np.where(rng.random(10_000) < np.where(true == 1, 0.5, 0.02), 1 - true, true)
    confidence = rng.random(10_000) + 0.5 * (true == 0)
    beliefs = Beliefs(predicted=true, confidence=confidence.astype(np.float32))
    plateau, _ = find_plateau(beliefs, given.astype(np.int32), 2)
    surest = np.argsort(-confidence)[:2000]
    assert (true != given)[surest].mean() < 0.1
    assert plateau.curve[4] == pytest.approx((true != given).mean(), abs=0.03)


@pytest.mark.parametrize("samples", [4005, 10_000, 700_000])
def test_a_plateau_has_its_least_part_however_many_rows_are_looked_at(samples):
    """Errors begin at once; of very many rows a random part is looked at."""
    rng = np.random.default_rng(4)
    given = rng.integers(3, size=samples).astype(np.int32)
    confidence = rng.random(samples).astype(np.float32)
    errs = rng.random(samples) < 1 - confidence
    beliefs = Beliefs(
        predicted=np.where(errs, (given + 1) % 3, given).astype(np.int32), confidence=confidence
    )
    assert find_plateau(beliefs, given, 3)[0].share == 0.1
    plateau, counts = find_plateau(beliefs, given, 3, least=0.3)
    assert plateau.share == 0.3
    assert plateau.samples == counts.sum() == pytest.approx(0.3 * min(samples, 500_000), rel=0.02)
    assert plateau.disagreement == pytest.approx(0.15, abs=0.03)


@forall(
    hits=st.lists(st.integers(0, 50), min_size=1, max_size=6),
    misses=st.lists(st.integers(0, 50), min_size=6, max_size=6),
)
def test_shrunk_rates_lie_between_their_own_and_the_common_one(hits, misses):
    hit = np.array(hits, float)
    totals = hit + misses[: len(hits)]
    rates, common = shrunk_rates(hit, totals), hit.sum() / max(totals.sum(), 1)
    own = np.where(totals > 0, hit / np.maximum(totals, 1), common)
    assert (rates >= np.minimum(own, common) - 1e-9).all()
    assert (rates <= np.maximum(own, common) + 1e-9).all()


@forall(st.lists(st.tuples(st.integers(-1, 3), st.floats(0, 1, width=16)), min_size=1))
def test_within_classes_the_order_stays(samples):
    predicted = np.array([x for x, _ in samples], np.int32)
    confidence = np.array([x for _, x in samples], np.float32)
    ranked = within_classes(Beliefs(predicted=predicted, confidence=confidence)).confidence
    for one in range(len(samples)):
        alike = predicted == predicted[one]
        below = (alike & (ranked <= ranked[one])).sum()
        assert np.isclose(ranked[one], below / alike.sum())
        assert (ranked[alike & (confidence < confidence[one])] < ranked[one]).all()
