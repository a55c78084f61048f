import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch

from abstain import AbstainError, Recipe, audit
from abstain.auditing.faults import TOO_MANY
from abstain.auditing.result import COLUMNS
from abstain.checks.giveaways import giveaways

FLAG = "is_near_duplicate_issue"
SHORT = Recipe(epochs=3, warm_up=1, precision="fp32")


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    label = np.arange(300) % 3
    rows = rng.normal(size=(300, 12)) + 3 * np.eye(3, 12)[label]
    rows[7] = rows[4]  # labels 1 and 1
    rows[9] = 40.0
    return rows, label


def test_an_audit_finds_planted_faults_and_writes_them(table, tmp_path):
    found = audit(table, SHORT, folder=tmp_path / "audit")
    summary = json.loads((tmp_path / "audit" / "summary.json").read_text())
    assert found.checks.worst("outlier", 1).tolist() == [9]
    assert sorted(found.checks.near_duplicate_sets[0].tolist()) == [4, 7]
    assert summary["checks"]["near_duplicate"] == 2
    written = pq.read_table(tmp_path / "audit" / "issues.parquet")
    assert written.column_names[: len(COLUMNS)] == list(COLUMNS)
    flags = dict(zip(*(written.column(x).to_pylist() for x in ("id", FLAG)), strict=True))
    assert [id_ for id_, is_duplicate in flags.items() if is_duplicate] in (["4", "7"], ["7", "4"])


def test_only_labels_are_looked_at_where_nothing_else_is_asked_for(table, tmp_path):
    found = audit(table, SHORT, check=["labels"], folder=tmp_path / "audit")
    assert found.checks is None
    assert found.summary()["checks"] is None
    written = pq.read_table(tmp_path / "audit" / "issues.parquet")
    assert written.column_names == list(COLUMNS)


def test_some_checks_alone(table):
    found = audit(table, SHORT, check=["outliers", "imbalance"])
    assert found.checks.issues == ("outlier", "class_imbalance")


def test_a_check_that_is_not_known_is_refused_before_anything_is_trained(table):
    with pytest.raises(AbstainError, match="check must be a list of names, got 'outliers'"):
        audit(table, SHORT, check="outliers")
    with pytest.raises(AbstainError, match=r"check must be of labels, .* did you mean outliers\?"):
        audit(table, SHORT, check=["outlier"])


def test_many_samples_are_not_searched_for_neighbours_by_default():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(50_001, 2)).astype(np.float32)
    rows[3] = rows[8]
    found = audit((rows, np.arange(50_001) % 2), Recipe(epochs=1, warm_up=0, batch=512))
    assert "outlier" not in found.checks.issues
    assert "class_imbalance" in found.checks.issues
    assert found.checks.unchecked(TOO_MANY) == ("duplicates", "outliers", "groups")
    assert found.checks.near_duplicate_sets[0].tolist() == [3, 8]  # what is identical costs little


def test_neighbours_of_many_samples_are_searched_where_they_are_asked_for(table, monkeypatch):
    monkeypatch.setattr("abstain.auditing.faults.QUICK", {"cpu": 100, "cuda": 100})
    by_default, asked = (audit(table, SHORT, check=x).checks for x in (None, ["outliers"]))
    assert "outlier" not in by_default.issues
    assert asked.worst("outlier", 1).tolist() == [9]


def test_samples_of_the_test_set_are_found_by_default(table, tmp_path):
    rows, label = table
    test = np.random.default_rng(1).normal(size=(40, 12)), label[:40]
    test[0][11] = rows[20] + 1e-4
    found = audit(table, SHORT, test=test, folder=tmp_path / "audit")
    assert found.checks.worst("test_duplicate").tolist() == [20]
    assert found.checks.leakage.startswith("1 training sample also in the test set")
    summary = json.loads((tmp_path / "audit" / "summary.json").read_text())
    assert summary["checks"]["test_duplicate"] == 1
    written = pq.read_table(tmp_path / "audit" / "issues.parquet").to_pylist()
    assert {x["id"]: x["test_duplicate_id"] for x in written if x["is_test_duplicate_issue"]} == {
        "20": "11"
    }


def test_probabilities_leave_identical_samples_of_the_test_set_to_be_found(table):
    rows, label = table
    given = np.full((300, 3), 1 / 3)
    found = audit(table, probabilities=given, test=(rows[:5], label[:5]))
    assert found.checks.summary["test_duplicate"] == 6  # the fifth stands in twice


def test_a_test_split_is_looked_at_without_being_named():
    found = audit("digits", Recipe(epochs=1, warm_up=0))
    assert "test_duplicate" in found.checks.issues


def test_a_column_gives_the_label_away_in_spite_of_wrong_labels():
    rng = np.random.default_rng(0)
    true = np.arange(600) % 3
    rows = np.column_stack([rng.normal(size=(600, 4)), 10 * true + rng.random(600)])
    wrong = rng.permutation(600)[:120]
    given = true.copy()
    given[wrong] = (given[wrong] + 1) % 3
    assert giveaways(torch.from_numpy(rows), given) == ()
    found = audit((rows, given))
    assert [x.column for x in found.checks.giveaways] == ["4"]


def test_empty_texts_are_empty_and_nothing_more(tmp_path):
    texts = [f"{'good' if k % 2 else 'bad'} film number {k}" for k in range(60)]
    texts[4] = texts[5] = "  "
    texts[6] = texts[9] = "the very same"
    frame = pd.DataFrame({"text": texts, "label": [str(k % 2) for k in range(60)]})
    found = audit(frame, Recipe(epochs=1, warm_up=0), label="label")
    assert found.checks.worst("null").tolist() == [4, 5]
    assert found.checks.worst("conflicting_duplicate").tolist() == [6, 9]
    assert found.duplicates.members.tolist() == [6, 9]


def test_faults_are_known_after_reviews_too(table):
    found = audit(table, SHORT)
    assert found.with_reviewed({"3": "0"}).checks is found.checks
