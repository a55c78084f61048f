"""Tests of cli/compare.py; what it shows is tested in tests/review/test_before_after.py."""

import json
import shutil

import pytest

from abstain.cli import main

from audits import saved, write_texts


def run(*words):
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    return end.value.code


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    place = tmp_path_factory.mktemp("texts")
    path = write_texts(place / "reviews.csv")
    return saved(path, place / "audit", label="stars", features="text").folder


def test_a_file_of_answers_is_enough(texts, tmp_path, capsys, monkeypatch):
    """Without the page: answers in a file, the corrected set audited, both compared."""
    monkeypatch.chdir(tmp_path)
    before = shutil.copytree(texts, tmp_path / "before")
    (tmp_path / "checked.csv").write_text("id,checked_label\n3,good\n5,bad\n")
    assert run("audit", "--resume", before, "--reviewed", "checked.csv") == 0
    words = ("--to", "cleaned", "--fix", "reviewed", "--out", "clean.csv")
    assert run("export", before, *words) == 0
    assert "then: abstain compare" in capsys.readouterr().out
    assert run("audit", "clean.csv", "--label", "stars", "--out", "after") == 0
    capsys.readouterr()
    assert run("compare", before, "after") == 0
    shown = capsys.readouterr().out
    assert "noise rate, by the decisions" in shown
    assert "Page: after/before-after.html" in shown
    assert not (before / "review.sqlite").exists()
    assert run("compare", before, "after", "--out", "own.html", "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["file"] == "own.html"
    assert (tmp_path / "own.html").read_text().startswith("<!doctype html>")
    assert sum(figures["decided"].values()) == 2


def test_what_cannot_be_compared_is_one_line(texts, tmp_path, capsys):
    for words, message in (
        ((texts, texts), "before must have been reviewed"),
        ((tmp_path, texts), "must be the folder of an audit"),
        ((texts, tmp_path), "must be the folder of an audit"),
    ):
        assert run("compare", *words) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
