"""Exports: a cleaned set keeps the form of its source, and `abstain train` takes it."""

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest

from abstain import Recipe, train
from abstain.audit import SavedAudit, audit
from abstain.data import load
from abstain.errors import AbstainError
from abstain.report.export import default_suffix, export_cleaned, export_issues

from audits import blobs, write_images, write_texts

SHORT = Recipe(epochs=4, warm_up=1)
FLIPPED = Recipe(epochs=8, warm_up=1, flip=0.2)


def saved(source, folder, recipe=FLIPPED, **options):
    audit(source, recipe, folder=folder, **options)
    return SavedAudit.open(folder)


def flagged_ids(found):
    issues = found.issues.to_pydict()
    return {id_ for id_, flag in zip(issues["id"], issues["is_label_issue"], strict=True) if flag}


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    place = tmp_path_factory.mktemp("texts")
    path = write_texts(place / "reviews.csv")
    return saved(path, place / "audit", label="stars", features="text"), path


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("flagged", [False, True])
def test_issues_are_written_as_they_are(texts, tmp_path, suffix, flagged):
    found, _ = texts
    done = export_issues(found, tmp_path / f"out{suffix}", flagged=flagged)
    read = pq.read_table if suffix == ".parquet" else arrow_csv.read_csv
    table = read(done.path)
    assert table.num_rows == (len(flagged_ids(found)) if flagged else found.issues.num_rows)
    assert table.column_names == found.issues.column_names


def test_neither_the_source_nor_the_audit_is_written_over(texts):
    found, path = texts
    before = path.read_bytes()
    for write in (export_issues, export_cleaned):
        for target in (path, found.folder / "issues.csv"):
            with pytest.raises(AbstainError, match="no file of the source or of the audit"):
                write(found, target)
    assert path.read_bytes() == before


def test_dropping_leaves_every_other_row_as_it_was(texts, tmp_path):
    found, path = texts
    before, wrong = rows_of(path), flagged_ids(found)
    done = export_cleaned(found, tmp_path / "clean.csv", "drop")
    given = dict(
        zip(found.issues["id"].to_pylist(), found.issues["given_label"].to_pylist(), strict=True)
    )
    after = rows_of(done.path)
    kept = [{**row, "stars": given[str(k)]} for k, row in enumerate(before) if str(k) not in wrong]
    assert after == kept
    assert done.dropped == len(wrong) > 0
    assert train(done.path, SHORT, label="stars", features="text").epoch == 4


@pytest.mark.parametrize("fix", ["drop", "relabel"])
@pytest.mark.parametrize("is_folder", [True, False])
def test_features_from_a_file_fit_what_was_written(tmp_path, fix, is_folder):
    source, options = write_images(tmp_path / "photos"), {}
    rng = np.random.default_rng(0)
    seen = np.arange(60) // 30
    seen[::6] = 1 - seen[::6]
    if not is_folder:
        source, options = tmp_path / "names.csv", {"label": "kind"}
        rows = "".join(f"n{k},{'ab'[k // 30]}\n" for k in range(60))
        source.write_text(f"name,kind\n{rows}")
    embeddings = (rng.normal(size=(60, 4)) + 6 * seen[:, None]).astype(np.float32)
    np.save(tmp_path / "clip.npy", embeddings)
    options["features"] = str(tmp_path / "clip.npy")
    found = saved(source, tmp_path / "audit", Recipe(epochs=10), **options)
    done = export_cleaned(found, tmp_path / "clean.csv", fix)
    assert (done.dropped > 0) == (fix == "drop")
    data = train(done.path, SHORT, **done.reading).data
    kept = {row.tobytes() for row in embeddings} & {row.tobytes() for row in data.inputs.numpy()}
    assert len(kept) == len(data) == 60 - done.dropped


def test_the_features_of_the_source_are_not_written_over(tmp_path):
    x, y = blobs(60)
    np.save(tmp_path / "clip.npy", x)
    (tmp_path / "names.csv").write_text("name,kind\n" + "".join(f"n{k},c{k % 3}\n" for k in y))
    options = {"label": "kind", "features": str(tmp_path / "clip.npy")}
    found = saved(tmp_path / "names.csv", tmp_path / "audit", **options)
    with pytest.raises(AbstainError, match=r"out must leave .*clip\.npy as it is"):
        export_cleaned(found, tmp_path / "clip.csv", "drop")
    assert not (tmp_path / "clip.csv").exists()
    assert np.array_equal(np.load(tmp_path / "clip.npy"), x)
    for _ in range(2):  # what an export wrote, the next may write over
        export_cleaned(found, tmp_path / "clean.csv", "drop")
    assert (tmp_path / "clean.npy").exists()


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


def test_an_image_folder_becomes_a_table_of_paths(tmp_path):
    root = write_images(tmp_path / "photos", per_class=60)
    found = saved(root, tmp_path / "audit", Recipe(epochs=20))
    (tmp_path / "elsewhere").mkdir()
    done = export_cleaned(found, tmp_path / "elsewhere" / "clean.csv", "relabel")
    again, before = load(done.path), load(root)
    assert again.kind == "image"
    assert list(again.ids) == list(before.ids)
    assert again.inputs.equal(before.inputs)
    assert done.relabelled == int((again.given != before.given).sum()) > 0
    assert default_suffix(str(root), "image") == ".csv"


def test_arrays_and_built_in_sets_become_arrays(tmp_path):
    x, y = blobs(90)
    np.savez(tmp_path / "d.npz", x=x, y=y)
    found = saved(tmp_path / "d.npz", tmp_path / "one")
    for fix in ("relabel", "weight"):
        done = export_cleaned(found, tmp_path / "clean.npz", fix)
        weights = {"weights": "weight"} if fix == "weight" else {}
        again = load(done.path, **weights)
        assert again.inputs.numpy() == pytest.approx(x)
        assert (again.weights is not None) == (fix == "weight")
    table = export_cleaned(found, tmp_path / "clean.csv", "drop")
    assert load(table.path).columns == ("x0", "x1", "x2", "x3")
    digits = saved("digits", tmp_path / "two")
    assert default_suffix("digits", "image") == ".npz"
    done = export_cleaned(digits, tmp_path / "digits.npz", "drop")
    assert len(load(done.path)) == done.rows == digits.issues.num_rows - len(flagged_ids(digits))
    with pytest.raises(AbstainError, match=r"must end in .npz for images that are no files"):
        export_cleaned(digits, tmp_path / "digits.csv")


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


@pytest.mark.parametrize("name", ["data/train.csv", "d.tsv", "d.jsonl"])
def test_other_tables_are_cleaned_too(tmp_path, name):
    """A folder of tables, tabs, and lines of JSON."""
    x, y = blobs(60)
    rows = [{"id": f"row {k}", "a": float(p[0]), "b": float(p[1]), "label": f"c{j}"}
            for k, (p, j) in enumerate(zip(x, y, strict=True))]  # fmt: skip
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with path.open("w", newline="") as stream:
            tab = "\t" if path.suffix == ".tsv" else ","
            writer = csv.DictWriter(stream, list(rows[0]), delimiter=tab)
            writer.writeheader()
            writer.writerows(rows)
    source = path.parent if path.parent != tmp_path else path
    found = saved(source, tmp_path / "audit", SHORT)
    done = export_cleaned(found, tmp_path / "clean.csv", "relabel")
    again = load(done.path)
    assert list(again.ids) == [row["id"] for row in rows]
    assert again.columns == ("a", "b")
    assert again.inputs.equal(load(source).inputs)


def test_paths_in_a_table_still_lead_to_their_images(tmp_path):
    root = write_images(tmp_path / "photos", per_class=20)
    lines = [f"{path.relative_to(tmp_path)},{path.parent.name}" for path in root.rglob("*.png")]
    (tmp_path / "list.csv").write_text("\n".join(["image,label", *lines]) + "\n")
    found = saved(tmp_path / "list.csv", tmp_path / "audit", SHORT)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    done = export_cleaned(found, tmp_path / "deep" / "er" / "clean.csv", "relabel")
    assert load(done.path).inputs.equal(load(tmp_path / "list.csv").inputs)


def test_what_cannot_be_exported_is_said(texts, tmp_path):
    found, _ = texts
    for settings, message in (
        ({"fix": "mend"}, "fix must be one of drop, relabel, weight, got 'mend'"),
        ({"min_confidence": 2.0}, r"min_confidence must lie in \[0, 1\], got 2.0"),
        ({"unsure": "mend"}, "unsure must be one of keep, drop, got 'mend'"),
    ):
        with pytest.raises(AbstainError, match=message):
            export_cleaned(found, tmp_path / "clean.csv", **settings)
    with pytest.raises(AbstainError, match=r"must end in .csv or .parquet"):
        export_cleaned(found, tmp_path / "clean.xlsx")
    with pytest.raises(AbstainError, match="a folder that exists"):
        export_issues(found, tmp_path / "nowhere" / "x.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_source_that_has_changed_is_noticed(tmp_path):
    path = write_texts(tmp_path / "reviews.csv", count=60)
    found = saved(path, tmp_path / "audit", SHORT, label="stars", features="text")
    write_texts(path, count=50)
    with pytest.raises(AbstainError, match="must hold the samples and labels that were audited"):
        export_cleaned(found, tmp_path / "clean.csv")


def test_rows_that_changed_places_are_not_taken_for_others(tmp_path):
    """Known by their numbers, they would be given the labels of other rows."""
    path = write_texts(tmp_path / "reviews.csv", count=60)
    found = saved(path, tmp_path / "audit", SHORT, label="stars", features="text")
    assert len(found.load()) == 60
    head, *rows = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([head, *sorted(rows)]) + "\n", encoding="utf-8")
    with pytest.raises(AbstainError, match="must hold the samples and labels that were audited"):
        export_cleaned(found, tmp_path / "clean.csv")
