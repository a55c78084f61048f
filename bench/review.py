"""The review page on many labels: from a key to the next sample on the screen, in a browser.

    python bench/review.py [--labels 1000000] [--keys 200]

Makes an audit of that many pictures from probabilities (nothing is trained), serves it by `abstain
review`, and drives Debian's chromium by Playwright; then the same on a listening socket that does
not name its protocol, which gets no TCP_NODELAY. Writes results/review.json.
"""

import argparse
import http.client
import json
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from abstain.auditing.audit import audit

RESULTS = Path(__file__).parents[1] / "results" / "review.json"
PORT = 8790
ADDRESS = f"http://127.0.0.1:{PORT}/"
SIDE, CLASSES, NOISE = 8, 10, 0.2


def make_audit(place, labels):
    """An audit of random pictures of which a fifth have a wrong label."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, CLASSES, labels)
    shown = rng.integers(0, 60, (labels, 1, SIDE, SIDE), dtype=np.uint8)
    shown[np.arange(labels), 0, true // 2, true % 2] = 255
    given = np.where(rng.random(labels) < NOISE, rng.integers(0, CLASSES, labels), true)
    logits = rng.normal(size=(labels, CLASSES)).astype(np.float32)
    logits[np.arange(labels), true] += 4
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.savez(place / "data.npz", x=shown, y=given)
    audit(place / "data.npz", probabilities=probabilities, folder=place / "audit")
    return place / "audit"


def serve_delayed(folder):
    """As before the listening socket named its protocol."""
    from abstain.review.serving import server_of
    from abstain.review.session import Session

    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", PORT))
    server_of(Session(folder)).run(sockets=[listening])


@contextmanager
def serving(folder, *, delayed=False):
    """A server, and the seconds until it answered."""
    words = ["-m", "abstain", "review", folder, "--no-browser", "--port", PORT]
    words = [__file__, "--delayed", folder] if delayed else words
    began = time.monotonic()
    server = subprocess.Popen([sys.executable, *map(str, words)])
    try:
        while True:
            try:
                urllib.request.urlopen(f"{ADDRESS}api/about").read()
                break
            except OSError:
                time.sleep(0.2)
        yield time.monotonic() - began
    finally:
        server.terminate()
        server.wait()


def requests(count=200):
    """Milliseconds of each request on one connection, once the kernel delays acknowledgements."""
    client = http.client.HTTPConnection("127.0.0.1", PORT)
    took = []
    for _ in range(count):
        began = time.perf_counter()
        client.request("GET", "/api/log")
        client.getresponse().read()
        took.append(1000 * (time.perf_counter() - began))
    return np.array(took[20:])


def drive(address, keys, pause):
    """Milliseconds from each key to the next sample on the screen."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.goto(address)
        page.wait_for_selector("body[data-row]", timeout=60_000)
        page.wait_for_timeout(2000)
        for k in range(keys):
            page.keyboard.press("a" if k % 3 else "k")
            page.wait_for_timeout(pause)
        page.wait_for_timeout(1000)
        read = "performance.getEntriesByName('next').map((x) => x.duration)"
        found = page.evaluate(read)
        page.click("#again")
        began = time.monotonic()
        page.wait_for_selector("#hint:has-text('Ranked again')", timeout=60_000)
        again = time.monotonic() - began
        browser.close()
    return np.array(found), again


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--labels", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--pause", type=int, default=250, help="milliseconds between keys")
    parser.add_argument("--delayed", type=Path, help="only serve this audit so")
    options = parser.parse_args()
    if options.delayed:
        serve_delayed(options.delayed)
        return
    rows = []
    for labels in options.labels:
        with tempfile.TemporaryDirectory() as name:
            folder = make_audit(Path(name), labels)
            with serving(folder, delayed=True):
                before = requests()
                slow, _ = drive(ADDRESS, options.keys, options.pause)
            with serving(folder) as opening:
                after = requests()
                took, again = drive(ADDRESS, options.keys, options.pause)
        rows.append(
            {
                "labels": labels,
                "keys": options.keys,
                "measured": len(took),
                "milliseconds_median": round(float(np.median(took)), 1),
                "milliseconds_95%": round(float(np.quantile(took, 0.95)), 1),
                "milliseconds_most": round(float(took.max()), 1),
                "within_100_milliseconds": round(float((took <= 100).mean()), 3),
                "without_nodelay_milliseconds_median": round(float(np.median(slow)), 1),
                "without_nodelay_milliseconds_95%": round(float(np.quantile(slow, 0.95)), 1),
                "request_milliseconds_median": round(float(np.median(after)), 2),
                "without_nodelay_request_milliseconds_median": round(float(np.median(before)), 2),
                "opening_seconds": round(opening, 1),
                "again_seconds": round(again, 2),
            }
        )
        print(json.dumps(rows[-1]))
    about = {"machine": platform.machine(), "pause_milliseconds": options.pause}
    RESULTS.write_text(json.dumps({**about, "rows": rows}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
