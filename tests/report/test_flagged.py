"""The labels themselves: worst first, and those of identical samples."""

from dataclasses import replace

import numpy as np
import pytest

from abstain import Recipe
from abstain.auditing.audit import audit
from abstain.report import render
from abstain.report.flagged import duplicates, worst_labels

from audits import blobs, hostile_data, write_texts


def test_the_flagged_labels_are_shown_worst_first(digits):
    shown = worst_labels(digits)
    cards = shown.at_once + shown.on_request
    flagged = [k for k in digits.order.tolist() if digits.verdict.is_label_issue[k]]
    assert [card.index for card in cards] == flagged[: len(cards)]
    assert shown.left_out == len(flagged) - len(cards)
    assert all(card.is_planted == digits.planted[card.index] for card in cards)
    assert all(card.given == digits.given[card.index] for card in cards)


def test_where_none_is_flagged_the_least_believed_are_shown():
    x, y = blobs(300)
    found = audit((x, y), probabilities=0.98 * np.eye(3)[y] + 0.02 / 3)
    shown = worst_labels(found)
    assert found.flagged == 0
    assert len(shown.at_once + shown.on_request) == 12
    assert "None was flagged" in render(found)


@pytest.mark.parametrize(("kind", "folder"), [("table", "2024/"), ("image", "")])
def test_only_of_files_the_folder_is_left_out(kind, folder):
    data = hostile_data(kind)
    named = replace(data, ids=[f"2024/{k}" for k in range(len(data))])
    found = audit(named, Recipe(epochs=1, flip=0.4))
    worst = found.order[0]
    assert f'title="2024/{worst}">{folder}{worst}</bdi>' in render(found)


def test_texts_and_their_duplicates_are_shown(tmp_path):
    path = write_texts(tmp_path / "texts.csv", count=60)
    lines = path.read_text(encoding="utf-8").splitlines()
    label, _, rest = lines[-1].partition(",")
    other = {"good": "bad", "bad": "good"}[label]
    path.write_text("\n".join([*lines, f"{other},{rest}"]) + "\n", encoding="utf-8")
    found = audit(path, Recipe(epochs=3, warm_up=1), label="stars", features="text")
    (group,) = duplicates(found)
    assert group.members == [59, 60]
    text = render(found)
    assert "1 group of identical samples" in text
    assert rest.split(",")[0] in text
