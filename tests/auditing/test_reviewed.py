"""Labels that somebody checked: read, kept, drawn at random, and counted."""

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from abstain import Recipe
from abstain.auditing.audit import audit
from abstain.auditing.reviewed import kept_answers, read_answers, sample_of
from abstain.auditing.saved import SavedAudit
from abstain.cli import main
from abstain.errors import AbstainError
from abstain.report.to_check import export_sample

from audits import blobs, rows_of, write_images, write_texts

SHORT = Recipe(epochs=6, warm_up=1, flip=0.2)


@pytest.fixture
def found(tmp_path):
    """An audit of points, a fifth of them flipped, in a folder."""
    x, y = blobs(150)
    np.savez(tmp_path / "blobs.npz", x=x, y=y)
    return audit(tmp_path / "blobs.npz", SHORT, folder=tmp_path / "audit")


def truth_of(found):
    true = found.data.true.tolist()
    return {id_: found.data.classes[k] for id_, k in zip(found.data.ids, true, strict=True)}


def answer(path, truth, count=None):
    """Fill in the first answers of a table to check, as a person would."""
    rows = rows_of(path)
    for row in rows[:count]:
        row["checked_label"] = truth[row["id"]]
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def test_from_a_sample_to_a_measured_rate(found, tmp_path, capsys):
    """The whole way, as the commands go it, answered in two parts."""
    folder, to_check = str(found.folder), tmp_path / "to-check.csv"
    truth = truth_of(found)
    with pytest.raises(SystemExit) as exit_:
        main(["sample", folder, "--size", "80", "--out", str(to_check)])
    assert exit_.value.code == 0
    assert f"--resume {folder} --reviewed" in capsys.readouterr().out
    assert len(rows_of(to_check)) == 80
    assert "predicted_label" not in rows_of(to_check)[0]  # an answer must not be led
    answer(to_check, truth, 40)
    for checked in (40, 80):
        with pytest.raises(SystemExit) as exit_:
            main(["audit", "--resume", folder, "--reviewed", str(to_check)])
        assert exit_.value.code == 0
        output = capsys.readouterr().out
        assert f"measured on {checked} labels checked at random" in output
        assert "wrong labels left among the others" in output
        rate = json.loads((found.folder / "summary.json").read_text())["noise_rate"]
        assert rate["checked"] == checked
        assert rate["confidence"] == 0.95
        assert rate["low"] <= found.detection.rate <= rate["high"]
        answer(to_check, truth)
    # The same sample, with what is known filled in; a larger one goes on where it ended.
    larger = tmp_path / "larger.csv"
    export_sample(SavedAudit.open(found.folder), larger, 120)
    assert [row["id"] for row in rows_of(larger)[:80]] == [row["id"] for row in rows_of(to_check)]
    assert sum(row["checked_label"] != "" for row in rows_of(larger)) == 80


def test_reviews_chosen_by_hand_do_not_pass_for_a_random_sample(found):
    truth = truth_of(found)
    worst = [found.data.ids[k] for k in found.order[:20].tolist()]
    knows = found.with_reviewed({id_: truth[id_] for id_ in worst})
    assert knows.measured is None
    assert knows.confidence == 0.9
    assert knows.summary()["reviewed"] == 20
    assert knows.summary()["left_wrong"]["basis"] == "estimated from the labels"
    assert found.verdict.is_reviewed.sum() == 0  # a new verdict; the old one stays
    assert knows.left_wrong.high <= len(found.data) - 20


def test_a_corrected_label_is_certain_and_repaired(found, tmp_path):
    truth = truth_of(found)
    id_ = found.data.ids[int(found.order[0])]
    right = next(x for x in found.data.classes if x != found.issues["given_label"][0].as_py())
    knows = audit(folder=found.folder, resume=True, reviewed={id_: right})
    first = knows.issues.slice(0, 1).to_pylist()[0]
    assert (first["id"], first["label_score"], first["confidence"]) == (id_, 0.0, 1.0)
    assert first["predicted_label"] == right
    assert kept_answers(found.folder) == {id_: right}
    # It is remembered, and more is added to it.
    other = found.data.ids[int(found.order[-1])]
    again = audit(folder=found.folder, resume=True, reviewed={other: truth[other]})
    assert again.reviewed == {id_: right, other: truth[other]}


def test_all_labels_checked_is_the_truth(found):
    sample = sample_of(
        found.folder, pa.array(list(found.data.ids)), found.verdict.wrong_probability
    )
    knows = found.with_reviewed(truth_of(found), sample=sample)
    rate = knows.noise_rate
    assert rate.low == rate.high == pytest.approx(found.detection.rate)
    assert knows.left_wrong.high == 0


def test_texts_and_images_to_check_are_shown(tmp_path):
    texts = write_texts(tmp_path / "reviews.csv", count=60)
    audit(texts, Recipe(epochs=2), label="stars", features="text", folder=tmp_path / "texts")
    export_sample(SavedAudit.open(tmp_path / "texts"), tmp_path / "texts.csv", 10)
    assert all("day" in row["text"] for row in rows_of(tmp_path / "texts.csv"))
    write_images(tmp_path / "photos", per_class=10)
    audit(tmp_path / "photos", Recipe(epochs=2), folder=tmp_path / "images")
    export_sample(SavedAudit.open(tmp_path / "images"), tmp_path / "images.csv", 10)
    for row in rows_of(tmp_path / "images.csv"):
        assert (tmp_path / row["image"]).exists()


def test_data_in_memory_are_checked_by_their_ids(tmp_path):
    x, y = blobs(60)
    found = audit((x, y), probabilities=0.9 * np.eye(3)[y] + 0.1 / 3, folder=tmp_path / "audit")
    export_sample(SavedAudit.open(tmp_path / "audit"), tmp_path / "to-check.csv", 20)
    rows = rows_of(tmp_path / "to-check.csv")
    assert list(rows[0]) == ["id", "given_label", "checked_label"]
    answer(tmp_path / "to-check.csv", {row["id"]: row["given_label"] for row in rows})
    assert found.with_reviewed(tmp_path / "to-check.csv").measured.low == 0


def test_ids_and_classes_are_read_as_they_are_written(tmp_path):
    path = tmp_path / "checked.csv"
    path.write_text('id,checked_label\n007,NA\n08, b \n9,\n10,"a\nb"\n')
    assert read_answers(path) == {"007": "NA", "08": "b", "10": "a\nb"}
    table = pa.table({"id": [1, 2], "checked_label": ["a", None]})
    pq.write_table(table, tmp_path / "checked.parquet")
    assert read_answers(tmp_path / "checked.parquet") == {"1": "a"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,label\n1,a\n", "must have the columns id and checked_label, got .* with id, label"),
        ("id,checked_label\n1,0\n1,1\n", "one checked_label for each id, got '0' and '1' for '1'"),
        ("id,checked_label\n1,0\nx,0\n", "must name samples that were audited, got 1 other id: x"),
        ("id,checked_label\n1,9\n", "checked_label must be one of the classes 0, 1, 2, got 9"),
        ("", "must be a CSV or Parquet file"),
    ],
)
def test_answers_that_cannot_be_are_refused_in_a_line(found, tmp_path, capsys, text, words):
    path = tmp_path / "checked.csv"
    path.write_text(text)
    before = (found.folder / "summary.json").read_bytes()
    with pytest.raises(SystemExit) as exit_:
        main(["audit", "--resume", str(found.folder), "--reviewed", str(path)])
    assert exit_.value.code == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    with pytest.raises(AbstainError, match=words):
        found.with_reviewed(path)
    assert (found.folder / "summary.json").read_bytes() == before
    assert kept_answers(found.folder) == {}


@pytest.mark.parametrize("size", [0, 151])
def test_a_size_beyond_the_labels_is_refused(found, tmp_path, size):
    with pytest.raises(AbstainError, match=r"size must lie in \[1, 150\] .all labels., got"):
        export_sample(SavedAudit.open(found.folder), tmp_path / "to-check.csv", size)


def test_a_sample_is_never_written_over_a_file_of_the_audit(found):
    with pytest.raises(AbstainError, match="no file of the source or of the audit"):
        export_sample(SavedAudit.open(found.folder), found.folder / "issues.csv", 10)
