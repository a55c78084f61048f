"""`abstain export`: what it prints, writes, and answers to wrong words."""

import json
import re

import numpy as np
import pytest

from audits import blobs
from commands import error_of, run

pytestmark = pytest.mark.usefixtures("here")

SHORT = ["blobs.npz", "--epochs", 6, "--flip", 0.2, "--out", "audit"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """An audit, a training and one that has just begun, side by side; only to be read."""
    place = tmp_path_factory.mktemp("shared")
    x, y = blobs(60)
    np.savez(place / "blobs.npz", x=x, y=y)
    source = place / "blobs.npz"
    run("audit", source, "--epochs", 2, "--out", place / "audit")
    run("train", source, "--epochs", 1, "--out", place / "run")
    (place / "begun").mkdir()
    (place / "begun" / "run.json").write_text("{}")
    return place


def test_exports_are_written_and_trained_on(here):
    run("audit", *SHORT)
    assert run("export", "audit", "--to", "csv").startswith("audit-csv.csv: 120 rows")
    queue = json.loads(
        run("export", "audit", "--to", "parquet", "--flagged", "--out", "q.parquet", "--json")
    )
    assert 0 < queue["rows"] < 120
    output = run("export", "audit", "--to", "label-studio", "--out", "tasks.json")
    assert "labelling interface tasks.xml" in output
    cleaned = run("export", "audit", "--to", "cleaned")
    assert re.match(r"audit-cleaned.npz: 120 rows, \d+ relabelled(, \d+ .*)?\n", cleaned)
    how = ["--to", "cleaned", "--min-confidence", 1, "--out", "sure.npz"]
    left = rf"sure.npz: 120 rows, {queue['rows']} flagged but left as given: confidence below 1 "
    assert re.match(left, run("export", "audit", *how))
    assert json.loads(run("export", "audit", *how, "--json"))["unsure"] == queue["rows"]
    spared = run("export", "audit", *how, "--unsure", "drop")
    assert f"sure.npz: {120 - queue['rows']} rows, {queue['rows']} dropped\n" in spared
    assert "Train on it: abstain train audit-cleaned.npz\n" in cleaned
    weighted = run("export", "audit", "--to", "cleaned", "--fix", "weight", "--out", "w.npz")
    assert "abstain train w.npz --weights weight" in weighted
    run("train", "w.npz", "--weights", "weight", "--epochs", 2, "--out", "one")
    run("train", "blobs.npz", "--weights", "audit/weights.parquet", "--epochs", 2, "--out", "two")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("nowhere --to csv", "audit must be the folder of an audit, got nowhere"),
        ("run --to csv", "which is that of a training"),
        ("begun --to csv", "has no verdict yet; go on with: abstain audit --resume begun"),
        (
            "audit --to xml",
            "to must be one of csv, parquet, label-studio, cleaned, corrected, got 'xml'",
        ),
        ("audit --to csv --fix drop", "--fix is not for csv; use it with --to cleaned"),
        ("audit --to csv --url x", "--url is not for csv; use it with --to label-studio"),
        ("audit --to cleaned --flagged", "not for cleaned"),
        ("audit --to cleaned --fix correct", "fix must be one of drop, relabel, weight, reviewed"),
        (
            "audit --to cleaned --fix drop --min-confidence 0.5",
            "is not for drop; use it with",
        ),
        (
            "audit --to cleaned --fix drop --unsure drop",
            "--unsure is not for drop; use it",
        ),
        ("audit --to csv --copies", "--copies is not for csv; use it with --to corrected"),
        ("audit --to corrected --flagged", "not for corrected"),
        ("audit --to corrected", "must have been reviewed, got no decisions"),
        ("audit --to cleaned --min-confidence 3", "--min-confidence must lie in [0, 1]"),
        ("audit --to csv --out x.parquet", "out must end in .csv, got x.parquet"),
        ("audit --to cleaned --out x.xlsx", "out must end in .csv or .parquet"),
        ("audit --to csv --out no/x.csv", "a folder that exists"),
        ("audit", "--to"),
    ],
)
def test_a_wrong_export_is_one_line(shared, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(shared)
    before = sorted(shared.iterdir())
    assert message in error_of(capsys, "export", *arguments.split())
    assert sorted(shared.iterdir()) == before


def test_a_file_that_nobody_named_is_not_written_over(here, capsys):
    run("audit", "blobs.npz", "--epochs", 2, "--out", "audit")
    (here / "audit-csv.csv").write_text("mine")
    assert "audit-csv.csv exists already; name another file by --out" in error_of(
        capsys, "export", "audit", "--to", "csv"
    )
    assert (here / "audit-csv.csv").read_text() == "mine"
