"""A decision is on the sample that was looked at, and on one that can be read."""

import os
import shutil
from contextlib import contextmanager

import pytest

from abstain.errors import AbstainError
from abstain.review.session import Session
from abstain.review.store import Store
from abstain.showing.fingerprint import Mark

from review_client import decide, upcoming


def sent(client, *answers, request="r", who="ann"):
    body = {"answers": list(answers), "who": who, "request": request}
    return client.post("/api/decide", json=body)


@contextmanager
def another(path, content=None):
    """The file is gone meanwhile, as a network drive may be, or another."""
    kept, about = path.read_bytes(), path.stat()
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    try:
        yield
    finally:
        path.write_bytes(kept)
        os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


def test_a_sample_that_cannot_be_read_is_not_decided(made, photos, page):
    with page(photos) as client:
        one, two = upcoming(client, count=2)
        answers = [{"row": x["row"], "kind": "label", "label": "dark"} for x in (one, two)]
        with another(made / "photos" / one["id"]):
            answer = sent(client, *answers)
            assert answer.status_code == 400
            (invalid,) = answer.json()["invalid"]
            assert invalid["row"] == one["row"]
            assert "cannot be read: No such file" in invalid["error"]
            drop = sent(client, {"row": one["row"], "kind": "drop"}, request="drop")
            assert drop.status_code == 400
            skip = sent(client, {"row": one["row"], "kind": "skip"}, request="skip")
            assert skip.status_code == 200  # nothing is said of the sample
            assert [x["mode"] for x in client.get("/api/log").json()["entries"]] == ["fix"]
        assert sent(client, *answers).status_code == 200
    with page(photos) as client:  # and the next start takes it
        assert len(client.get("/api/log").json()["entries"]) == 3


def test_an_empty_mark_of_an_earlier_version_is_none(photos, page):
    with page(photos) as client:
        entries = decide(client, 0, "dark")
    with Store(photos / "review.sqlite") as store, store._writing():
        empty = (entries[0]["id"], *Mark("", ""))
        store._connection.execute("INSERT OR REPLACE INTO seen VALUES (?, ?, ?)", empty)
    with page(photos) as client:
        assert client.get("/api/log").json()["entries"][0]["holds"]


def test_a_decision_that_was_taken_is_not_refused_when_it_is_sent_again(made, photos, page):
    with page(photos) as client:
        one = upcoming(client)[0]
        answer = {"row": one["row"], "kind": "drop", "version": one["version"]}
        first = sent(client, answer).json()
        with another(made / "photos" / one["id"]):
            assert sent(client, answer).json() == first


def test_a_sample_that_changed_since_it_was_shown_is_not_decided(made, photos, page):
    with page(photos) as client:
        one, two = upcoming(client, count=2)
        answer = {"row": one["row"], "kind": "drop", "version": one["version"]}
        with another(made / "photos" / one["id"], b"another"):
            (invalid,) = sent(client, answer).json()["invalid"]
            assert "changed since it was shown" in invalid["error"]
            other = {"row": two["row"], "kind": "drop", "version": two["version"]}
            assert sent(client, other, request="two").status_code == 200
        assert sent(client, answer).status_code == 200


def test_a_picture_is_cached_only_under_a_name_of_its_review_and_content(
    made, photos, page, tmp_path
):
    with page(photos) as client:
        other = shutil.copytree(photos, tmp_path / "other")  # a copy is another review
        one = upcoming(client)[0]
        review = client.get("/api/about").json()["review"]
        named = {"row": one["row"], "version": one["version"], "review": review}
        answer = client.get("/api/picture", params=named)
        assert answer.headers["cache-control"] == "private, max-age=3600"
        for missing in ("version", "review"):
            asked = {name: value for name, value in named.items() if name != missing}
            answer = client.get("/api/picture", params=asked)
            assert answer.headers["cache-control"] == "no-store"
        with another(made / "photos" / one["id"], b"another"):
            assert client.get("/api/picture", params=named).status_code in (409, 422)
        near = client.get("/api/near", params={"row": one["row"]}).json()
        assert all(x["version"] for group in near for x in group["samples"])
    with page(other) as client:  # another review on the same port
        answer = client.get("/api/picture", params=named)
        assert answer.status_code == 409
        assert "another review" in answer.json()["error"]
        headers = {"abstain-review": review}
        body = {"answers": [{"row": 0, "kind": "drop"}], "who": "ann", "request": "r"}
        assert client.post("/api/decide", json=body, headers=headers).status_code == 409
        assert client.get("/api/log").json()["entries"] == []
    with page(photos) as client:  # the same one, after a restart
        assert client.get("/api/about").json()["review"] == review
        assert client.get("/api/picture", params=named).status_code == 200


def test_a_file_that_is_missing_at_the_start_is_waited_for(made, photos, page):
    with page(photos) as client:
        one = upcoming(client)[0]
        decide(client, one["row"], "dark")
    with (
        another(made / "photos" / one["id"]),
        pytest.raises(AbstainError, match="all decisions are kept"),
    ):
        Session(photos)
    Session(photos).close()
