"""Exports: a cleaned set keeps the form of its source, and `abstain train` takes it.

Tests of cleaned.py, issues.py and files.py.
"""

import csv
import json

import numpy as np
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest

from abstain import Recipe, train
from abstain.data import load
from abstain.errors import AbstainError
from abstain.exporting.cleaned import default_suffix, export_cleaned
from abstain.exporting.issues import export_issues

from audits import blobs, flagged_ids, rows_of, saved, write_images, write_texts

SHORT = Recipe(epochs=4, warm_up=1)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("flagged", [False, True])
def test_issues_are_written_as_they_are(texts, tmp_path, suffix, flagged):
    found, _ = texts
    done = export_issues(found, tmp_path / f"out{suffix}", flagged=flagged)
    read = pq.read_table if suffix == ".parquet" else arrow_csv.read_csv
    table = read(done.path)
    assert table.num_rows == (len(flagged_ids(found)) if flagged else found.issues.num_rows)
    lists = ["near_duplicate_sets"] if suffix == ".csv" else []  # which CSV cannot hold
    assert table.column_names == found.issues.drop_columns(lists).column_names


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


def test_what_cannot_be_exported_is_refused(texts, tmp_path):
    found, _ = texts
    for settings, message in (
        ({"fix": "correct"}, "fix must be one of drop, relabel, weight, reviewed, got 'correct'"),
        ({"min_confidence": 2.0}, r"min_confidence must lie in \[0, 1\], got 2.0"),
        ({"unsure": "flip"}, "unsure must be one of keep, drop, got 'flip'"),
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
