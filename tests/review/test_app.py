"""The server: what is next for whom, what a decision does, and who is not let in."""

import csv
import io
import json
import random
import shutil
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image

from abstain import Recipe
from abstain.auditing.audit import audit
from abstain.auditing.reviewed import kept_answers
from abstain.auditing.saved import SavedAudit
from abstain.errors import AbstainError
from abstain.review.session import Session
from abstain.review.shown import LARGEST_PICTURE
from abstain.review.store import Store

from audits import HOSTILE, write_images

PLAIN = Recipe(epochs=8, warm_up=1)


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
    """Of the images of `write_images`: every fifth lies in the wrong folder."""
    folder, name = item_id.split("/")
    is_wrong = int(Path(name).stem) % 5 == 0
    return {"dark": "light", "light": "dark"}[folder] if is_wrong else folder


def test_the_worst_labels_come_first_and_to_one_person_each(photos, page):
    issues = SavedAudit.open(photos).issues.column("id").to_pylist()
    with page(photos) as client:
        ann, bob = upcoming(client, "ann"), upcoming(client, "bob")
        assert [x["id"] for x in ann + bob] == issues[:10]
        assert [x["id"] for x in upcoming(client, "ann")] == issues[:5]
        have = ",".join(str(x["row"]) for x in ann)
        assert [x["id"] for x in upcoming(client, "ann", without=have)] == issues[10:15]


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
    assert kept_answers(photos).answers == {first["id"]: label}


def test_undo_gives_the_label_back_days_later(photos, page):
    with page(photos) as client:
        first = upcoming(client)[0]
        decide(client, first["row"], kind="drop")
        assert upcoming(client)[0]["id"] != first["id"]
    with page(photos) as client:
        (entry,) = client.get("/api/log").json()["entries"]
        body = {"seq": entry["seq"], "who": "bob", "request": "u"}
        client.post("/api/undo", json=body)
        assert upcoming(client)[0]["id"] == first["id"]
        lines = client.get("/api/log").json()["entries"]
        assert [(x["who"], x["holds"]) for x in lines] == [("bob", True), ("ann", False)]


def test_an_answer_that_was_undone_leaves_the_file_of_answers(photos, page):
    with page(photos) as client:
        first = upcoming(client)[0]
        (entry,) = decide(client, first["row"], "dark")
        settled(client)
        client.post("/api/undo", json={"seq": entry["seq"], "who": "ann", "request": "u"})
    assert kept_answers(photos).answers == {}


def test_filters_choose_by_pair_score_state_and_person(photos, page):
    with page(photos) as client:
        found = upcoming(client, given="0", proposed="1", count="50")
        assert found
        assert {(x["given"], x["proposed"]) for x in found} == {(0, 1)}
        every = [x["wrong"] for x in upcoming(client, count="60")]
        middle = sorted(every)[30]
        sure = upcoming(client, least=f"{middle:.9f}", count="60")
        assert [x["wrong"] for x in sure] == [p for p in every if p >= round(middle, 9)]
        decide(client, sure[0]["row"], "dark", who="ann")
        decide(client, sure[1]["row"], kind="unsure", who="ann")
        decide(client, sure[2]["row"], kind="skip", who="ann")
        assert [x["row"] for x in upcoming(client, state="unsure")] == [sure[1]["row"]]
        assert [x["row"] for x in upcoming(client, state="skip")] == [sure[2]["row"]]
        by_ann = upcoming(client, by="person:ann", state="any")
        assert [x["row"] for x in by_ann] == [sure[0]["row"]]
        assert upcoming(client, "ann", by="second", state="any") == []
        assert [x["row"] for x in upcoming(client, "bob", by="second", state="any")] == [
            sure[0]["row"]
        ]


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


def test_all_like_this_one_are_of_its_pair(photos, page):
    with page(photos) as client:
        first = upcoming(client)[0]
        found = upcoming(client, like=first["row"], count=20)
        assert found[0]["row"] == first["row"]
        pair = (first["given"], first["proposed"])
        assert {(x["given"], x["proposed"]) for x in found} == {pair}


def test_neighbours_are_of_the_given_and_the_proposed_class(photos, page):
    with page(photos) as client:
        first = upcoming(client)[0]
        groups = client.get("/api/near", params={"row": first["row"]}).json()
        assert [x["class"] for x in groups] == [first["given"], first["proposed"]]
        for group in groups:
            assert 1 <= len(group["samples"]) <= 4
            assert first["row"] not in [x["row"] for x in group["samples"]]


def test_neighbours_go_by_embeddings_where_the_audit_had_some(tmp_path, page):
    """Each image lies beside one other, whatever the two look like."""
    write_images(tmp_path / "photos")
    names = sorted((tmp_path / "photos").rglob("*.png"), key=lambda path: path.as_posix())
    rng = np.random.default_rng(0)
    features = rng.normal(size=(len(names) // 2, 32)).repeat(2, axis=0)
    features[:, 0] += [3 * (path.parent.name == "dark") for path in names]
    features += rng.normal(size=features.shape) * 0.01
    np.save(tmp_path / "own.npy", features.astype(np.float32))
    audit(tmp_path / "photos", PLAIN, features=tmp_path / "own.npy", folder=tmp_path / "audit")
    with page(tmp_path / "audit") as client:
        assert client.get("/api/about").json()["kind"] == "image"
        answer = client.get("/api/picture", params={"row": 4})
        assert answer.headers["content-type"] == "image/png"
        client.session.shown.prefer(np.ones(len(names), bool))
        groups = client.get("/api/near", params={"row": 4}).json()
        nearest = {x["class"]: x["samples"][0]["row"] for x in groups}
        assert nearest[int(client.session.queue.given[4])] == 5


def test_verifying_is_blind_and_measures_the_rate_as_the_audit_does(photos, page):
    with page(photos) as client:
        answered = 0
        while answered < 40:
            items = upcoming(client, mode="verify")
            for item in items:
                assert item["blind"]
                assert not {"given", "proposed", "proposals", "wrong", "decided"} & item.keys()
                decide(client, item["row"], true_label(item["id"]), mode="verify")
                answered += 1
        status = settled(client)
        assert status["is_measured"]
        assert status["checked"] == 40
        assert status["rate"]["low"] <= 0.2 <= status["rate"]["high"]
        assert status["halved_by"] > 0
    found = audit(folder=photos, resume=True)
    assert found.measured is not None
    assert found.measured.value == pytest.approx(status["rate"]["value"])
    assert found.measured.high == pytest.approx(status["rate"]["high"])
    assert found.left_wrong.value == pytest.approx(status["left_wrong"]["value"])


def test_again_judges_as_an_audit_with_these_answers_would(photos, page):
    before = audit(folder=photos, resume=True)
    with page(photos) as client:
        answers = {}
        for item in upcoming(client, count=12):
            answers[item["id"]] = true_label(item["id"])
            decide(client, item["row"], answers[item["id"]])
        status = client.post("/api/again").json()
    after = before.with_reviewed(answers)
    assert status["left_wrong"]["value"] == pytest.approx(after.left_wrong.value)
    assert status["left_wrong"]["high"] == pytest.approx(after.left_wrong.high)
    assert status["flagged_left"] == after.flagged


def test_answers_from_elsewhere_are_taken_into_the_log(photos, page):
    id_ = SavedAudit.open(photos).issues.column("id")[0].as_py()
    audit(folder=photos, resume=True, reviewed={id_: "dark"})
    with page(photos) as client:
        (entry,) = client.get("/api/log").json()["entries"]
        assert (entry["who"], entry["id"], entry["after"]["label"]) == ("file", id_, "dark")


def test_a_hint_says_when_going_on_no_longer_pays(photos, page):
    with page(photos) as client:
        assert settled(client)["pays"]
        while items := upcoming(client, count=50):
            for item in items:
                decide(client, item["row"], item["id"].split("/")[0])
        status = settled(client)
        assert status["last_wrong"] == 0
        assert not status["pays"]


def test_text_has_its_likely_cause_marked(texts, page):
    with page(texts) as client:
        item = upcoming(client)[0]
        words = {item["text"][a:b].lower(): of for a, b, of in item["marks"]}
        classes = client.get("/api/about").json()["classes"]
        good = {"fine", "bright", "clever", "kind"}
        expected = {
            word: "proposed" if classes[item["proposed"]] == ("good" if word in good else "bad")
            else "given"
            for word in words
        }  # fmt: skip
        assert words
        assert words == expected


# the data


def test_moved_data_are_refused_and_decisions_kept(tmp_path, page):
    write_images(tmp_path / "photos")
    audit(tmp_path / "photos", PLAIN, folder=tmp_path / "audit")
    with page(tmp_path / "audit") as client:
        row = upcoming(client)[0]["row"]
        decide(client, row, "dark")
    (tmp_path / "photos").rename(tmp_path / "elsewhere")
    with pytest.raises(AbstainError, match="decisions are kept"):
        Session(tmp_path / "audit")
    (tmp_path / "elsewhere").rename(tmp_path / "photos")
    with page(tmp_path / "audit") as client:
        assert settled(client)["decided"] == 1


@pytest.mark.parametrize("change", ["removed", "replaced"])
def test_changed_data_are_refused_and_decisions_kept(tmp_path, page, change):
    write_images(tmp_path / "photos")
    audit(tmp_path / "photos", PLAIN, folder=tmp_path / "audit")
    with page(tmp_path / "audit") as client:
        decide(client, upcoming(client)[0]["row"], "dark")
    victim = tmp_path / "photos" / "dark" / "3.png"
    if change == "removed":
        victim.unlink()
    else:
        Image.new("L", (50, 50)).save(victim)
    with pytest.raises(AbstainError, match="all decisions are kept"):
        Session(tmp_path / "audit")


def test_an_audit_is_reviewed_by_one_server_at_a_time(photos, page):
    with page(photos), pytest.raises(AbstainError, match="being reviewed already"):
        Session(photos)


def test_an_audit_of_an_earlier_version_says_what_to_do(photos):
    (photos / "evidence.parquet").unlink()
    with pytest.raises(AbstainError, match="abstain audit --resume"):
        Session(photos)
    audit(folder=photos, resume=True)
    Session(photos).close()


# who is not let in


@pytest.mark.parametrize("path", ["/", "/api/about", "/static/page.js"])
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8700", "127.0.0.1.evil.example", ""]
)
def test_another_name_for_this_machine_is_refused(photos, page, path, host):
    with page(photos) as client:
        assert client.get(path, headers={"host": host}).status_code == 421


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://127.0.0.1:9999", "https://localhost:8700.evil"],
)
def test_requests_of_other_sites_are_refused(photos, page, origin):
    with page(photos) as client:
        row = upcoming(client)[0]["row"]
        body = {"answers": [{"row": row, "kind": "drop"}], "who": "eve", "request": "1"}
        answer = client.post("/api/decide", json=body, headers={"origin": origin})
        assert answer.status_code == 403
        assert client.get("/api/log").json()["entries"] == []


def test_requests_that_say_no_origin_change_nothing(photos, page):
    with page(photos) as client:
        del client.headers["origin"]
        assert client.post("/api/again").status_code == 403


def test_a_form_of_another_site_cannot_pass_for_json(photos, page):
    with page(photos) as client:
        answer = client.post("/api/decide", content="{}", headers={"content-type": "text/plain"})
        assert answer.status_code == 400


def test_the_token_is_asked_for_once_and_then_kept_as_a_cookie(photos, page):
    with page(photos, token="a-long-secret") as client:
        assert client.get("/").status_code == 401
        assert client.get("/?token=wrong").status_code == 401
        answer = client.get("/?token=a-long-secret", follow_redirects=False)
        assert answer.status_code == 303
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert client.get("/").status_code == 200
        client.cookies.clear()
        elsewhere = {"host": "192.168.0.7:8700", "origin": "http://192.168.0.7:8700"}
        assert client.get("/", headers=elsewhere).status_code == 401


def test_every_answer_forbids_what_a_page_does_not_need(photos, page):
    with page(photos) as client:
        for path in ("/", "/static/page.js", "/api/about", "/api/picture?row=0", "/nothing"):
            headers = client.get(path).headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
        text = client.get("/").text
        assert "<script>" not in text
        assert "onclick" not in text
        assert "style=" not in text


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/%2e%2e/store.py",
        "/..%2f..%2f..%2fetc%2fpasswd",
        "/static//etc/passwd",
        "/static/",
        "/api/picture?row=../../etc/passwd",
        "/api/picture?row=-1",
        "/api/picture?row=99999",
        "/api/picture",
        "/api/item?row=²",
    ],
)
def test_paths_lead_nowhere_but_to_what_is_listed(photos, page, path):
    with page(photos) as client:
        answer = client.get(path)
        assert answer.status_code in (400, 404)
        assert "root:" not in answer.text
        assert "import" not in answer.text


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"answers": []},
        {"answers": [5]},
        {"answers": [{"row": 0, "kind": "label", "label": "unicorn"}]},
        {"answers": [{"row": 0, "kind": "explode"}]},
        {"answers": [{"row": 10**9, "kind": "drop"}]},
        {"answers": [{"row": 0, "kind": "drop"}], "mode": "file"},
        {"answers": [{"row": 0, "kind": "drop"}], "who": ""},
        {"answers": [{"row": 0, "kind": "drop"}], "who": "file"},
        {"answers": [{"row": 0, "kind": "drop"}], "note": "x" * 5000},
        {"answers": [{"row": 0, "kind": "drop"}], "request": ""},
    ],
)
def test_what_is_no_decision_is_refused_in_a_line(photos, page, body):
    with page(photos) as client:
        answer = client.post("/api/decide", json={"who": "ann", "request": "r", **body})
        assert answer.status_code == 400
        assert answer.json()["error"]
        assert client.get("/api/log").json()["entries"] == []


def test_what_is_sent_is_no_longer_than_decisions_are(photos, page):
    with page(photos) as client:
        answer = client.post("/api/decide", json={"note": "x" * 2_000_000})
        assert answer.status_code == 400


@pytest.fixture
def odd_photos(tmp_path):
    """Images, to which a test adds odd ones before they are looked at."""
    write_images(tmp_path / "photos")
    audit(tmp_path / "photos", PLAIN, folder=tmp_path / "audit")
    return tmp_path


def row_of(client, id_):
    return client.session.row[id_]


def test_a_link_out_of_the_folder_is_not_followed(odd_photos, page):
    secret = odd_photos / "secret.png"
    victim = odd_photos / "photos" / "dark" / "3.png"
    shutil.copy(victim, secret)
    victim.unlink()
    victim.symlink_to(secret)
    with page(odd_photos / "audit") as client:
        answer = client.get("/api/picture", params={"row": row_of(client, "dark/3.png")})
        assert answer.status_code == 422
        assert "link out of the folder" in answer.json()["error"]


def test_a_link_within_the_folder_is_followed(odd_photos, page):
    victim = odd_photos / "photos" / "dark" / "3.png"
    victim.unlink()
    victim.symlink_to(odd_photos / "photos" / "dark" / "4.png")
    with page(odd_photos / "audit") as client:
        answer = client.get("/api/picture", params={"row": row_of(client, "dark/3.png")})
        assert answer.headers["content-type"] == "image/png"


def test_an_oversized_picture_is_refused_before_it_is_decoded(odd_photos, page):
    side = int(LARGEST_PICTURE**0.5) + 1
    Image.new("1", (side, side)).save(odd_photos / "photos" / "dark" / "3.png")
    with page(odd_photos / "audit") as client:
        answer = client.get("/api/picture", params={"row": row_of(client, "dark/3.png")})
        assert answer.status_code == 422
        assert "too many" in answer.json()["error"]


def test_what_is_called_a_picture_and_is_none_is_not_served(odd_photos, page):
    victim = odd_photos / "photos" / "dark" / "3.png"
    victim.write_bytes(victim.read_bytes()[:50] + b"<script>alert(1)</script>")
    with page(odd_photos / "audit") as client:
        answer = client.get("/api/picture", params={"row": row_of(client, "dark/3.png")})
        assert answer.status_code == 422
        assert "script" not in answer.text


def test_large_pictures_are_made_smaller(odd_photos, page):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 255, (1200, 1600, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(odd_photos / "photos" / "dark" / "3.png")
    with page(odd_photos / "audit") as client:
        row = row_of(client, "dark/3.png")
        answer = client.get("/api/picture", params={"row": row, "side": 640})
        assert answer.headers["content-type"] == "image/jpeg"
        assert Image.open(io.BytesIO(answer.content)).size == (640, 480)


def test_markup_in_a_text_stays_a_text(texts, page):
    with page(texts) as client:
        answer = client.get("/api/next", params={"who": "ann", "count": 200})
        assert answer.headers["content-type"] == "application/json"
        hostile = [x for x in answer.json()["items"] if HOSTILE[:9] in x["text"]]
        assert len(hostile) == 1
        assert json.dumps(hostile[0])


def test_the_log_says_what_no_spreadsheet_takes_for_a_formula(photos, page):
    from abstain.review.export import export_corrected

    with page(photos) as client:
        decide(client, 0, "dark", who="=cmd|' /C calc'!A0", note='=HYPERLINK("http://evil")')
    out = photos.parent / "out.csv"
    export_corrected(SavedAudit.open(photos), out)
    for path in (out, photos.parent / "out-log.csv"):
        with path.open(newline="", encoding="utf-8") as stream:
            cells = [cell for row in csv.reader(stream) for cell in row]
        assert any(cell.startswith("'=HYPERLINK") for cell in cells)
        assert not any(cell.startswith(("=", "@", "+")) for cell in cells)


def test_decisions_are_not_readable_by_others_than_the_folder_is(photos, page):
    with page(photos) as client:
        decide(client, 0, "dark")
    mode = (photos / "review.sqlite").stat().st_mode & 0o777
    assert mode & ~((photos / "summary.json").stat().st_mode & 0o777) == 0


@pytest.mark.slow
def test_a_killed_server_loses_no_acknowledged_decision(photos):
    """1,000 decisions over HTTP; the server killed at random moments and started again."""
    rng, kills, acknowledged, port = random.Random(0), 0, [], 8791
    address = f"http://127.0.0.1:{port}"
    words = [sys.executable, "-m", "abstain", "review", photos, "--no-browser", "--port", port]

    def start():
        server = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL)
        for _ in range(600):
            try:
                httpx.get(f"{address}/api/about")
                return server
            except httpx.HTTPError:
                time.sleep(0.1)
        raise AssertionError

    server, at = start(), time.monotonic() + rng.uniform(0.2, 2)
    sent = 0
    while sent < 1000:
        if kills < 5 and time.monotonic() > at:
            threading.Timer(rng.uniform(0, 0.02), server.kill).start()
            at = float("inf")
        one = {"row": sent % 60, "kind": "label", "label": rng.choice(["dark", "light"])}
        body = {"answers": [one], "who": "ann", "request": f"r{sent}"}
        try:
            answer = httpx.post(f"{address}/api/decide", json=body, headers={"origin": address})
        except httpx.HTTPError:  # not acknowledged: sent again, under the same name
            server.wait()
            kills += 1
            server, at = start(), time.monotonic() + rng.uniform(0.2, 2)
            continue
        acknowledged += [(x["seq"], x["id"], x["after"]["label"]) for x in answer.json()["entries"]]
        sent += 1
    server.kill()
    server.wait()
    assert kills == 5
    with Store(photos / "review.sqlite") as store:
        kept = [(x.seq, x.id, x.after.label) for x in store.decisions.entries.values()]
    assert kept == acknowledged
    assert len(kept) == 1000
