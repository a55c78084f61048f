"""Many people on the review page while everything fails: is anything lost that was acknowledged?

    python bench/review_load.py [--clients 50] [--seconds 20] [--kills 10]

Each client decides labels over HTTP as fast as it is answered, and sends what was not acknowledged
again under the same name, as the page does. Four times: with nothing else going on; with the
server killed by SIGKILL and started again; with a disk that fills and is emptied (a tmpfs of
16 MiB, for which mount needs root); and with the folder of the audit moved away and back. After
each the log must hold every acknowledged entry, and no request twice. Writes
results/review_load.json.
"""

import argparse
import http.client
import json
import platform
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from abstain import audit
from abstain.review.store import Store

RESULTS = Path(__file__).parents[1] / "results" / "review_load.json"
LABELS = 5_000
ROOM = "16m"
PATIENCE = 60.0  # seconds in which all are answered at the end


def make_audit(place):
    """An audit of rows from probabilities; nothing is trained."""
    rng = np.random.default_rng(0)
    given = rng.integers(0, 2, LABELS)
    x = rng.normal(size=(LABELS, 2)).astype(np.float32)
    right = rng.uniform(0.05, 0.95, LABELS)
    np.savez(place / "data.npz", x=x, y=given)
    probabilities = np.stack([1 - right, right], 1)
    audit(place / "data.npz", probabilities=probabilities, folder=place / "audit")
    return place / "audit"


@dataclass
class Load:
    """Clients that decide, and what the server acknowledged."""

    folder: Path
    clients: int
    acknowledged: list[tuple[int, str, str]] = field(default_factory=list)
    """Number of the entry, id of the label, class."""
    milliseconds: list[float] = field(default_factory=list)
    unkept: list[str] = field(default_factory=list)
    """Reasons for which an answer said that a decision is not kept yet."""
    refused: list[str] = field(default_factory=list)
    sent: int = 0

    def __post_init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._stops, self._ends = threading.Event(), float("inf")
        self._lock = threading.Lock()

    def start(self):
        """Start the server; return when it answers."""
        words = [sys.executable, "-m", "abstain", "review", self.folder, "--no-browser"]
        words = [str(x) for x in [*words, "--port", self.port]]
        self.server = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        while True:
            try:
                return self.get("/api/about")
            except OSError:
                time.sleep(0.05)

    def get(self, path):
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        client.request("GET", path)
        return client.getresponse().read()

    @contextmanager
    def running(self):
        """Clients decide meanwhile; at the end all are answered."""
        self._stops.clear()
        self._ends = float("inf")
        threads = [threading.Thread(target=self._decide, args=(k,)) for k in range(self.clients)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._ends = time.monotonic() + PATIENCE
            self._stops.set()
            for thread in threads:
                thread.join()

    def _decide(self, who):
        rng, client = random.Random(who), None
        while not self._stops.is_set():
            label = str(rng.randrange(2))
            one = {"row": rng.randrange(LABELS), "kind": "label", "label": label}
            name = f"{who}-{rng.getrandbits(64)}"
            body = json.dumps({"answers": [one], "who": f"person {who}", "request": name})
            origin = f"http://127.0.0.1:{self.port}"
            headers = {"Content-Type": "application/json", "Origin": origin}
            with self._lock:
                self.sent += 1
            while time.monotonic() < self._ends:  # until it is acknowledged
                began = time.perf_counter()
                try:
                    client = client or http.client.HTTPConnection("127.0.0.1", self.port, timeout=9)
                    client.request("POST", "/api/decide", body, headers)
                    answer = client.getresponse()
                    content = answer.read()
                except (OSError, http.client.HTTPException):
                    client = None
                    time.sleep(0.05)
                    continue
                found = json.loads(content)
                if answer.status == 503:
                    self.unkept.append(found["error"])
                    time.sleep(0.05)
                    continue
                if answer.status != 200:
                    self.refused.append(f"{answer.status} {found}")
                    break
                with self._lock:
                    self.milliseconds.append(1000 * (time.perf_counter() - began))
                    lines = found["entries"]
                    self.acknowledged += [(x["seq"], x["id"], x["after"]["label"]) for x in lines]
                break

    def stop(self):
        """End the server, and compare the log with what was acknowledged."""
        self.server.kill()
        self.server.wait()
        with Store(self.folder / "review.sqlite") as store:
            kept = {(x.seq, x.id, x.after.label) for x in store.decisions.in_order()}
        lost = set(self.acknowledged) - kept
        return {
            "acknowledged": len(self.acknowledged),
            "lost": len(lost),
            "twice_or_unasked": len(kept) - self.sent,
            "refused": len(self.refused),
            "not_kept_yet": len(self.unkept),
            "milliseconds_median": round(float(np.median(self.milliseconds)), 1),
            "milliseconds_95%": round(float(np.quantile(self.milliseconds, 0.95)), 1),
        }


def undisturbed(place, clients, seconds):
    """All decide, and nothing happens."""
    load = Load(make_audit(place), clients)
    load.start()
    with load.running():
        time.sleep(seconds)
    found = load.stop()
    return {**found, "per_second": round(found["acknowledged"] / seconds)}


def killed(place, clients, kills):
    """The server is killed while they decide, and started again."""
    load = Load(make_audit(place), clients)
    rng = random.Random(0)
    load.start()
    with load.running():
        for _ in range(kills):
            time.sleep(rng.uniform(0.3, 1.5))
            load.server.kill()
            load.server.wait()
            load.start()
        time.sleep(1)
    return {**load.stop(), "kills": kills}


def disk_full(place, clients, seconds):
    """The disk of the audit fills, which every answer says; then there is room again."""
    made, disk = make_audit(place), place / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", disk], check=True)
    try:
        load = Load(shutil.copytree(made, disk / "audit"), clients)
        load.start()
        with load.running():
            time.sleep(seconds / 4)
            filler = disk / "filler"
            with filler.open("wb", buffering=0) as stream:
                try:
                    while True:
                        stream.write(bytes(4096))
                except OSError:
                    pass
            time.sleep(seconds / 2)
            before = len(load.acknowledged)
            time.sleep(0.5)
            while_full = len(load.acknowledged) - before
            filler.unlink()
            time.sleep(seconds / 4)
        after = len(load.acknowledged) - before - while_full
        says = sorted({x.partition(":")[0] for x in load.unkept})
        return {
            **load.stop(),
            "acknowledged_while_full": while_full,
            "acknowledged_afterwards": after,
            "says": says,
        }
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def folder_moved(place, clients, seconds):
    """The folder is moved away, which every answer says; the log is had from memory; and back."""
    load = Load(make_audit(place), clients)
    load.start()
    away = place / "away"
    with load.running():
        time.sleep(seconds / 4)
        load.folder.rename(away)
        time.sleep(0.5)  # answers that were under way
        before = list(load.acknowledged)
        time.sleep(seconds / 2)
        while_away = len(load.acknowledged) - len(before)
        (place / "copy.sqlite").write_bytes(load.get("/api/copy"))
        made_anew = load.folder.exists()
        away.rename(load.folder)
        time.sleep(seconds / 4)
    with Store(place / "copy.sqlite") as copy:
        kept = {(x.seq, x.id, x.after.label) for x in copy.decisions.in_order()}
    return {
        **load.stop(),
        "acknowledged_while_away": while_away,
        "acknowledged_but_not_in_the_copy": len(set(before) - kept),
        "folder_made_anew": made_anew,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--kills", type=int, default=10)
    options = parser.parse_args()
    ways = {
        "undisturbed": lambda place: undisturbed(place, options.clients, options.seconds),
        "killed": lambda place: killed(place, options.clients, options.kills),
        "disk_full": lambda place: disk_full(place, options.clients, options.seconds),
        "folder_moved": lambda place: folder_moved(place, options.clients, options.seconds),
    }
    found = {"machine": platform.machine(), "clients": options.clients, "seconds": options.seconds}
    for name, way in ways.items():
        with tempfile.TemporaryDirectory() as place:
            found[name] = way(Path(place))
        print(name, json.dumps(found[name]), flush=True)
    RESULTS.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
