from dataclasses import replace

import numpy as np
import pytest
import torch

from abstain import Recipe, audit
from abstain.auditing import out_of_sample
from abstain.auditing.out_of_sample import SMALL, is_small
from abstain.scores.evidence import evidence_from_ledger, evidence_from_probabilities


def clouds(samples=200, columns=6, classes=3):
    rng = np.random.default_rng(0)
    true = rng.integers(classes, size=samples)
    rows = 2 * rng.normal(size=(classes, columns))[true] + rng.normal(size=(samples, columns))
    given = np.where(rng.random(samples) < 0.1, (true + 1) % classes, true)
    return rows.astype(np.float32), given, true


@pytest.fixture(scope="module")
def small():
    rows, given, _ = clouds()
    return audit((rows, given), check=["labels"])


def test_probabilities_are_the_evidence_of_a_small_set(small):
    expected = evidence_from_probabilities(small.probabilities, small.given)
    found = small.verdict.evidence
    assert np.array_equal(found.log_odds, expected.log_odds)
    assert np.array_equal(found.rival, expected.rival)
    assert found.memorised == 0  # no model has seen the label that it judges
    assert np.array_equal(found.abstention, small.trained.ledger.abstention.numpy())


def test_predicted_labels_are_the_likeliest_by_these_probabilities(small):
    likeliest = small.probabilities.argmax(1)
    assert np.array_equal(small.verdict.predicted_label, likeliest)
    same = likeliest == small.given
    right = 1 - small.verdict.wrong_probability
    np.testing.assert_array_equal(small.verdict.confidence[same], right[same])
    assert small.held_out.accuracy == same.mean()
    assert len(small.held_out.rows) == len(small.data)


def test_it_finds_the_wrong_labels(small):
    _, given, true = clouds()
    wrong = given != true
    flags = small.verdict.is_label_issue
    assert (flags & wrong).sum() > 0.9 * wrong.sum()
    assert (flags & ~wrong).sum() < 0.2 * flags.sum()
    assert (small.verdict.predicted_label == true)[flags & wrong].mean() > 0.9


def test_another_run_gives_the_same(small):
    rows, given, _ = clouds()
    again = audit((rows, given), check=["labels"])
    assert np.array_equal(again.verdict.evidence.log_odds, small.verdict.evidence.log_odds)


@pytest.mark.parametrize("options", [{"method": "nll"}, {"recipe": Recipe.of("auto", model="mlp")}])
def test_a_named_method_is_asked_what_it_saw(options):
    rows, given, _ = clouds()
    found = audit((rows, given), check=["labels"], **options)
    assert is_small(found.trained) == ("recipe" in options)  # the default model, by its name
    if not is_small(found.trained):
        trained = found.trained
        expected = evidence_from_ledger(trained.ledger, found.given, trained.held_out)
        assert np.array_equal(found.verdict.evidence.log_odds, expected.log_odds)


def test_size_weights_and_a_network_of_the_users_decide(small, monkeypatch):
    assert len(small.data) <= SMALL
    trained = small.trained
    weighted = replace(trained.data, weights=torch.ones(len(trained.data)))
    assert not is_small(replace(trained, data=weighted))
    assert not is_small(replace(trained, plan=replace(trained.plan, model=None)))
    monkeypatch.setattr(out_of_sample, "SMALL", len(trained.data) - 1)
    assert not is_small(trained)
    evidence, held_out = out_of_sample.evidence_and_held_out(trained)
    assert held_out.epoch == trained.held_out.epoch > 0
    assert np.array_equal(evidence.log_odds, trained.ledger.evidence.numpy())


def test_a_finished_audit_taken_up_again_has_the_same_evidence(tmp_path):
    import pyarrow.parquet as pq

    rows, given, _ = clouds()
    names = ",".join([*(f"f{k}" for k in range(rows.shape[1])), "label"])
    np.savetxt(tmp_path / "rows.csv", np.c_[rows, given], "%g", ",", header=names, comments="")
    found = audit(tmp_path / "rows.csv", folder=tmp_path / "audit", check=["labels"])
    again = audit(folder=tmp_path / "audit", resume=True, check=["labels"])
    kept = pq.read_table(tmp_path / "audit/evidence.parquet")
    for odds in (again.verdict.evidence.log_odds, kept.column("log_odds").to_numpy()):
        assert np.array_equal(odds, found.verdict.evidence.log_odds)
