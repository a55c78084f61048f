"""A review from the first label to the last: decisions, figures, several people.

Tests of session.py, and of standing.py, which it builds on.
"""

import pytest

from abstain.auditing.audit import audit
from abstain.auditing.folder import AuditFolder
from abstain.errors import AbstainError
from abstain.review.session import Session

from audits import rows_of
from review_client import decide, settled, true_label, upcoming


def test_a_decision_is_kept_and_advances(photos, page):
    with page(photos) as client:
        first, second, *_ = upcoming(client)
        label = client.get("/api/about").json()["classes"][first["proposed"]]
        (entry,) = decide(client, first["row"], label, note="clear")
        assert entry["after"] == {"kind": "label", "label": label}
        assert upcoming(client)[0]["id"] == second["id"]
        assert client.get("/api/item", params={"row": first["row"]}).json()["note"] == "clear"
    with page(photos) as client:  # and on where one stopped
        assert upcoming(client)[0]["id"] == second["id"]
        assert settled(client)["decided"] == 1
    assert AuditFolder(photos).answers().labels == {first["id"]: label}


def test_undo_gives_the_label_back_days_later(photos, page):
    with page(photos) as client:
        first = upcoming(client)[0]
        decide(client, first["row"], kind="drop")
        assert upcoming(client)[0]["id"] != first["id"]
    with page(photos) as client:
        (entry,) = client.get("/api/log").json()["entries"]
        body = {"seqs": [entry["seq"]], "who": "bob", "request": "u"}
        client.post("/api/undo", json=body)
        assert upcoming(client)[0]["id"] == first["id"]
        lines = client.get("/api/log").json()["entries"]
        assert [(x["who"], x["holds"]) for x in lines] == [("bob", True), ("ann", False)]


def test_agreement_and_disputes_are_shown(photos, page):
    with page(photos) as client:
        one, two = upcoming(client)[:2]
        for who, labels in (("ann", ("dark", "light")), ("bob", ("dark", "dark"))):
            for item, label in zip((one, two), labels, strict=True):
                decide(client, item["row"], label, who=who, mode="second")
        status = settled(client)
        assert status["disputes"] == 1
        assert status["agreements"][0]["both"] == 2
        assert [x["row"] for x in upcoming(client, by="disputes", state="any")] == [two["row"]]


def test_verifying_is_blind_and_measures_the_rate_as_the_audit_does(photos, page):
    ids = audit(folder=photos, resume=True).data.ids
    with page(photos) as client:
        answered = 0
        while answered < 40:
            items = upcoming(client, mode="verify")
            for item in items:
                assert item["blind"]
                assert not {"given", "proposed", "proposals", "wrong", "decided"} & item.keys()
                # A path would name the class, and so may a row.
                assert item["id"] == f"sample {answered + 1}"
                decide(client, item["row"], true_label(ids[item["row"]]), mode="verify")
                answered += 1
        status = settled(client)
        assert status["verified"]["is_measured"]
        assert status["verified"]["counted"] == 40
        assert status["noise_rate"]["low"] <= 0.2 <= status["noise_rate"]["high"]
        assert status["halved_by"] > 0
    found = audit(folder=photos, resume=True)
    assert found.measured is not None
    assert found.measured.value == pytest.approx(status["noise_rate"]["value"])
    assert found.measured.high == pytest.approx(status["noise_rate"]["high"])
    assert found.left_wrong.value == pytest.approx(status["left_wrong"]["value"])


def test_what_was_skipped_comes_back_in_verify_when_all_else_is_answered(photos, page):
    with page(photos) as client:
        in_fix = upcoming(client)[0]["row"]
        decide(client, in_fix, kind="skip")
        first, second = (item["row"] for item in upcoming(client, mode="verify")[:2])
        decide(client, first, kind="skip", mode="verify")
        decide(client, second, "dark", mode="verify")
        while items := upcoming(client, mode="verify", count=50):
            for item in items:
                decide(client, item["row"], "dark", mode="verify")
        status = settled(client)
        assert status["sample_skipped"] == status["verified"]["skipped"] == 2
        assert status["halved_by"] is None
        back = upcoming(client, mode="verify", state="skip")
        assert {item["row"] for item in back} == {in_fix, first}
        assert all(item["blind"] for item in back)
        for item in back:
            decide(client, item["row"], "dark", mode="verify")
        assert settled(client)["sample_skipped"] == 0
        assert upcoming(client, mode="verify", state="skip") == []


def test_what_others_have_before_them_is_told_from_what_was_skipped(photos, page):
    with page(photos) as client:
        upcoming(client, who="ann", mode="verify", count=4)
        for item in upcoming(client, who="bob", mode="verify", count=4):
            decide(client, item["row"], "dark", who="bob", mode="verify")
        settled(client)
        status = client.get("/api/status", params={"who": "bob"}).json()
        assert (status["verified"]["waiting"], status["verified"]["gaps"]) == (4, 4)
        assert (status["sample_held"], status["sample_skipped"]) == (4, 0)
        assert client.get("/api/status", params={"who": "ann"}).json()["sample_held"] == 0
        client.post("/api/leave", json={"who": "ann", "visit": ""})
        assert client.get("/api/status", params={"who": "bob"}).json()["sample_held"] == 0


def test_samples_like_one_are_not_told_in_verify_until_it_is_answered(photos, page):
    with page(photos) as client:
        row = upcoming(client, mode="verify")[0]["row"]
        asked = {"row": row, "who": "ann", "mode": "verify"}
        assert client.get("/api/near", params=asked).json() == []
        assert client.get("/api/near", params={**asked, "revealed": 1}).json()
        decide(client, row, "dark", mode="verify")
        assert client.get("/api/near", params=asked).json()


def test_again_judges_as_an_audit_with_these_answers_would(photos, page):
    before = audit(folder=photos, resume=True)
    with page(photos) as client:
        answers = {}
        for item in upcoming(client, count=12):
            answers[item["id"]] = true_label(item["id"])
            decide(client, item["row"], answers[item["id"]])
        status = client.post("/api/again").json()
        worst = [x["id"] for x in upcoming(client, count=10)]
    after = before.with_reviewed(answers)
    assert worst == [after.data.ids[k] for k in after.order[:10].tolist()]
    assert status["left_wrong"]["value"] == pytest.approx(after.left_wrong.value)
    assert status["left_wrong"]["high"] == pytest.approx(after.left_wrong.high)
    assert status["flagged"] == after.flagged


def test_an_audit_is_reviewed_by_one_server_at_a_time(photos, page):
    with page(photos), pytest.raises(AbstainError, match="being reviewed already"):
        Session(photos)


def test_an_audit_of_an_earlier_version_says_what_to_do(photos):
    (photos / "evidence.parquet").unlink()
    with pytest.raises(AbstainError, match="abstain audit --resume"):
        Session(photos)
    audit(folder=photos, resume=True)
    Session(photos).close()


def undo(client, *entries, who):
    body = {"seqs": [x["seq"] for x in entries], "who": who, "request": f"{who}{entries[0]['seq']}"}
    return client.post("/api/undo", json=body).json()["entries"]


def test_undo_of_my_decision_leaves_that_of_another_and_its_name(photos, page):
    with page(photos) as client:
        row = upcoming(client)[0]["row"]
        (mine,) = decide(client, row, "dark", who="ann")
        (hers,) = decide(client, row, "light", who="bob", mode="second")
        (entry,) = undo(client, mine, who="ann")
        assert (entry["standing"]["label"], entry["standing"]["who"]) == ("light", "bob")
        (entry,) = undo(client, hers, who="ann")
        assert (entry["who"], entry["whose"], entry["standing"]) == ("ann", "bob", None)
        line = client.get("/api/log").json()["entries"][0]
        assert (line["who"], line["whose"], line["holds"]) == ("ann", "bob", True)


def test_the_log_that_is_exported_says_who_undid_whose(photos, page, tmp_path):
    from abstain.auditing.folder import AuditFolder
    from abstain.review.export import export_corrected

    with page(photos) as client:
        entries = decide(client, 0, "dark", who="ann")
        undo(client, *entries, who="bob")
    export_corrected(AuditFolder.open(photos), tmp_path / "out.csv")
    rows = rows_of(tmp_path / "out-log.csv")
    assert [(x["who"], x["undoes_of"]) for x in rows] == [("ann", ""), ("bob", "ann")]


def test_everybody_without_a_name_is_another_person(photos, page):
    with page(photos) as client:
        names = [client.post("/api/guest").json()["name"] for _ in range(2)]
    with page(photos) as client:  # also after the server was started again
        names.append(client.post("/api/guest").json()["name"])
    assert names == ["guest 1", "guest 2", "guest 3"]


def test_who_takes_another_name_leaves_the_labels_to_others(photos, page):
    with page(photos) as client:
        first = upcoming(client, who="ann")
        assert upcoming(client, who="bob")[0]["row"] not in [x["row"] for x in first]
        client.post("/api/leave", json={"who": "ann"})
        assert upcoming(client, who="cid") == first


def test_who_said_what_is_told_once_people_differ(photos, page):
    with page(photos) as client:
        row = upcoming(client)[0]["row"]
        decide(client, row, "dark", who="ann")
        note = {"row": row, "note": "a shadow", "who": "ann", "request": "n"}
        client.post("/api/note", json=note)
        assert client.get("/api/item", params={"row": row}).json()["said"] == []
        decide(client, row, "light", who="bob", mode="second")
        said = client.get("/api/item", params={"row": row}).json()["said"]
        assert [(x["who"], x["label"], x["note"]) for x in said] == [
            ("ann", "dark", "a shadow"),
            ("bob", "light", ""),
        ]


def test_status_counts_the_labels_that_each_person_decided(photos, page):
    with page(photos) as client:
        one, two, three, *_ = (item["row"] for item in upcoming(client))
        decide(client, one, "dark", who="ann")
        decide(client, one, "light", who="bob")  # which holds now
        decide(client, two, kind="drop", who="bob")
        decide(client, three, kind="unsure", who="ann")  # says nothing
        status = settled(client)
        assert status["decided_by"] == {"bob": 2}
        assert status["unsure_by"] == {"ann": 1}
        # Of three classes, and not of the dropped one, it is known whether the label is wrong.
        assert status["last"] == 2
        assert (status["decided"], status["unsure"], status["to_drop"]) == (2, 1, 1)
