"""Measure the reading: files and calls of three walks through the package, opens per photo.

`python bench/walk.py results/walk.json` follows an audit of a folder of photos, an audit of arrays
and one decision in a review. Of each it counts the source files of abstain that are entered, how
deep its calls go, and how deep they were when the first photo was opened. It counts, too, how
often the audit opens each photo.
"""

import json
import os
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from PIL import Image

import abstain

PACKAGE = str(Path(abstain.__file__).parent)
PHOTOS = 60
HERE = "http://127.0.0.1:8700"


class Walk:
    """Calls into abstain, in all threads, and the files that they open."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.opened: Counter[str] = Counter()
        self.deepest = 0
        self.before_first_photo: int | None = None
        self.files_before_first_photo: int | None = None
        self.is_on = False
        sys.addaudithook(self._hear)  # which cannot be removed

    def _call(self, frame, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(PACKAGE) or frame.f_code.co_name == "<module>":
            return
        self.files.add(name)
        self.deepest = max(self.deepest, depth(frame))

    def _hear(self, event: str, arguments: tuple) -> None:
        if not self.is_on or event != "open" or not isinstance(arguments[0], str | Path):
            return
        name = str(arguments[0])
        if not name.endswith(".jpg") or "/photos/" not in name:
            return
        self.opened[name] += 1
        if self.before_first_photo is None:
            self.before_first_photo = depth(sys._getframe(1), across=True)
            self.files_before_first_photo = len(self.files)

    @contextmanager
    def followed(self):
        self.is_on = True
        threading.setprofile(self._call)
        sys.setprofile(self._call)
        try:
            yield self
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            self.is_on = False

    def figures(self) -> dict:
        found = {"files": len(self.files), "deepest": self.deepest}
        if self.opened:
            found |= {
                "depth_at_first_photo": self.before_first_photo,
                "files_before_first_photo": self.files_before_first_photo,
                "opens_per_photo": round(self.opened.total() / PHOTOS, 2),
                "most_opens_of_a_photo": max(self.opened.values()),
            }
        return found


def depth(frame, *, across: bool = False) -> int:
    """Calls of abstain that wait for this one; `across` threads, those of the main one too."""
    count = 0
    while frame is not None:
        count += frame.f_code.co_filename.startswith(PACKAGE)
        frame = frame.f_back
    if across and threading.current_thread() is not threading.main_thread():
        count += depth(sys._current_frames()[threading.main_thread().ident])
    return count


def photos(folder: Path) -> Path:
    """Noise in two tints, as files of JPEG."""
    rng = np.random.default_rng(0)
    for k in range(PHOTOS):
        height, width = rng.integers(70, 110, 2)
        tint = np.array([40, 0, -40]) * (k % 2)
        pixels = rng.normal(110, 40, (height, width, 3)) + tint
        path = folder / "photos" / ("warm" if k % 2 else "cold") / f"{k}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path, quality=90)
    return folder / "photos"


def of_folder(folder: Path) -> Walk:
    source, walk = photos(folder), Walk()
    with walk.followed():
        abstain.audit(source, folder=folder / "audit")
    return walk


def of_arrays(_: Path) -> Walk:
    rng, walk = np.random.default_rng(0), Walk()
    numbers = rng.normal(size=(400, 8)).astype(np.float32)
    labels = (numbers[:, 0] > 0).astype(int)
    with walk.followed():
        abstain.audit((numbers, labels))
    return walk


def of_decision(folder: Path) -> Walk:
    from starlette.testclient import TestClient

    from abstain.review.app import make_app
    from abstain.review.session import Session

    walk, session = Walk(), Session(folder / "audit")
    try:
        client = TestClient(make_app(session), base_url=HERE, headers={"origin": HERE})
        item = client.get("/api/next", params={"count": 1, "who": "a"}).json()["items"][0]
        answer = {"row": item["row"], "kind": "label", "label": "cold"}
        body = {"answers": [answer], "who": "a", "request": "1"}
        with walk.followed():
            reply = client.post("/api/decide", json=body)
        assert reply.status_code == 200, reply.text
    finally:
        session.close()
    return walk


WALKS: dict[str, Callable[[Path], Walk]] = {
    "audit of a folder of photos": of_folder,
    "audit((X, y))": of_arrays,
    "one decision in a review": of_decision,
}


def main() -> None:
    folder = Path(mkdtemp())

    os.environ["ABSTAIN_CACHE"] = str(folder / "cache")  # nothing is there yet
    try:
        found = {name: walk(folder).figures() for name, walk in WALKS.items()}
    finally:
        shutil.rmtree(folder)
    for name, figures in found.items():
        print(f"{name}: " + ", ".join(f"{x.replace('_', ' ')} {y}" for x, y in figures.items()))
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
