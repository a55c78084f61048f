"""Corrected labels: which are replaced, and that all else of the source stays as it was.

Tests of corrected.py and rows.py.
"""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tickets import tickets

from abstain import Recipe, train
from abstain.data import load
from abstain.errors import AbstainError
from abstain.exporting.cleaned import export_cleaned
from abstain.exporting.corrected import Corrected
from abstain.exporting.rows import plain_arrays, plain_rows

from audits import blobs, flagged_ids, rows_of, saved, write_images

SHORT = Recipe(epochs=4, warm_up=1)


def test_relabelling_takes_the_proposal_only_where_it_is_sure(texts, tmp_path):
    found, path = texts
    issues = {row["id"]: row for row in found.issues.to_pylist()}
    for sure in (0.0, 0.9, 1.0):
        done = export_cleaned(found, tmp_path / "clean.csv", "relabel", min_confidence=sure)
        after = rows_of(done.path)
        assert len(after) == len(rows_of(path))
        changed = 0
        for k, row in enumerate(after):
            issue = issues[str(k)]
            takes = issue["is_label_issue"] and issue["confidence"] >= sure
            expected = issue["predicted_label"] if takes else issue["given_label"]
            changed += expected != issue["given_label"]
            assert row["stars"] == expected
        assert done.relabelled == changed
        assert done.relabelled + done.unsure == len(flagged_ids(found))
        spared = export_cleaned(
            found, tmp_path / "spared.csv", "relabel", min_confidence=sure, unsure="drop"
        )
        left = [k for k in issues if issues[k]["is_label_issue"] and issues[k]["confidence"] < sure]
        assert rows_of(spared.path) == [row for k, row in enumerate(after) if str(k) not in left]
        assert (spared.dropped, spared.relabelled) == (len(left), changed)


def test_planted_errors_are_repaired_not_forgotten(texts, tmp_path):
    """The labels of the audit are repaired, not those of the source before errors were planted."""
    found, path = texts
    done = export_cleaned(found, tmp_path / "clean.csv", "relabel", min_confidence=0.0)
    right = [row["stars"] for row in rows_of(path)]
    repaired = [row["stars"] for row in rows_of(done.path)]
    by_id = {row["id"]: row["given_label"] for row in found.issues.to_pylist()}
    given = [by_id[str(k)] for k in range(len(right))]
    before = np.mean([a != b for a, b in zip(given, right, strict=True)])
    after = np.mean([a != b for a, b in zip(repaired, right, strict=True)])
    assert before > 0.1
    assert after < before / 2


def test_weights_are_a_column_that_training_takes(texts, tmp_path):
    found, _ = texts
    done = export_cleaned(found, tmp_path / "clean.parquet", "weight")
    data = load(done.path, label="stars", features="text", weights="weight")
    known = dict(zip(*found.weights.to_pydict().values(), strict=True))
    assert data.weights.tolist() == pytest.approx([known[id_] for id_ in data.ids], abs=1e-6)
    run = train(done.path, SHORT, label="stars", features="text", weights="weight")
    assert run.data.weights is not None


@pytest.mark.parametrize(
    ("labels", "type_"),
    [
        ([0, 1, 2], pa.int8()),
        ([10, 2, 33], pa.int64()),
        (["a", "b", "c"], pa.string()),
        ([1.0, 2.0, 3.0], pa.float64()),
    ],
)
def test_labels_keep_their_type(tmp_path, labels, type_):
    x, y = blobs(90)
    columns = {name: x[:, k] for k, name in enumerate("abcd")}
    table = pa.table({**columns, "label": pa.array([labels[k] for k in y], type_)})
    pq.write_table(table, tmp_path / "d.parquet")
    found = saved(tmp_path / "d.parquet", tmp_path / "audit")
    done = export_cleaned(found, tmp_path / "clean.parquet", "relabel", min_confidence=0.0)
    cleaned = pq.read_table(done.path)
    assert cleaned.schema == table.schema
    assert set(cleaned["label"].to_pylist()) <= set(labels)
    assert load(done.path).classes == load(tmp_path / "d.parquet").classes


def test_named_classes_stay_numbers(tmp_path):
    """As the hub writes them: numbers in the column, names in the metadata."""
    x, y = blobs(60)
    info = {
        "info": {"features": {"label": {"names": ["ape", "bee", "cat"], "_type": "ClassLabel"}}}
    }
    table = pa.table({"a": x[:, 0], "b": x[:, 1], "label": y})
    table = table.replace_schema_metadata({"huggingface": json.dumps(info)})
    pq.write_table(table, tmp_path / "d.parquet")
    found = saved(tmp_path / "d.parquet", tmp_path / "audit")
    assert found.issues["given_label"][0].as_py() in ("ape", "bee", "cat")
    done = export_cleaned(found, tmp_path / "clean.parquet", "relabel", min_confidence=0.0)
    assert load(done.path).classes == ("ape", "bee", "cat")
    assert pq.read_table(done.path)["label"].type == table["label"].type


def test_paths_in_a_table_still_lead_to_their_images(tmp_path):
    root = write_images(tmp_path / "photos", per_class=20)
    lines = [f"{path.relative_to(tmp_path)},{path.parent.name}" for path in root.rglob("*.png")]
    (tmp_path / "list.csv").write_text("\n".join(["image,label", *lines]) + "\n")
    found = saved(tmp_path / "list.csv", tmp_path / "audit", SHORT)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    done = export_cleaned(found, tmp_path / "deep" / "er" / "clean.csv", "relabel")
    assert load(done.path).inputs.equal(load(tmp_path / "list.csv").inputs)


def test_rows_without_a_file_keep_their_texts(tmp_path):
    data = load(tickets(8))
    given, keep = data.given.numpy(), np.array([1, 0])
    columns = plain_rows(None, data, given, keep, tmp_path).to_pydict()
    frame = tickets(8).iloc[keep]
    assert columns["description"] == frame["description"].tolist()
    assert columns["comment"] == [frame["comment"][1], None]
    assert columns["hours"] == [frame["hours"][1], None]
    all_of_it = Corrected(
        ids=list(data.ids),
        classes=list(data.classes),
        given=given,
        labels=given,
        keep=np.ones(len(given), bool),
        answers={},
    )
    with pytest.raises(AbstainError, match=r"must end in \.csv or \.parquet"):
        plain_arrays(data, all_of_it, tmp_path / "t.npz")
