"""`abstain sample`: labels to check, and the rate that the answers measure."""

import json

import pytest

from abstain.auditing.folder import AuditFolder
from abstain.cli import main
from abstain.exporting.to_check import export_sample

from audits import answer, audited_blobs, rows_of, truth_of
from commands import error_of, run


@pytest.fixture
def found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return audited_blobs(tmp_path)


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
    export_sample(AuditFolder.open(found.folder), larger, 120)
    assert [row["id"] for row in rows_of(larger)[:80]] == [row["id"] for row in rows_of(to_check)]
    assert sum(row["checked_label"] != "" for row in rows_of(larger)) == 80


def test_a_new_file_is_named_after_the_audit_and_never_replaced(found, capsys):
    assert "audit-to-check.csv: 200 labels" not in error_of(capsys, "sample", "audit")  # of 150
    assert json.loads(run("sample", "audit", "--size", 5, "--json")) == {
        "file": "audit-to-check.csv",
        "rows": 5,
    }
    error = error_of(capsys, "sample", "audit", "--size", 5)
    assert "audit-to-check.csv exists already; name another file by --out" in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("nowhere", "audit must be the folder of an audit, got nowhere"),
        ("audit --size 0", "--size must lie in [1, 150] (all labels), got 0"),
        ("audit --size 5 --out x.txt", "--out must end in .csv or .parquet, got x.txt"),
        ("audit --size 5 --out audit/issues.csv", "--out must be no file of the source or of the"),
    ],
)
def test_a_wrong_sample_is_one_line_with_its_option(found, capsys, arguments, message):
    assert message in error_of(capsys, "sample", *arguments.split())
