"""Tests of result.py and summary.py: figures of an audit, its table, its folder."""

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

from abstain.auditing.folder import AuditFolder
from abstain.auditing.result import COLUMNS
from abstain.errors import AbstainError
from abstain.exporting.to_check import export_sample
from abstain.scores.sampling import draw

from audits import answer, truth_of


def test_in_a_notebook_results_take_a_line(planted):
    assert re.fullmatch(
        r"<Audit of digits: \d+\.\d% of 1,442 labels wrong "
        r"\(90% interval .* to .*, estimated from the labels alone\), \d+ flagged>",
        repr(planted),
    )
    assert repr(planted.trained).startswith("<Trained mlp by ")
    assert repr(planted.data) == "<LabeledData digits: 1,442 samples of 10 classes, image>"
    assert "1,442 labels" in repr(AuditFolder.open(planted.folder))
    assert all(len(repr(x)) < 200 for x in (planted, planted.trained, planted.data))


def test_tables_are_taken_by_pandas_and_by_whatever_reads_arrow(planted):
    table = planted.issues
    frame = table.to_pandas()
    assert list(frame) == list(COLUMNS)
    assert frame["id"].tolist() == [planted.labels.ids[k] for k in planted.order]

    class Stream:  # all that polars, DuckDB and narwhals ask for
        __arrow_c_stream__ = table.__arrow_c_stream__

    assert pa.table(Stream()).equals(table)


def test_for_every_budget_it_says_how_many_are_expected_to_be_wrong(planted):
    rows = planted.summary()["budgets"]
    sizes = [row["budget"] for row in rows]
    assert sizes[:4] == [10, 20, 50, 100]
    assert sizes[-1] == planted.flagged > 100
    assert sizes == sorted(sizes)
    wrong = planted.planted[planted.order].cumsum()
    for row in rows:
        expected = row["expected_wrong"]
        found = wrong[row["budget"] - 1]
        assert expected["low"] <= found <= expected["high"] + 0.02 * row["budget"]


def test_issues_are_all_labels_worst_first(planted):
    issues = planted.issues
    assert tuple(issues.column_names) == COLUMNS
    assert sorted(issues["id"].to_pylist()) == sorted(planted.data.ids)
    scores = issues["label_score"].to_numpy()
    assert (np.diff(scores) >= 0).all()
    assert sum(issues["is_label_issue"].to_pylist()) == planted.flagged
    row = {id_: k for k, id_ in enumerate(planted.data.ids)}
    for issue in issues.slice(0, 20).to_pylist():
        given = planted.data.given[row[issue["id"]]]
        assert issue["given_label"] == planted.data.classes[given]


def test_the_folder_holds_verdict_model_and_recipe(planted):
    names = {path.name for path in planted.folder.iterdir()}
    assert {"issues.parquet", "issues.csv", "summary.json", "weights.parquet"} <= names
    assert {"run.json", "model.safetensors", "ledger.parquet"} <= names
    table = pq.read_table(planted.folder / "issues.parquet")
    assert table.select(planted.issues.column_names).equals(planted.issues)
    text = csv.read_csv(planted.folder / "issues.csv")
    assert text["id"].to_pylist() == table["id"].to_pylist()
    summary = json.loads((planted.folder / "summary.json").read_text())
    assert summary == json.loads(json.dumps(planted.summary()))
    np.testing.assert_allclose(np.sum(summary["transition"], 1), 1, atol=1e-4)
    assert summary["noise_rate"]["basis"] == "estimated from the labels alone"
    assert summary["noise_rate"]["confidence"] == 0.9
    assert summary["flagged"] == planted.flagged
    assert summary["sources"]["train"] == "digits"
    weights = pq.read_table(planted.folder / "weights.parquet")
    assert weights["id"].to_pylist() == list(planted.data.ids)
    right = 1 - weights["weight"].to_numpy()
    assert right.mean() == pytest.approx(planted.noise_rate.value, abs=0.01)


def test_a_verdict_that_knows_less_does_not_write_over_answers(found):
    truth = truth_of(found)
    found.with_reviewed({"1": truth["1"], "2": truth["2"]}).write(found.folder)
    with pytest.raises(AbstainError, match="with 1 such answer"):
        found.with_reviewed({"1": truth["1"]}).write(found.folder)
    assert AuditFolder(found.folder).answers().labels == {"1": truth["1"], "2": truth["2"]}


def test_a_sample_goes_where_its_answers_go(found, tmp_path):
    path = tmp_path / "to-check.csv"
    export_sample(AuditFolder.open(found.folder), path, 40)
    answer(path, truth_of(found))
    knows = found.with_reviewed(path)
    knows.write(tmp_path / "copy")
    copied = AuditFolder(tmp_path / "copy").sample(found.data.ids)
    assert copied.rows.tolist() == knows.findings.sample.rows.tolist()


def test_a_sample_of_other_data_is_refused(found):
    other = draw(np.full(500, 0.5), 400, np.random.default_rng(0))
    with pytest.raises(AbstainError, match="sample must be of these 150 labels"):
        found.with_reviewed({"1": "1"}, sample=other)


def test_all_labels_checked_is_the_truth(found):
    folder = AuditFolder(found.folder)
    sample = folder.hand_out(list(found.data.ids), found.verdict.wrong_probability, 150)
    knows = found.with_reviewed(truth_of(found), sample=sample)
    rate = knows.noise_rate
    assert rate.low == rate.high == pytest.approx(found.detection.rate)
    assert knows.left_wrong.high == 0
    by_hand = found.with_reviewed(truth_of(found))
    assert (by_hand.basis, by_hand.caution) == ("known: every label was reviewed", None)
    assert by_hand.noise_rate == rate
