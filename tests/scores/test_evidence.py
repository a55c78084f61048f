"""Evidence from ledgers and from probabilities, against plain loops.

Tests of evidence.py and given.py.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given as forall
from hypothesis import settings
from hypothesis import strategies as st
from simulated import simulated_run

from abstain.errors import AbstainError
from abstain.scores.evidence import UNKNOWN, evidence_from_ledger, evidence_from_probabilities
from abstain.scores.held_out import HeldOut
from abstain.scores.ledger import Ledger


@settings(deadline=None, max_examples=50)
@forall(seed=st.integers(0, 10_000), samples=st.integers(1, 40), classes=st.integers(2, 6))
def test_probabilities_against_a_loop(seed, samples, classes):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(classes), samples)
    given = rng.integers(0, classes, samples)
    evidence = evidence_from_probabilities(p, given)
    for i in range(samples):
        others = {j: p[i, j] for j in range(classes) if j != given[i]}
        rival = max(others, key=others.get)
        odds = math.log((p[i, given[i]] + 0.01) / (others[rival] + 0.01))
        assert evidence.rival[i] == rival
        assert evidence.log_odds[i] == pytest.approx(odds, abs=1e-4)
        rest = max(1 - p[i, given[i]], 1e-12)
        rounding = 2e-7 / rest  # of a belief near 1 in float32
        assert evidence.rival_share[i] == pytest.approx(others[rival] / rest, abs=1e-6 + rounding)
    assert evidence.memorised == 0
    assert evidence.disagreement == pytest.approx((evidence.log_odds < 0).mean())


def test_more_rows_than_are_read_at_once_are_all_read(monkeypatch):
    p, given = np.random.default_rng(0).dirichlet(np.ones(3), 50), np.arange(50) % 3
    whole = evidence_from_probabilities(p, given)
    monkeypatch.setattr("abstain.scores.evidence._ROWS_AT_ONCE", 7)
    np.testing.assert_array_equal(evidence_from_probabilities(p, given).log_odds, whole.log_odds)


def test_rows_that_sum_nearly_to_one_count_as_if_they_did():
    p, given = np.random.default_rng(0).dirichlet(np.ones(3), 50), np.arange(50) % 3
    one, other = (evidence_from_probabilities(x, given).log_odds for x in (p, 1.03 * p))
    np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize(
    ("probabilities", "words"),
    [
        ([[0.5, 0.6]], "rows of probabilities must sum to 1"),
        ([[1.4, -0.4]], r"must lie in \[0, 1\]"),
        ([[float("nan"), 1.0]], r"must lie in \[0, 1\]"),
        ([0.5], "must be .samples, classes."),
        ([["a", "b"]], "must be numbers"),
    ],
)
def test_what_are_no_probabilities_is_refused(probabilities, words):
    with pytest.raises(AbstainError, match=words):
        evidence_from_probabilities(probabilities, [0])


def test_a_ledger_gives_its_evidence_and_the_rival_that_was_believed_most():
    ledger, given, true = simulated_run(rate=0.3, skill=9.0)
    evidence = evidence_from_ledger(ledger, given)
    np.testing.assert_array_equal(evidence.log_odds, ledger.evidence.numpy())
    wrong = given != true
    assert (evidence.rival[wrong] == true[wrong]).mean() > 0.95
    assert (evidence.rival != given).all()


def test_memorised_compares_held_out_with_trained_labels():
    ledger, given, _ = simulated_run(rate=0.3)
    trained = (ledger.evidence < 0).double().mean().item()
    held_out = HeldOut(epoch=3, accuracy=0.4, rows=np.arange(100))
    found = evidence_from_ledger(ledger, given, held_out).memorised
    assert found == pytest.approx(math.log(0.65 / (trained + 0.05)), abs=1e-6)
    assert found > 0
    assert evidence_from_ledger(ledger, given).memorised == 0


def test_of_a_sample_that_was_never_seen_nothing_is_known():
    ledger = Ledger(3)
    ledger.update(torch.tensor([0, 2]), torch.tensor([[1.0, 0.0]] * 2), torch.tensor([0, 0]))
    evidence = evidence_from_ledger(ledger, [0, 0, 0])
    assert evidence.rival[1] == UNKNOWN
    assert np.isnan(evidence.log_odds[1])


def test_a_ledger_that_saw_nothing_is_refused():
    with pytest.raises(AbstainError, match="must have seen a training"):
        evidence_from_ledger(Ledger(3), [0, 1, 0])
