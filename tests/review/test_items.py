"""Tests of what the page gets of a label: for a second opinion, nothing of the first."""

import json

from review_client import decide, upcoming


def second(client, who="bob"):
    return upcoming(client, who=who, by="second", state="any")


def undo(client, entry, who, **more):
    body = {"seqs": [entry["seq"]], "who": who, "request": f"u{entry['seq']}", **more}
    return client.post("/api/undo", json=body).json()["entries"]


def test_a_second_opinion_is_blind_until_it_is_given(photos, page):
    with page(photos) as client:
        row = upcoming(client, who="ann")[0]["row"]
        decide(client, row, kind="drop", who="ann", note="a secret of ann's")
        (item,) = second(client)
        assert (item["row"], item["decided"], item["note"]) == (row, None, "")
        assert not {"ann", "a secret of ann's", "drop"} & set(words(item))
        asked = {"row": row, "who": "bob", "by": "second"}
        assert client.get("/api/item", params=asked).json()["decided"] is None
        lines = client.get("/api/log", params={"unseen_by": "bob"}).json()["entries"]
        assert [(x["after"], x["note"], x["standing"]) for x in lines] == [(None, "", None)]

        body = {"row": row, "note": "bob's own", "who": "bob", "by": "second", "request": "n"}
        (noted,) = client.post("/api/note", json=body).json()["entries"]
        assert (noted["before"], noted["after"], noted["standing"]) == (None, None, None)
        assert second(client)[0]["note"] == "bob's own"
        (skipped,) = decide(client, row, kind="skip", who="bob", mode="second")
        assert skipped["before"] is None  # a skip is no opinion
        (undone,) = undo(client, skipped, "bob", by="second")
        assert (undone["before"], undone["after"], undone["standing"]) == (None, None, None)

        (mine,) = decide(client, row, "dark", who="bob", mode="second")
        assert mine["before"] == {"kind": "drop", "label": None}  # both have decided now
        assert second(client) == []
        lines = client.get("/api/log", params={"unseen_by": "bob"}).json()["entries"]
        assert "a secret of ann's" in [x["note"] for x in lines]


def test_a_second_opinion_of_the_random_sample_is_as_blind_as_the_first(photos, page):
    with page(photos) as client:
        row = upcoming(client, who="ann", mode="verify")[0]["row"]
        decide(client, row, "dark", who="ann", mode="verify")
        (item,) = second(client)
        assert item["blind"]
        assert item["id"] == "sample 1"
        assert not {"given", "proposed", "proposals", "wrong", "decided", "said"} & item.keys()
        asked = {"row": row, "who": "bob", "by": "second"}
        assert client.get("/api/near", params=asked).json() == []
        assert "given" in client.get("/api/item", params={**asked, "revealed": 1}).json()
        (skipped,) = decide(client, row, kind="skip", who="bob", mode="verify")
        assert skipped["before"] is None


def test_whoever_is_unsure_has_given_an_opinion(photos, page):
    with page(photos) as client:
        row = upcoming(client, who="ann")[0]["row"]
        decide(client, row, "dark", who="ann")
        (entry,) = decide(client, row, kind="unsure", who="bob", mode="second")
        assert entry["before"] == {"kind": "label", "label": "dark"}
        assert second(client) == []


def test_a_third_opinion_hears_of_no_dispute(photos, page):
    with page(photos) as client:
        row = upcoming(client, who="ann")[0]["row"]
        decide(client, row, "dark", who="ann")
        decide(client, row, "light", who="bob", mode="second")
        (item,) = second(client, who="cid")
        assert (item["decided"], item["said"]) == (None, [])
        assert not {"ann", "bob"} & set(words(item))
        (item,) = upcoming(client, who="cid", by="disputes", state="any")
        assert {x["who"] for x in item["said"]} == {"ann", "bob"}


def words(item):
    """All texts in what was served, however deep, but for what is known of the sample itself."""
    rest = {name: value for name, value in item.items() if name not in ("id", "version")}
    return json.dumps(rest).replace('"', " ").replace(",", " ").split()
