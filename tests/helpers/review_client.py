"""Requests of the review page, and what is true of the images that tests review."""

import uuid
from pathlib import Path


def upcoming(client, who="ann", **asked):
    return client.get("/api/next", params={"who": who, "count": 5, **asked}).json()["items"]


def decide(client, row, label=None, kind="label", who="ann", mode="fix", **more):
    one = {"row": row, "kind": kind} | ({} if label is None else {"label": label})
    body = {"answers": [one], "mode": mode, "who": who, "request": uuid.uuid4().hex, **more}
    answer = client.post("/api/decide", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["entries"]


def settled(client):
    """The figures once they know of every decision."""
    for _ in range(500):
        status = client.get("/api/status").json()
        if status["up_to_date"]:
            return status
    raise AssertionError


def true_label(item_id):
    """True label of an image of `write_images`: every fifth lies in the wrong folder."""
    folder, name = item_id.split("/")
    is_wrong = int(Path(name).stem) % 5 == 0
    return {"dark": "light", "light": "dark"}[folder] if is_wrong else folder
