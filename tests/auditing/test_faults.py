import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from abstain import AbstainError, Recipe, audit
from abstain.auditing.result import COLUMNS

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
    with pytest.raises(AbstainError, match=r"check must be of labels, .* did you mean outliers\?"):
        audit(table, SHORT, check=["outlier"])


def test_many_samples_are_not_searched_for_neighbours_by_default():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20_001, 2)).astype(np.float32)
    found = audit((rows, np.arange(20_001) % 2), Recipe(epochs=1, warm_up=0, batch=512))
    assert "outlier" not in found.checks.issues
    assert "class_imbalance" in found.checks.issues


def test_faults_are_known_after_reviews_too(table):
    found = audit(table, SHORT)
    assert found.with_reviewed({"3": "0"}).checks is found.checks
