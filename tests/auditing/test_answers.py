"""Labels that somebody checked: read, kept, and taken into account."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from abstain.auditing.answers import DROP, UNSURE, Answer, checked_answers, read_answers
from abstain.auditing.audit import audit
from abstain.auditing.folder import AuditFolder
from abstain.cli import main
from abstain.errors import AbstainError
from abstain.exporting.cleaned import export_cleaned
from abstain.exporting.to_check import export_sample

from audits import blobs, rows_of, truth_of


def classes_in(path):
    return {id_: answer.label for id_, answer in read_answers(path).items()}


def test_a_corrected_label_is_certain_and_repaired(found, tmp_path):
    truth = truth_of(found)
    id_ = found.data.ids[int(found.order[0])]
    right = next(x for x in found.data.classes if x != found.issues["given_label"][0].as_py())
    knows = audit(folder=found.folder, resume=True, reviewed={id_: right})
    last = knows.issues.slice(len(found.data) - 1).to_pylist()[0]
    assert (last["id"], last["label_score"], last["confidence"]) == (id_, 0.0, 1.0)
    assert last["predicted_label"] == last["checked_label"] == right
    assert not last["is_label_issue"]  # nobody need look at it again
    assert AuditFolder(found.folder).answers().labels == {id_: right}
    for fix in ("relabel", "drop", "weight"):
        target = tmp_path / f"{fix}.npz"
        export_cleaned(AuditFolder.open(found.folder), target, fix)
        with np.load(target) as clean:
            place = clean["ids"].tolist().index(id_)
            assert clean["classes"][clean["y"][place]] == right
            assert fix != "weight" or clean["weight"][place] == 1
    # It is remembered, and more is added to it.
    other = found.data.ids[int(found.order[-1])]
    again = audit(folder=found.folder, resume=True, reviewed={other: truth[other]})
    assert again.reviewed == {id_: right, other: truth[other]}


@pytest.mark.parametrize("name", ["sample.parquet", "reviewed.parquet"])
def test_a_damaged_file_is_named_and_its_place_never_written_to(found, tmp_path, name):
    with pytest.raises(AbstainError, match="no file of the source or of the audit"):
        export_sample(AuditFolder.open(found.folder), found.folder / name, 5)
    (found.folder / name).write_bytes(b"junk")
    with pytest.raises(AbstainError, match=f"{name} must be as abstain wrote it"):
        audit(folder=found.folder, resume=True)
    pq.write_table(pa.table({"id": ["1"], "stratum": [0]}), found.folder / name)
    with pytest.raises(AbstainError, match=f"{name} must be as abstain wrote it"):
        audit(folder=found.folder, resume=True)


def test_spreadsheets_write_as_their_country_does(tmp_path):
    path = tmp_path / "checked.csv"
    path.write_text("\ufeffid;checked_label\n1;a\n 2 ;b\n", encoding="utf-8")
    assert classes_in(path) == {"1": "a", " 2 ": "b"}


def test_a_whole_number_in_a_column_with_gaps_is_its_class(found):
    assert found.with_reviewed({"1": "2.0"}).reviewed == {"1": "2"}
    assert found.with_reviewed({"1": "2.0"}).verdict.reviewed[1] == 2


def test_ids_that_differ_by_spaces_are_different_ids():
    x, y = blobs(60)
    frame = pd.DataFrame(x, columns=list("abcd"), index=[f" {k} " for k in range(60)])
    frame["label"] = y
    found = audit(frame, probabilities=0.9 * np.eye(3)[y] + 0.1 / 3)
    assert found.with_reviewed({" 7 ": "1"}).reviewed == {" 7 ": "1"}


def test_a_class_in_other_letters_is_answered_by_the_nearest_one():
    with pytest.raises(AbstainError, match="got Games; did you mean games"):
        checked_answers({"1": "Games"}, ["1"], ["games", "mail"])
    named = checked_answers({"1": " mail", "2": " mail "}, ["1", "2"], ["mail", " mail"])
    assert [x.label for x in named.values()] == [" mail", "mail"]


def test_ids_and_classes_are_read_as_they_are_written(tmp_path):
    path = tmp_path / "checked.csv"
    path.write_text('id,checked_label\n007,NA\n08, b \n9,\n10,"a\nb"\n')
    assert classes_in(path) == {"007": "NA", "08": "b", "10": "a\nb"}
    table = pa.table({"id": [1, 2], "checked_label": ["a", None]})
    pq.write_table(table, tmp_path / "checked.parquet")
    assert classes_in(tmp_path / "checked.parquet") == {"1": "a"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,label\n1,a\n", "must have one column id and one checked_label, got .* id, label"),
        ("id,checked_label,checked_label\n1,0,1\n", "must have one column id and one"),
        ("id,checked_label\n1,\n", "must hold answers in checked_label, got none"),
        ("id,checked_label\n1,0\n1,1\n", "one checked_label for each id, got '0' and '1' for '1'"),
        ("id,checked_label\n1,0\nx,0\n", "must name samples that were audited, got 1 other id: x"),
        ("id,checked_label\n1,9\n", "checked_label must be one of the classes 0, 1, 2, got 9"),
        ("", "must be a CSV or Parquet file"),
        ('id,checked_label\n1,0\n2,"1\n3,1\n', "the quotation mark in line 3 is never closed"),
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
    assert AuditFolder(found.folder).answers().labels == {}


def test_unsure_and_drop_have_a_column_of_their_own(tmp_path):
    path = tmp_path / "checked.csv"
    path.write_text("id,checked_label,unsure_or_drop\n1,drop,\n2,,drop\n3,, Unsure\n4,,\n5,b,\n")
    assert read_answers(path) == {
        "1": Answer("label", "drop"),  # a class may be called so
        "2": DROP,
        "3": UNSURE,
        "5": Answer("label", "b"),
    }


def test_unsure_and_dropped_go_through_the_folder_the_tables_and_python(found, tmp_path):
    truth, ids = truth_of(found), found.data.ids
    worst = [ids[k] for k in found.order[:4].tolist()]
    path = tmp_path / "checked.csv"
    path.write_text(
        f"id,checked_label,unsure_or_drop\n{worst[0]},{truth[worst[0]]},\n{worst[1]},,unsure\n"
        f"{worst[2]},,drop\n"
    )
    by_file = audit(folder=found.folder, resume=True, reviewed=path)
    in_python = found.with_reviewed({worst[0]: truth[worst[0]], worst[1]: UNSURE, worst[2]: DROP})
    assert by_file.findings.as_json() == in_python.findings.as_json()
    assert by_file.reviewed == {worst[0]: truth[worst[0]]}
    assert AuditFolder(found.folder).answers() == by_file.answers
    said = {x["id"]: x for x in pq.read_table(found.folder / "issues.parquet").to_pylist()}
    columns = [(said[x]["checked_label"], said[x]["unsure_or_drop"]) for x in worst]
    assert columns == [(truth[worst[0]], None), (None, "unsure"), (None, "drop"), (None, None)]
    assert [said[x]["is_label_issue"] for x in worst] == [False, False, False, True]
    weights = AuditFolder.open(found.folder).weights.to_pylist()
    weight = {x["id"]: x["weight"] for x in weights}
    assert [weight[x] for x in worst[:3:2]] == [weight[worst[0]], 0]
    assert 0 < weight[worst[1]] < 1
    for fix in ("reviewed", "relabel", "weight"):
        export_cleaned(AuditFolder.open(found.folder), tmp_path / f"{fix}.npz", fix)
        with np.load(tmp_path / f"{fix}.npz") as clean:
            assert set(ids) - set(clean["ids"].tolist()) == {worst[2]}
    # A class takes the place of what was unsure; the sample to check has what is known.
    export_sample(AuditFolder.open(found.folder), tmp_path / "to-check.csv", 150)
    filled = {
        x["id"]: (x["checked_label"], x["unsure_or_drop"])
        for x in rows_of(tmp_path / "to-check.csv")
    }
    assert [filled[x] for x in worst[1:3]] == [("", "unsure"), ("", "drop")]
    later = audit(folder=found.folder, resume=True, reviewed={worst[1]: truth[worst[1]]})
    assert (later.findings.unsure, later.findings.reviewed) == (0, 2)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("1,,perhaps", "unsure_or_drop must be empty, unsure or drop, got 'perhaps' for '1'"),
        ("1,0,drop", "must have a checked_label or unsure_or_drop for each id, got '0' and 'drop'"),
        ("1,,drop\n1,0,", "must have one checked_label for each id, got 'drop' and '0' for '1'"),
        ("1,drop,", "one of the classes 0, 1, 2, got drop; unsure and drop go into the column"),
    ],
)
def test_other_words_in_place_of_a_class_are_refused(found, tmp_path, row, words):
    path = tmp_path / "checked.csv"
    path.write_text(f"id,checked_label,unsure_or_drop\n{row}\n")
    with pytest.raises(AbstainError, match=words):
        found.with_reviewed(path)
