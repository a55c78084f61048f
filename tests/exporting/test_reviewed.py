"""Labels as reviewed: what was decided becomes new columns, and nothing else changes.

tests/review/test_export.py does it through the log of a review.
"""

import pytest

from abstain.auditing.answers import Answer
from abstain.errors import AbstainError
from abstain.exporting.reviewed import CORRECTED, Decided, export_reviewed

from audits import rows_of


def test_a_decision_is_four_columns_and_nothing_else_changes(texts, tmp_path):
    found, path = texts
    given = {row["id"]: row["given_label"] for row in found.issues.to_pylist()}
    other = {"good": "bad", "bad": "good"}
    decided = {
        "0": Decided(Answer("label", given["0"]), "ann", ""),
        "1": Decided(Answer("label", other[given["1"]]), "bob", "=1+1"),
        "2": Decided(Answer("drop"), "ann", ""),
        "3": Decided(Answer("unsure"), None, ""),
        "nobody's": Decided(Answer("drop"), "ann", ""),
    }
    done = export_reviewed(found, tmp_path / "out.csv", decided, copies=False)
    assert (done.rows, done.relabelled, done.dropped) == (len(given), 1, 1)
    rows, before = rows_of(done.path), rows_of(path)
    assert [row["text"] for row in rows] == [row["text"] for row in before]
    assert {str(k): row["stars"] for k, row in enumerate(rows)} == given
    words = ["kept", "changed", "drop", "unsure", ""]
    assert [row["decision"] for row in rows[:5]] == words
    assert [row["decided_by"] for row in rows[:5]] == ["ann", "bob", "ann", "", ""]
    assert [row["note"] for row in rows[:2]] == ["", "'=1+1"]
    corrected = [row[CORRECTED] for row in rows[:4]]
    assert corrected == [given["0"], other[given["1"]], "", given["3"]]


def test_what_is_no_image_folder_makes_none(texts, tmp_path):
    with pytest.raises(AbstainError, match="for what is no image folder"):
        export_reviewed(texts[0], tmp_path / "folder", {}, copies=False)
