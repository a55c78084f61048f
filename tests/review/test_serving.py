"""The page on what `audit` gave in Python: data in memory, over HTTP, and what comes back.

Tests of serving.py and server.py.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import uuid
from contextlib import ExitStack

import httpx
import numpy as np
import pytest
from small_runs import free_port

from abstain import Recipe, audit, review_labels
from abstain.errors import AbstainError

from audits import blobs, text_rows

PLAIN = Recipe(epochs=6, warm_up=1)


def images():
    y = np.arange(90) % 2
    noise = np.random.default_rng(0).integers(0, 60, (90, 1, 8, 8))
    return audit(((noise + 150 * y[:, None, None, None]).astype(np.uint8), y), PLAIN)


def texts():
    import pandas as pd

    frame = pd.DataFrame(text_rows(), columns=["text", "label"])
    return audit(frame, PLAIN, label="label")


def tables():
    return audit(blobs(), PLAIN)


def decide(page, row, **answer):
    one = {"row": row, **answer}
    body = {"answers": [one], "mode": "fix", "who": "ann", "request": uuid.uuid4().hex}
    headers = {"origin": page.address.rstrip("/")}
    done = httpx.post(f"{page.address}api/decide", json=body, headers=headers)
    assert done.status_code == 200, done.text


def opened(found, place, port=None):
    return review_labels(found, place, port=port, browser=False, wait=False)


@pytest.mark.parametrize("make", [images, texts, tables])
def test_data_in_memory_are_shown_and_their_labels_corrected(make, tmp_path):
    found = make()
    # By default the first free port is taken: another test may take this one when it is free again.
    with opened(found, tmp_path / "review", port=free_port()) as page:
        about = httpx.get(f"{page.address}api/about").json()
        assert (about["kind"], about["trains"]) == (found.data.kind, False)
        asked = {"who": "ann", "count": 3}
        items = httpx.get(f"{page.address}api/next", params=asked).json()["items"]
        first, second, _ = items
        if found.data.kind == "image":
            picture = httpx.get(f"{page.address}api/picture", params={"row": first["row"]})
            assert picture.headers["content-type"] == "image/png"
        elif found.data.kind == "text":
            assert first["text"] == found.data.inputs[first["row"]]
        else:
            values = [column["value"] for column in first["columns"]]
            expected = sorted(found.data.inputs[first["row"]].tolist())  # unusual ones come first
            assert sorted(values) == pytest.approx(expected, rel=1e-5)
        near = httpx.get(f"{page.address}api/near", params={"row": first["row"]}).json()
        assert near[0]["samples"]
        other = about["classes"][(first["given"] + 1) % 2]
        decide(page, first["row"], kind="label", label=other)
        decide(page, second["row"], kind="drop")
        headers = {"origin": page.address.rstrip("/")}
        refused = httpx.post(f"{page.address}api/retrain", headers=headers)
        assert "audit them in Python" in refused.json()["error"]
    with pytest.raises(httpx.ConnectError):
        httpx.get(page.address)
    given = np.array(found.data.classes)[found.given]
    assert page.answers == {first["id"]: other}
    assert page.labels[first["row"]] == other
    assert (page.labels != given).sum() == 1
    assert np.flatnonzero(~page.keep).tolist() == [second["row"]]
    assert page.found.reviewed == page.answers
    assert page.found.verdict.is_reviewed.sum() == 1
    with opened(found, tmp_path / "review") as again:  # goes on
        left = httpx.get(f"{again.address}api/next", params=asked).json()["items"]
        assert len(left) == 3
        assert not {x["id"] for x in left} & {first["id"], second["id"]}


def test_a_sample_that_was_verified_measures_the_rate(tmp_path):
    found = images()
    with opened(found, tmp_path / "review") as page:
        for _ in range(8):
            asked = {"who": "ann", "count": 5, "mode": "verify"}
            for item in httpx.get(f"{page.address}api/next", params=asked).json()["items"]:
                label = found.data.classes[found.given[item["row"]]]
                body = {"answers": [{"row": item["row"], "kind": "label", "label": label}]}
                body |= {"mode": "verify", "who": "ann", "request": uuid.uuid4().hex}
                headers = {"origin": page.address.rstrip("/")}
                httpx.post(f"{page.address}api/decide", json=body, headers=headers)
    assert found.measured is None
    assert page.found.measured is not None
    assert page.found.measured.value == 0


def test_other_data_are_refused_and_decisions_kept(tmp_path):
    found = images()
    with opened(found, tmp_path / "review") as page:
        decide(page, 0, kind="drop")
    with pytest.raises(AbstainError, match="folder must be new, or hold a review of these"):
        opened(tables(), tmp_path / "review")
    same_labels = audit((255 - found.data.inputs.numpy(), found.given), PLAIN)
    with pytest.raises(AbstainError, match="the data in memory must hold the samples"):
        opened(same_labels, tmp_path / "review")
    assert not page.keep[0]


def test_a_folder_is_needed_and_nothing_is_written_over(tmp_path):
    found = tables()
    with pytest.raises(AbstainError, match="folder must be named"):
        review_labels(found, browser=False)
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(AbstainError, match="folder must be new or empty"):
        review_labels(found, tmp_path, browser=False)


def test_an_audit_of_files_is_opened_where_it_lies(photos):
    found = audit(folder=photos, resume=True)
    with review_labels(found, browser=False, wait=False) as page:
        assert page.folder == photos
        assert httpx.get(f"{page.address}api/about").json()["trains"]


SCRIPT = """
import numpy as np
from abstain import Recipe, audit, review_labels
y = np.arange(60) % 2
x = (np.ones((60, 1, 8, 8)) * 100 * (y + 1)[:, None, None, None]).astype(np.uint8)
page = review_labels(audit((x, y), Recipe(epochs=2, warm_up=1)), "review", browser=False)
print("kept", page.answers)
"""


def test_in_a_script_it_returns_after_ctrl_c(tmp_path):
    script = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    address = re.search(r"http://\S+", script.stdout.readline()).group()
    body = {"answers": [{"row": 7, "kind": "label", "label": "0"}], "who": "ann", "request": "r"}
    headers = {"origin": address.rstrip("/")}
    assert httpx.post(f"{address}api/decide", json=body, headers=headers).status_code == 200
    os.kill(script.pid, signal.SIGINT)
    rest, _ = script.communicate(timeout=60)
    assert rest.splitlines()[-1] == "kept {'7': '0'}"
    assert script.returncode == 0


def test_an_answer_waits_for_no_acknowledgement(tmp_path):
    """Without TCP_NODELAY each takes 40 ms, from the first few on."""
    with opened(tables(), tmp_path / "review") as page, httpx.Client() as client:
        took = []
        for _ in range(30):
            began = time.perf_counter()
            client.get(f"{page.address}api/about")
            took.append(time.perf_counter() - began)
    assert min(took[10:]) < 0.03


HALF = (
    b"GET /api/about HTTP/1.1\r\nHost: 127.0.0.1",
    b"POST /api/decide HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nOrigin: http://127.0.0.1:%d\r\n"
    b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
)


def test_ctrl_c_waits_for_no_request_that_never_ends(texts):
    port = free_port()
    words = [sys.executable, "-m", "abstain", "review", texts, "--no-browser", "--port", port]
    server = subprocess.Popen(
        [str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with ExitStack() as open_:
        open_.callback(server.kill)
        assert server.stdout.readline().startswith("Review: ")
        for half in HALF:
            client = open_.enter_context(socket.create_connection(("127.0.0.1", port), 60))
            client.sendall(half.replace(b"%d", str(port).encode()))
        httpx.get(f"http://127.0.0.1:{port}/api/about")  # it has seen them
        server.send_signal(signal.SIGINT)
        said, errors = server.communicate(timeout=20)
    assert server.returncode == 0
    assert errors == ""
    again = f"abstain review {texts} --port {port} --no-browser"
    assert said.splitlines()[-1] == f"0 decisions are saved. Go on with: {again}"
