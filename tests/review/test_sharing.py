"""Decisions of the page and answers from files: neither loses what the other has."""

from abstain.auditing.audit import audit
from abstain.auditing.folder import AuditFolder

from review_client import decide, settled, upcoming


def test_an_answer_that_was_undone_leaves_the_file_of_answers(photos, page):
    with page(photos) as client:
        first = upcoming(client)[0]
        (entry,) = decide(client, first["row"], "dark")
        settled(client)
        client.post("/api/undo", json={"seqs": [entry["seq"]], "who": "ann", "request": "u"})
    assert AuditFolder(photos).answers().labels == {}


def test_answers_from_elsewhere_are_taken_into_the_log(photos, page):
    id_ = AuditFolder.open(photos).issues.column("id")[0].as_py()
    audit(folder=photos, resume=True, reviewed={id_: "dark"})
    with page(photos) as client:
        (entry,) = client.get("/api/log").json()["entries"]
        assert (entry["who"], entry["id"], entry["after"]["label"]) == ("file", id_, "dark")
