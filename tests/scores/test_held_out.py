import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st
from scipy.stats import norm

from abstain.scores.held_out import (
    HeldOut,
    all_learnt_by_heart,
    likely_excess,
    mistaken,
    with_all,
)


@drawn(rate=st.floats(0, 0.9), errors=st.floats(0, 1), samples=st.integers(1, 10_000))
def test_errors_are_those_that_explain_what_was_met(rate, errors, samples):
    held_out = HeldOut(epoch=1, accuracy=(1 - rate) * (1 - errors), rows=np.arange(samples))
    assert held_out.errors(rate) == pytest.approx(errors, abs=1e-6)
    assert 0 <= held_out.errors(rate, chances=2.0) <= held_out.errors(rate)


@pytest.mark.parametrize(
    ("errors", "samples", "m", "rate"), [(0.2, 600, 2, 0.1), (0.3, 300, 10, 0.4)]
)
def test_errors_are_likely_fewer_than_were_met_if_they_are_rare(errors, samples, m, rate):
    """Against the mean over draws of what they may have been, where chance does not reach none."""
    met = (1 - rate) * (1 - errors) + rate * errors / (m - 1)
    held_out = HeldOut(epoch=1, accuracy=met, rows=np.arange(samples))
    told = 1 - rate * m / (m - 1)
    rng = np.random.default_rng(0)
    before = rng.exponential(0.05, 4_000_000)
    weights = norm.pdf((1 - met - rate - before * told) / held_out.chance)
    expected = (weights @ before) / weights.sum()
    found = mistaken(likely_excess(held_out, rate, m), rate, m)
    assert found == pytest.approx(expected, abs=0.005)
    assert found < errors


@drawn(st.floats(0.05, 0.95), st.floats(0, 1), st.integers(20, 100_000))
def test_all_labels_add_to_those_set_aside_unless_learnt_by_heart(own, contradicted, samples):
    held_out = HeldOut(epoch=1, accuracy=1 - own, rows=np.arange(samples))
    joined = with_all(held_out, contradicted).disagreement
    assert min(own, contradicted) - 1e-9 <= joined <= max(own, contradicted) + 1e-9
    error = np.hypot(held_out.chance, 0.02)
    if own - contradicted >= 4 * error:  # they were learnt by heart
        assert joined == pytest.approx(own)
    if own - contradicted <= 2 * error:  # the mean with the least variance, of two unlike samples
        weights = np.array([held_out.chance, 0.02]) ** -2.0
        expected = weights @ [own, contradicted] / weights.sum()
        assert joined == pytest.approx(expected, abs=1e-6)


@drawn(st.integers(2, 100), st.floats(0, 0.9), st.floats(0, 1))
def test_mistaken_samples_are_those_that_explain_what_is_contradicted(m, part, errors):
    """Of labels that are wrong, a model that errs towards any class meets one in m − 1."""
    rate = part * (1 - 1 / m)
    met = (1 - rate) * (1 - errors) + rate * errors / (m - 1)
    assert mistaken(1 - met - rate, rate, m) == pytest.approx(errors, abs=1e-6)
    held_out = HeldOut(epoch=1, accuracy=met, rows=np.arange(100))
    assert held_out.excess(rate) == pytest.approx(1 - met - rate, abs=1e-6)
    assert 0 <= held_out.excess(rate, chances=1.0) <= held_out.excess(rate)
    assert 0 <= mistaken(-0.1, rate, m) <= mistaken(0.9, rate, m) <= 1


@drawn(rate=st.floats(0, 0.9), errors=st.floats(0, 1), kept=st.floats(0, 0.9))
def test_errors_that_are_kept_are_counted_off(rate, errors, kept):
    held_out = HeldOut(epoch=1, accuracy=(1 - rate) * (1 - errors), rows=np.arange(100))
    contradicted = rate + kept * (1 - rate) * errors
    assert held_out.without_errors(contradicted, kept) == pytest.approx(rate, abs=1e-6)


def test_rows_set_aside_are_those_the_warm_up_was_judged_by():
    from abstain import Recipe
    from abstain.train.run import train

    trained = train("digits", Recipe.of("auto", epochs=6, flip=0.2))
    told = trained.held_out
    snapshot = next(x for x in trained.ledger.snapshots if x.epoch == 2)
    met = (snapshot.belief >= snapshot.rival_belief)[told.rows].double().mean()
    assert float(met) == pytest.approx(trained.history.epochs[2]["validation_accuracy"], abs=0.006)


@pytest.mark.parametrize(("taught", "told"), [(0.05, True), (0.2, False), (0.3, False)])
def test_labels_learnt_by_heart_are_contradicted_less_than_those_set_aside(taught, told):
    """Of 400 set aside 30% are contradicted, of 3,600 others fewer."""
    contrary = np.zeros(4000, dtype=bool)
    contrary[:120] = True
    contrary[400 : 400 + round(3600 * taught)] = True
    held_out = HeldOut(epoch=3, accuracy=0.7, rows=np.arange(400))
    assert all_learnt_by_heart(contrary, held_out) == told
