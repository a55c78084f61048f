"""Labels that somebody checked: read, kept, drawn at random, and counted."""

import csv
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from abstain import Recipe
from abstain.auditing.audit import audit
from abstain.auditing.reviewed import hand_out, kept_answers, kept_sample, read_answers
from abstain.auditing.saved import SavedAudit
from abstain.cli import main
from abstain.errors import AbstainError
from abstain.report.export import export_cleaned
from abstain.report.to_check import export_sample
from abstain.scores.sampling import Sample, draw

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


def test_reviews_chosen_by_hand_do_not_pass_for_a_random_sample(found, tmp_path):
    truth = truth_of(found)
    export_sample(SavedAudit.open(found.folder), tmp_path / "to-check.csv", 60)  # never answered
    worst = [found.data.ids[k] for k in found.order[:40].tolist()]
    knows = found.with_reviewed({id_: truth[id_] for id_ in worst[:20]})
    assert knows.measured is None
    assert "checked so far: 0" in knows.caution
    assert knows.confidence == 0.9
    assert knows.summary()["reviewed"] == 20
    basis = "estimated from the labels, 20 of them reviewed"
    assert knows.summary()["left_wrong"]["basis"] == basis
    # Nor once the sample is answered in part: beyond the last answer they are no part of it.
    drawn = [row["id"] for row in rows_of(tmp_path / "to-check.csv")]
    both = knows.with_reviewed({id_: truth[id_] for id_ in worst})
    both = both.with_reviewed({id_: truth[id_] for id_ in drawn[:35]})
    assert both.checked == 35
    assert both.measured.low <= found.detection.rate <= both.measured.high
    # Together in one table, nobody knows for which reason a label was chosen.
    mixed = found.with_reviewed({id_: truth[id_] for id_ in {*worst, *drawn}})
    assert mixed.measured is None
    assert found.verdict.is_reviewed.sum() == 0  # a new verdict; the old one stays
    assert knows.left_wrong.high <= len(found.data) - 20


def test_a_corrected_label_is_certain_and_repaired(found, tmp_path):
    truth = truth_of(found)
    id_ = found.data.ids[int(found.order[0])]
    right = next(x for x in found.data.classes if x != found.issues["given_label"][0].as_py())
    knows = audit(folder=found.folder, resume=True, reviewed={id_: right})
    last = knows.issues.slice(len(found.data) - 1).to_pylist()[0]
    assert (last["id"], last["label_score"], last["confidence"]) == (id_, 0.0, 1.0)
    assert last["predicted_label"] == last["checked_label"] == right
    assert not last["is_label_issue"]  # nobody need look at it again
    assert kept_answers(found.folder).answers == {id_: right}
    for fix in ("relabel", "drop", "weight"):
        target = tmp_path / f"{fix}.npz"
        export_cleaned(SavedAudit.open(found.folder), target, fix)
        with np.load(target) as clean:
            place = clean["ids"].tolist().index(id_)
            assert clean["classes"][clean["y"][place]] == right
            assert fix != "weight" or clean["weight"][place] == 1
    # It is remembered, and more is added to it.
    other = found.data.ids[int(found.order[-1])]
    again = audit(folder=found.folder, resume=True, reviewed={other: truth[other]})
    assert again.reviewed == {id_: right, other: truth[other]}


def test_all_labels_checked_is_the_truth(found):
    ids = pa.array(list(found.data.ids))
    sample = hand_out(found.folder, ids, found.verdict.wrong_probability, 150)
    knows = found.with_reviewed(truth_of(found), sample=sample)
    rate = knows.noise_rate
    assert rate.low == rate.high == pytest.approx(found.detection.rate)
    assert knows.left_wrong.high == 0
    by_hand = found.with_reviewed(truth_of(found))
    assert (by_hand.basis, by_hand.caution) == ("known: every label was reviewed", None)
    assert by_hand.noise_rate == rate


def test_a_few_answers_do_not_take_the_place_of_the_estimate(found, tmp_path):
    export_sample(SavedAudit.open(found.folder), tmp_path / "to-check.csv", 60)
    answer(tmp_path / "to-check.csv", truth_of(found), 29)
    few = found.with_reviewed(tmp_path / "to-check.csv")
    assert few.measured is None
    assert "A sample of 60 labels was drawn; checked so far: 29" in few.caution
    answer(tmp_path / "to-check.csv", truth_of(found), 30)
    assert found.with_reviewed(tmp_path / "to-check.csv").checked == 30


def test_measured_intervals_cover_also_beside_worst_first_reviews():
    """On a population of 3,000: 100 labels of a sample, and the 300 worst reviewed before."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, 2, 3000)
    wrong = rng.random(3000) < 0.15
    given = np.where(wrong, 1 - true, true)
    p = np.clip(0.7 * np.eye(2)[true] + 0.15 + 0.3 * rng.normal(size=(3000, 1)) * [1, -1], 0.01, 1)
    found = audit((rng.normal(size=(3000, 1)), given), probabilities=p / p.sum(1, keepdims=True))
    names = np.array(found.data.classes)[true]
    worst = {str(k): names[k] for k in found.order[:300].tolist()}
    knows, covered = found.with_reviewed(worst), []
    for seed in range(60):
        sample = draw(found.verdict.wrong_probability, 150, np.random.default_rng(seed))
        rows = sample.rows[:100].tolist()  # the last fifty are never looked at
        first = Sample(rows=sample.rows[:100], stratum=sample.stratum[:100], sizes=sample.sizes)
        checked = knows.with_reviewed({str(k): names[k] for k in rows}, sample=first)
        assert checked.checked == 100
        covered.append(wrong.mean() in checked.measured)
    assert np.mean(covered) > 0.9


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
    assert found.with_reviewed(tmp_path / "to-check.csv").checked == 20


def test_answers_are_not_written_over(found, tmp_path):
    saved, path = SavedAudit.open(found.folder), tmp_path / "to-check.csv"
    export_sample(saved, path, 5)
    answer(path, truth_of(found), 2)
    with pytest.raises(AbstainError, match=r"must not write over answers, got .* with 2 answers"):
        export_sample(saved, path, 10)
    audit(folder=found.folder, resume=True, reviewed=path)
    export_sample(saved, path, 10)
    assert [row["checked_label"] != "" for row in rows_of(path)] == [True] * 2 + [False] * 8
    path.write_bytes("id,checked_label\n1,spam é\n".encode("latin-1"))
    with pytest.raises(AbstainError, match="save it as UTF-8"):
        export_sample(saved, path, 10)


@pytest.mark.parametrize("name", ["sample.parquet", "reviewed.parquet"])
def test_a_damaged_file_is_named_and_its_place_never_written_to(found, tmp_path, name):
    with pytest.raises(AbstainError, match="no file of the source or of the audit"):
        export_sample(SavedAudit.open(found.folder), found.folder / name, 5)
    (found.folder / name).write_bytes(b"junk")
    with pytest.raises(AbstainError, match=f"{name} must be as abstain wrote it"):
        audit(folder=found.folder, resume=True)
    pq.write_table(pa.table({"id": ["1"], "stratum": [0]}), found.folder / name)
    with pytest.raises(AbstainError, match=f"{name} must be as abstain wrote it"):
        audit(folder=found.folder, resume=True)


def test_spreadsheets_write_as_their_country_does(tmp_path):
    path = tmp_path / "checked.csv"
    path.write_text("\ufeffid;checked_label\n1;a\n 2 ;b\n", encoding="utf-8")
    assert read_answers(path) == {"1": "a", " 2 ": "b"}


def test_a_whole_number_in_a_column_with_gaps_is_its_class(found):
    assert found.with_reviewed({"1": "2.0"}).reviewed == {"1": "2"}
    assert found.with_reviewed({"1": "2.0"}).verdict.reviewed[1] == 2


def test_answers_that_were_filled_in_for_the_reviewer_are_not_new(found, tmp_path):
    """The worst are reviewed, the sample hands them out filled in, and half of it is answered."""
    truth = truth_of(found)
    worst = [found.data.ids[k] for k in found.order[:50].tolist()]
    knows = found.with_reviewed({id_: truth[id_] for id_ in worst})
    knows.write(found.folder)
    export_sample(SavedAudit.open(found.folder), tmp_path / "to-check.csv", 100)
    answer(tmp_path / "to-check.csv", truth, 40)
    drawn = [row["id"] for row in rows_of(tmp_path / "to-check.csv")]
    assert set(drawn[40:]) & set(worst)  # known, and beyond what anybody went through
    last = max(k for k in range(40) if drawn[k] not in worst)
    assert knows.with_reviewed(tmp_path / "to-check.csv").checked == last + 1


def test_the_worst_of_a_set_that_was_handed_out_whole_are_no_sample(found, tmp_path):
    truth = truth_of(found)
    export_sample(SavedAudit.open(found.folder), tmp_path / "to-check.csv", 150)
    worst = [found.data.ids[k] for k in found.order[:60].tolist()]
    assert found.with_reviewed({id_: truth[id_] for id_ in worst}).measured is None
    one_by_one = found
    for id_ in worst[:40]:
        one_by_one = one_by_one.with_reviewed({id_: truth[id_]})
    assert one_by_one.measured is None


def test_a_sample_that_was_enlarged_meanwhile_counts_whole(found, tmp_path):
    path, truth = tmp_path / "to-check.csv", truth_of(found)
    export_sample(SavedAudit.open(found.folder), path, 40)
    answer(path, truth)
    knows = found.with_reviewed(path)
    export_sample(SavedAudit.open(found.folder), tmp_path / "larger.csv", 90)
    answer(tmp_path / "larger.csv", truth)
    assert (knows.checked, knows.with_reviewed(tmp_path / "larger.csv").checked) == (40, 90)


def test_a_verdict_that_knows_less_does_not_write_over_answers(found):
    truth = truth_of(found)
    found.with_reviewed({"1": truth["1"], "2": truth["2"]}).write(found.folder)
    with pytest.raises(AbstainError, match="with 1 such answer"):
        found.with_reviewed({"1": truth["1"]}).write(found.folder)
    assert kept_answers(found.folder).answers == {"1": truth["1"], "2": truth["2"]}


def test_a_sample_goes_where_its_answers_go(found, tmp_path):
    path = tmp_path / "to-check.csv"
    export_sample(SavedAudit.open(found.folder), path, 40)
    answer(path, truth_of(found))
    knows = found.with_reviewed(path)
    knows.write(tmp_path / "copy")
    assert (
        kept_sample(tmp_path / "copy", found.data.ids).rows.tolist() == knows.sample.rows.tolist()
    )


def test_ids_with_spaces_around_them_are_told_apart():
    x, y = blobs(60)
    frame = pd.DataFrame(x, columns=list("abcd"), index=[f" {k} " for k in range(60)])
    frame["label"] = y
    found = audit(frame, probabilities=0.9 * np.eye(3)[y] + 0.1 / 3)
    assert found.with_reviewed({" 7 ": "1"}).reviewed == {" 7 ": "1"}


def test_a_sample_of_other_data_is_refused(found):
    other = draw(np.full(500, 0.5), 400, np.random.default_rng(0))
    with pytest.raises(AbstainError, match="sample must be of these 150 labels"):
        found.with_reviewed({"1": "1"}, sample=other)


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
        ("id,label\n1,a\n", "must have one column id and one checked_label, got .* id, label"),
        ("id,checked_label,checked_label\n1,0,1\n", "must have one column id and one"),
        ("id,checked_label\n1,\n", "must hold answers in checked_label, got none"),
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
    assert kept_answers(found.folder).answers == {}


@pytest.mark.parametrize("size", [0, 151])
def test_a_size_beyond_the_labels_is_refused(found, tmp_path, size):
    with pytest.raises(AbstainError, match=r"size must lie in \[1, 150\] .all labels., got"):
        export_sample(SavedAudit.open(found.folder), tmp_path / "to-check.csv", size)


def test_a_sample_is_never_written_over_a_file_of_the_audit(found):
    with pytest.raises(AbstainError, match="no file of the source or of the audit"):
        export_sample(SavedAudit.open(found.folder), found.folder / "issues.csv", 10)
