"""The server: who is not let in, and what it refuses.

Tests of app.py and of guard.py.
"""

import csv
import random
import subprocess
import sys
import threading
import time

import httpx
import pytest

from abstain.auditing.folder import AuditFolder
from abstain.review.store import Store

from review_client import decide, upcoming


@pytest.mark.parametrize("path", ["/", "/api/about", "/static/page.js"])
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8700",
        "127.0.0.1.evil.example",
        "127.0.0.1:8700.evil.example",
        "127.0.0.1:8700@evil.example",
        "evil.example@127.0.0.1:8700",
        "127.0.0.1:8700/evil.example",
        "127.0.0.1:",
        "",
        "[::1",
        "127.0.0.1]",
    ],
)
def test_another_name_for_this_machine_is_refused(photos, page, path, host):
    with page(photos) as client:
        assert client.get(path, headers={"host": host}).status_code == 421


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://127.0.0.1:9999",
        "https://localhost:8700.evil",
        "http://[",
        "",
    ],
)
def test_requests_of_other_sites_are_refused(photos, page, origin):
    with page(photos) as client:
        row = upcoming(client)[0]["row"]
        body = {"answers": [{"row": row, "kind": "drop"}], "who": "eve", "request": "1"}
        answer = client.post("/api/decide", json=body, headers={"origin": origin})
        assert answer.status_code == 403
        assert client.get("/api/log").json()["entries"] == []


NAVIGATION = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
PICTURE = {"sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_site_can_lead_to_the_page_and_do_nothing_else(photos, page, site):
    """It could count samples by which pictures load, or take labels away by asking for them."""
    with page(photos) as client:
        del client.headers["origin"]  # browsers say none with what a page merely shows
        asked = {"row": 0, "who": "eve", "count": 60}
        for path in ("/api/picture", "/api/next", "/api/about", "/static/page.js", "/"):
            headers = {"sec-fetch-site": site, **PICTURE}
            assert client.get(path, params=asked, headers=headers).status_code == 403
        headers = {"sec-fetch-site": site, **NAVIGATION}
        assert client.get("/api/next", params=asked, headers=headers).status_code == 403
        frame = {**headers, "sec-fetch-dest": "iframe"}
        assert client.get("/", headers=frame).status_code == 403
        assert client.get("/", headers=headers).status_code == 200
        assert len(client.session.queue.leases) == 0
        for own in ("same-origin", "none"):
            headers = {"sec-fetch-site": own, **PICTURE}
            assert client.get("/api/picture", params=asked, headers=headers).status_code == 200


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
        answer = client.get("/?token=a-long-secret")
        assert answer.status_code == 200
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert client.get("/").status_code == 200
        client.cookies.clear()
        elsewhere = {"host": "192.168.0.7:8700", "origin": "http://192.168.0.7:8700"}
        assert client.get("/", headers=elsewhere).status_code == 401


@pytest.mark.parametrize("token", ["a&b#c+d e%f", "schlüssel;, ✓"])
def test_a_token_may_have_any_characters(photos, page, token):
    with page(photos, token=token) as client:
        assert client.get("/", params={"token": token}).status_code == 200
        assert client.get("/api/about").status_code == 200


def test_two_reviews_on_one_host_keep_a_cookie_each(photos, page):
    """Browsers send the cookies of a host to all of its ports."""
    with page(photos, token="a-long-secret") as client:
        here = client.get("/?token=a-long-secret").headers["set-cookie"].partition("=")[0]
        other = {"host": "127.0.0.1:8701", "origin": "http://127.0.0.1:8701"}
        there = client.get("/?token=a-long-secret", headers=other).headers["set-cookie"]
        assert here != there.partition("=")[0]
        assert "a-long-secret" not in there


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


def test_the_log_says_what_no_spreadsheet_takes_for_a_formula(photos, page):
    from abstain.review.export import export_corrected

    with page(photos) as client:
        decide(client, 0, "dark", who="=cmd|' /C calc'!A0", note='=HYPERLINK("http://evil")')
    out = photos.parent / "out.csv"
    export_corrected(AuditFolder.open(photos), out)
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


def test_seconds_that_no_browser_measured_are_not_kept(photos, page):
    with page(photos) as client:
        rows = [item["row"] for item in upcoming(client)]
        took = [3.21, -1, "7", True, 1e9]
        answers = [
            {"row": row, "kind": "drop", "seconds": x} for row, x in zip(rows, took, strict=True)
        ]
        body = {"answers": answers, "who": "ann", "request": "1"}
        entries = client.post("/api/decide", json=body).json()["entries"]
        assert [x["seconds"] for x in entries] == [3.2, None, None, None, None]
