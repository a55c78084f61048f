"""Corrected labels out of the page: tables, folders, Label Studio and back, cleaned sets."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from abstain.auditing.folder import AuditFolder
from abstain.cli import main
from abstain.data import load
from abstain.errors import AbstainError
from abstain.exporting.label_studio import export_label_studio, read_label_studio
from abstain.review.decisions import Answer
from abstain.review.export import export_corrected
from abstain.review.sharing import share_decisions
from abstain.review.store import FILE, Store

from audits import rows_of


def decide(folder, **answers):
    """Decide by id: `drop`, `unsure` or a class."""
    decisions = {
        id_: Answer(x) if x in ("drop", "unsure") else Answer("label", x)
        for id_, x in answers.items()
    }
    with Store(folder / FILE) as store:
        name = f"r{store.decisions.last}"
        store.decide(decisions, who="ann", mode="fix", request=name, note="seen")


PHOTOS = {
    "dark/0.png": "light",
    "dark/1.png": "dark",
    "dark/2.png": "drop",
    "light/3.png": "unsure",
}


@pytest.fixture
def reviewed(photos):
    decide(photos, **PHOTOS)
    return AuditFolder.open(photos)


def test_a_table_has_all_rows_and_what_became_of_them(reviewed, tmp_path):
    done = export_corrected(reviewed, tmp_path / "out.csv")
    assert (done.rows, done.relabelled, done.dropped) == (60, 1, 1)
    by_id = {row["id"]: row for row in rows_of(tmp_path / "out.csv")}
    found = {id_: (by_id[id_]["corrected_label"], by_id[id_]["decision"]) for id_ in PHOTOS}
    assert found == {
        "dark/0.png": ("light", "changed"),
        "dark/1.png": ("dark", "kept"),
        "dark/2.png": ("", "drop"),
        "light/3.png": ("light", "unsure"),
    }
    assert by_id["dark/5.png"]["decision"] == ""
    assert by_id["dark/5.png"]["corrected_label"] == by_id["dark/5.png"]["given_label"] == "dark"
    assert by_id["dark/0.png"]["note"] == "seen"
    assert (tmp_path / by_id["dark/0.png"]["image"]).resolve().exists()
    log = rows_of(tmp_path / "out-log.csv")
    assert [(x["who"], x["id"], x["after_label"], x["holds"]) for x in log][:1] == [
        ("ann", "dark/0.png", "light", "true")
    ]


def test_the_file_of_the_source_keeps_its_columns_and_gets_a_new_one(texts, tmp_path):
    decide(texts, **{"0": "bad", "1": "bad"})
    saved = AuditFolder.open(texts)
    export_corrected(saved, tmp_path / "out.parquet")
    table = pq.read_table(tmp_path / "out.parquet").to_pydict()
    assert list(table)[:3] == ["stars", "text", "place"]
    source = rows_of(Path(saved.summary["sources"]["train"]))
    assert table["text"] == [row["text"] for row in source]
    assert table["corrected_label"][:2] == ["bad", "bad"]
    assert table["decided_by"][:3] == ["ann", "ann", None]


@pytest.mark.parametrize("copies", [False, True])
def test_an_image_folder_is_one_to_train_on(reviewed, tmp_path, copies):
    done = export_corrected(reviewed, tmp_path / "out", copies=copies)
    assert done.rows == 59
    data = load(tmp_path / "out")
    assert len(data) == 59
    moved = tmp_path / "out" / "light" / "dark-0.png"
    assert moved.exists()
    assert (moved.stat().st_nlink > 1) == (not copies)
    assert not moved.is_symlink()
    assert not (tmp_path / "out" / "dark" / "2.png").exists()


@pytest.mark.parametrize("copies", [False, True])
def test_a_link_out_of_the_folder_is_not_followed(made, reviewed, tmp_path, copies):
    secret, link = tmp_path / "secret", made / "photos" / "light" / "7.png"
    content = link.read_bytes()
    secret.write_bytes(content)
    link.unlink()
    link.symlink_to(secret)
    try:
        with pytest.raises(
            AbstainError, match=r"links out of .* are not followed, got light/7\.png"
        ):
            export_corrected(reviewed, tmp_path / "out", copies=copies)
    finally:
        link.unlink()
        link.write_bytes(content)
    assert not (tmp_path / "out").exists()


def test_a_class_that_leads_elsewhere_makes_no_folder(photos, tmp_path):
    decide(photos, **{"dark/0.png": "light"})
    summary = json.loads((photos / "summary.json").read_text())
    summary["classes"] = ["../../evil", "light"]
    (photos / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(AbstainError, match="a name that a folder can have"):
        export_corrected(AuditFolder.open(photos), tmp_path / "out")
    assert not (tmp_path.parent / "evil").exists()


def test_what_was_not_reviewed_has_nothing_to_export(photos, tmp_path):
    with pytest.raises(AbstainError, match="must have been reviewed"):
        export_corrected(AuditFolder.open(photos), tmp_path / "out.csv")


def test_label_studio_gets_decisions_as_annotations_and_gives_them_back(reviewed, tmp_path):
    share_decisions(reviewed.folder)
    export_label_studio(reviewed, tmp_path / "tasks.json", flagged=False)
    assert read_label_studio(tmp_path / "tasks.json") == {
        "dark/0.png": "light",
        "dark/1.png": "dark",
    }
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    tasks[0]["annotations"] = [{"result": [{**tasks[0]["predictions"][0]["result"][0]}]}]
    (tmp_path / "back.json").write_text(json.dumps(tasks))
    assert run("audit", "--resume", reviewed.folder, "--reviewed", tmp_path / "back.json") == 0
    assert len(AuditFolder(reviewed.folder).answers().labels) in (2, 3)
    (tmp_path / "empty.json").write_text("[]")
    with pytest.raises(AbstainError, match="must hold annotations"):
        read_label_studio(tmp_path / "empty.json")
    (tmp_path / "odd.json").write_text('[{"annotations": 5}]')
    with pytest.raises(AbstainError, match="as Label Studio exports them"):
        read_label_studio(tmp_path / "odd.json")
    for text, words in (
        ('{"a": 1}', "odd.json: it holds no list of tasks"),
        ('[{"annotations": [{}]}]', "odd.json: a task or an annotation lacks 'result'"),
        ('[{"annotations": 5}]', "odd.json: its tasks have another form"),
    ):
        (tmp_path / "odd.json").write_text(text)
        with pytest.raises(AbstainError, match=f"{words}$"):
            read_label_studio(tmp_path / "odd.json")


def run(*words):
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    return end.value.code


def test_export_and_audit_know_what_the_page_decided(reviewed, tmp_path, capsys):
    clean = tmp_path / "clean.csv"
    words = ("--to", "cleaned", "--fix", "reviewed", "--out", clean)
    assert run("export", reviewed.folder, *words) == 0
    labels = {row["id"]: row["label"] for row in rows_of(clean)}
    assert len(labels) == 59
    assert labels["dark/0.png"] == "light"
    assert labels["dark/5.png"] == "dark"
    assert run("export", reviewed.folder, "--to", "csv", "--out", tmp_path / "all.csv") == 0
    checked = {row["id"]: row["checked_label"] for row in rows_of(tmp_path / "all.csv")}
    assert checked["dark/0.png"] == "light"
    assert run("export", reviewed.folder, "--to", "corrected", "--out", tmp_path / "folder") == 0
    assert "1 corrected, 1 dropped" in capsys.readouterr().out
    assert run("audit", "--resume", reviewed.folder, "--json") == 0
    assert json.loads(capsys.readouterr().out)["reviewed"] == 2


def test_ids_that_look_like_formulas_come_back_as_they_were(tmp_path):
    import torch

    from abstain.auditing.answers import Answer, checked_answers
    from abstain.data import LabeledData

    data = LabeledData(
        inputs=torch.zeros(2, 1), given=torch.tensor([0, 1]), classes=("=a", "b"), kind="table",
        ids=("=1+1", "-2"),
    )  # fmt: skip
    found = checked_answers({"'=1+1": "'=a", "-2": "b"}, data.ids, data.classes)
    assert found == {"=1+1": Answer("label", "=a"), "-2": Answer("label", "b")}


def test_cells_of_a_sample_to_check_are_no_formulas(tmp_path):
    """`abstain sample`, `abstain export --to csv` and issues.csv are opened in spreadsheets."""
    from audits import saved, write_texts

    path = write_texts(tmp_path / "reviews.csv")
    rows = rows_of(path)
    rows[3]["text"] = "=SUM(A1:A9) dull grim"
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    audit = saved(path, tmp_path / "audit", label="stars", features="text")
    words = ("--size", 160, "--out", tmp_path / "check.csv")
    assert run("sample", audit.folder, *words) == 0
    texts = [row["text"] for row in rows_of(tmp_path / "check.csv")]
    assert "'=SUM(A1:A9) dull grim" in texts
    assert not any(text.startswith("=") for text in texts)


def test_the_command_says_what_is_wrong_in_a_line(photos, capsys):
    for words, message in (
        (("--host", "0.0.0.0"), "--host must be 127.0.0.1 where no token guards the page"),
        (("--token", "short"), "--token must have at least 8 characters"),
        (("--port", "0"), "--port must lie in [1, 65535]"),
    ):
        assert run("review", photos, "--no-browser", *words) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
    assert run("review", photos / "nowhere", "--no-browser") == 2


def test_the_package_is_named_where_it_is_missing(photos):
    code = (
        "import sys; sys.modules['starlette'] = None; sys.modules['uvicorn'] = None\n"
        f"from abstain.cli import main; main(['review', {str(photos)!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'abstain[review]'" in done.stderr


def test_images_in_memory_are_written_to_the_form_that_can_hold_them(tmp_path, capsys):
    import numpy as np

    from audits import saved

    y = np.arange(60) % 2
    x = (np.ones((60, 1, 8, 8)) * 100 * (y + 1)[:, None, None, None]).astype(np.uint8)
    np.savez(tmp_path / "data.npz", x=x, y=y)
    audit = saved(tmp_path / "data.npz", tmp_path / "audit")
    decide(audit.folder, **{audit.issues.column("id")[0].as_py(): "0"})
    words = ("export", audit.folder, "--to", "cleaned", "--fix", "reviewed", "--out")
    assert run(*words, tmp_path / "clean.csv") == 2
    assert "clean.npz" in capsys.readouterr().err
    assert run(*words, tmp_path / "clean.npz") == 0
    assert len(load(tmp_path / "clean.npz")) == 60
