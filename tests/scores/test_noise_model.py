import math

import numpy as np
import pytest
from hypothesis import given as forall
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from abstain.scores import noise_model
from abstain.scores.label_quality import label_quality_from_probabilities
from abstain.scores.noise_model import SLOPE, _mix_ups, _slope, estimate_transition


@forall(st.integers(2, 6), st.integers(0, 10_000))
def test_mix_ups_are_what_wrong_labels_do_not_explain(m, seed):
    rng = np.random.default_rng(seed)
    believed, given = (rng.integers(m, size=200).astype(np.int32) for _ in range(2))
    transition = estimate_transition(rng.integers(0, 50, (m, m)).astype(float))
    found = _mix_ups(given, believed, transition)
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
    monkeypatch.setattr(noise_model, "_mix_ups", lambda *_: np.zeros((6, 6), np.float32))
    assert known > precision() + 0.02


@forall(st.floats(0, 1), st.floats(0, 1), st.floats(0.1, 4))
def test_evidence_of_a_model_that_errs_counts_for_less(errors, more, typical):
    evidence = np.array([-typical, typical, 3 * typical], np.float32)
    less, most = (_slope(evidence, x) for x in (max(errors, more), min(errors, more)))
    assert 0 < less <= most <= SLOPE
    # One that errs often has a typical label at odds of four to one, whatever the scale.
    assert _slope(evidence, 1.0) == pytest.approx(min(SLOPE, 1.4 / typical), rel=1e-5)
