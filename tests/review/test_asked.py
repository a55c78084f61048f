"""Tests of requests: nothing that is sent makes the server fail."""

import json

import pytest

from review_client import decide, upcoming

DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize("who", [["ann"], True, 5, None, {"a": 1}, " ", "x" * 81, "file"])
def test_only_a_text_is_a_name(photos, page, who):
    with page(photos) as client:
        body = {"answers": [{"row": 0, "kind": "drop"}], "who": who, "request": "r"}
        answer = client.post("/api/decide", json=body)
        assert answer.status_code == 400
        assert "must be a name" in answer.json()["error"]


@pytest.mark.parametrize(
    "who", ["\u200b", "an\u200bn", "\u202enna", "ann\u2066", "ann\0", "\u3164", "\u200d", "\u0301"]
)
def test_a_name_is_seen_as_it_was_typed(photos, page, who):
    with page(photos) as client:
        body = {"answers": [{"row": 0, "kind": "drop"}], "who": who, "request": "r"}
        answer = client.post("/api/decide", json=body)
        assert answer.status_code == 400
        assert "must be a name" in answer.json()["error"]
        assert client.get("/api/next", params={"who": who}).status_code == 400
        assert client.get("/api/log").json()["entries"] == []


@pytest.mark.parametrize("who", ["Zoë Čapková", "李雷", "می‌خواهم", "guest 3", "👩‍🔬", "O’Neil"])
def test_names_of_all_scripts_are_taken(photos, page, who):
    with page(photos) as client:
        assert decide(client, 0, "dark", who=who)[0]["who"] == who


@pytest.mark.parametrize(
    "row", [True, False, [0], {"row": 0}, 0.0, None, -1, 10**9, "²", "٣", "3", ""]
)
def test_only_a_whole_number_is_a_row(photos, page, row):
    with page(photos) as client:
        body = {"answers": [{"row": row, "kind": "drop"}], "who": "ann", "request": "r"}
        answer = client.post("/api/decide", json=body)
        assert answer.status_code == 400
        assert client.get("/api/log").json()["entries"] == []


@pytest.mark.parametrize("content", [DEEP, '{"a":' * 100_000, '{"who": ' + "9" * 5000 + "}"])
def test_json_that_python_cannot_read_is_refused(photos, page, content):
    with page(photos) as client:
        kind = {"content-type": "application/json"}
        answer = client.post("/api/decide", content=content, headers=kind)
        assert answer.status_code == 400
        assert len(answer.json()["error"]) < 500


@pytest.mark.parametrize(
    "asked",
    [
        {"row": "9" * 5000},
        {"row": "0", "side": "9" * 5000},
        {"row": "0", "side": "²"},
        {"row": "٣"},
    ],
)
def test_numbers_of_thousands_of_digits_are_refused(photos, page, asked):
    with page(photos) as client:
        answer = client.get("/api/picture", params=asked)
        assert answer.status_code == 400
        assert len(answer.json()["error"]) < 500


@pytest.mark.parametrize("least", ["nan", "inf", "1e999", "much"])
def test_shares_are_numbers(photos, page, least):
    with page(photos) as client:
        answer = client.get("/api/next", params={"who": "ann", "least": least})
        assert answer.status_code == 400


def test_rows_to_leave_out_may_hold_anything(photos, page):
    with page(photos) as client:
        first, second = upcoming(client, count=2)
        without = f"{first['row']},²,,{'9' * 5000},x"
        assert upcoming(client, count=1, without=without)[0]["id"] == second["id"]


def test_undo_takes_numbers_of_entries_alone(photos, page):
    with page(photos) as client:
        (entry,) = decide(client, 0, "dark")
        assert entry["seq"] == 1
        body = {"seqs": [True], "who": "ann", "request": "u"}
        assert client.post("/api/undo", content=json.dumps(body)).status_code == 400
        answer = client.post("/api/undo", json=body)
        assert answer.status_code == 400
        assert answer.json()["error"] == "seqs must be a list"
