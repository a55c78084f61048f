"""The real clients of the hub, in processes of their own, against a hub on this machine."""

import io
import json
import os
import re
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pytest
import torch
from local_hub import TOKEN, put, serve
from PIL import Image

from abstain.data import BUILTIN, load

# Many commands in one process: importing the clients takes seconds.
_RUN = """
import contextlib, io, json, pathlib, sys, time
import abstain.data.readers.builtin
from abstain.cli import main

# What Debian has packaged is to come from the hub here, too.
abstain.data.readers.builtin._DEBIAN = pathlib.Path("nowhere")
for arguments in json.load(sys.stdin):
    out, err, began = io.StringIO(), io.StringIO(), time.monotonic()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as leaving:
            code = leaving.code
    seconds = time.monotonic() - began
    print(json.dumps([code, out.getvalue(), err.getvalue(), seconds]), flush=True)
"""


class Ended(NamedTuple):
    code: int
    out: str
    err: str
    seconds: float


def commands(lines, folder, endpoint, **environment):
    """Run each command line in `folder`, where the clients keep all they fetch."""
    ours = {
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(folder / "huggingface"),
        "ABSTAIN_CACHE": str(folder / "cache"),
        "OMP_NUM_THREADS": "1",
    }
    theirs = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "ABSTAIN_"))}
    done = subprocess.run(
        [sys.executable, "-c", _RUN],
        input=json.dumps([line.split() for line in lines]),
        capture_output=True,
        text=True,
        cwd=folder,
        env={**theirs, **ours, **environment},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # the libraries' own words
    ended = [Ended(*json.loads(line)) for line in done.stdout.splitlines()]
    return dict(zip(lines, ended, strict=True))


def nowhere():
    """An endpoint at which nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def pictures(column, rows, shape):
    """Image i is of shade i and class i mod 10."""

    def png(shade):
        stream = io.BytesIO()
        Image.fromarray(np.full(shape, shade, np.uint8)).save(stream, format="PNG")
        return {"bytes": stream.getvalue(), "path": None}

    return {column: [png(i) for i in range(rows)], "label": [i % 10 for i in range(rows)]}


def reviews(rows, labelled=True):
    words = ("bad", "good")
    texts = [f"a {words[i % 2]} film, number {i}" for i in range(rows)]
    return {"text": texts, "label": [i % 2 if labelled else -1 for i in range(rows)]}


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """Small repositories of the layout, columns and spelling that the hub's own ones have."""
    root = tmp_path_factory.mktemp("hub")
    digits = list("0123456789")
    clothes = ["T - shirt / top", *BUILTIN["fashion-mnist"].classes[1:]]
    for name, config, column, shape, classes in (
        ("ylecun/mnist", "mnist", "image", (28, 28), digits),
        ("zalando-datasets/fashion_mnist", "fashion_mnist", "image", (28, 28), clothes),
        ("uoft-cs/cifar10", "plain_text", "img", (32, 32, 3), BUILTIN["cifar10"].classes),
    ):
        parts = {"train": pictures(column, 30, shape), "test": pictures(column, 20, shape)}
        put(root, name, {config: parts}, {column: "image", "label": classes}, config)

    text = {"text": "string", "label": ["neg", "pos"]}
    imdb = {"train": reviews(30), "test": reviews(20), "unsupervised": reviews(10, False)}
    put(root, "stanfordnlp/imdb", {"plain_text": imdb}, text, "plain_text")
    short = {"train": reviews(40), "test": reviews(20)}
    put(root, "someone/reviews", {"short": short, "long": {"train": reviews(30)}}, text)
    hidden = {"train": reviews(30), "test": reviews(20, False)}
    put(root, "someone/hidden", {"default": hidden}, text)
    put(root, "someone/one-part", {"default": {"test": reviews(24)}}, text)
    for name in ("gated", "failing", "broken", "shaky"):
        put(root, f"someone/{name}", {"default": {"train": reviews(20)}}, text)
    garbled = root / "someone" / "garbled" / "train.parquet"
    garbled.parent.mkdir()
    garbled.write_bytes(b"PAR1, or so it says")
    for name in ("empty", "script"):
        (root / "someone" / name).mkdir()
    (root / "someone" / "script" / "script.py").write_text("raise SystemExit\n")
    with serve(root) as hub:
        hub.gated.add("someone/gated")
        hub.failing.add("someone/failing")
        hub.breaks.update({"someone/broken": 100, "someone/shaky": 2})
        hub.renamed["someone/opinions"] = "someone/reviews"
        yield hub


_DRY = "--dry-run --json"
_BUILTIN = ("mnist", "fashion-mnist", "cifar10", "imdb")
_REFUSED = {
    "hf:someone/missing": r"got hf:someone/missing, which does not exist or is private",
    "hf:someone/gated": r"hf:someone/gated is gated: accept its terms at http.*set HF_TOKEN",
    "hf:someone/reviews": r"several configurations \(short, long\); choose .*reviews:short$",
    "hf:someone/reviews:shrot": r"\(short, long\), got 'shrot'; did you mean short\?$",
    "hf:someone/empty": r"hf:someone/empty cannot be fetched .*any data files.*download its files",
    "hf:someone/script": r"hf:someone/script cannot be fetched .*scripts are no longer supported",
    "hf:someone/garbled": r"hf:someone/garbled cannot be fetched .*Parquet magic bytes not found",
    "hf:someone/failing": r"hf:someone/failing cannot be fetched: .*500",
    "hf:csv": r"source must be hf:OWNER/NAME .*got 'hf:csv'$",
    "hf:": r"source must be hf:OWNER/NAME .*got 'hf:'$",
    "hf:a/b/c": r"source must be hf:OWNER/NAME .*got 'hf:a/b/c'$",
}


def test_the_real_clients_fetch_and_train_and_then_do_without_the_hub(hub, tmp_path, monkeypatch):
    """One test for all, since its two processes take longer to start than to do the work."""
    # Neither of these is what `hf:` means.
    (tmp_path / "someone" / "reviews").mkdir(parents=True)
    (tmp_path / "someone" / "reviews" / "train.csv").write_text("text,label\n")
    (tmp_path / "table.csv").write_text("text,label\n")
    sizes = {"reviews:long": 30, "opinions:long": 30, "one-part": 24}
    lines = [
        *(f"data get {name}" for name in _BUILTIN),
        "train hf:someone/reviews:short --epochs 1 --json",
        "train hf:someone/hidden --epochs 1 --json",
        *(f"train hf:someone/{source} {_DRY}" for source in sizes),
        "audit hf:ylecun/mnist --epochs 1 --json",
        *(f"train {source} {_DRY}" for source in _REFUSED),
    ]
    ended = commands(lines, tmp_path, hub.endpoint)

    for source, pattern in _REFUSED.items():
        assert_refused(ended.pop(f"train {source} {_DRY}"), pattern)
    assert {line: (done.code, done.err) for line, done in ended.items()} == dict.fromkeys(
        ended, (0, "")
    )
    monkeypatch.setattr("abstain.data.readers.builtin._DEBIAN", tmp_path / "nowhere")
    for name in _BUILTIN:
        assert f"{name}: train 30, test 20;" in ended[f"data get {name}"].out
        assert_decoded(load(name, split="test", cache_dir=tmp_path / "cache"), BUILTIN[name])
    for source, size in sizes.items():
        assert json.loads(ended[f"train hf:someone/{source} {_DRY}"].out)["samples"] == size
    assert json.loads(ended["audit hf:ylecun/mnist --epochs 1 --json"].out)["samples"] == 30
    trained = json.loads(ended["train hf:someone/reviews:short --epochs 1 --json"].out)
    assert trained["samples"] == 40
    assert 0 <= trained["test_accuracy"] <= 1
    assert trained["folder"].startswith("runs/reviews-short-")
    # A test split whose labels are kept back tests nothing, and hinders nothing.
    assert "test_accuracy" not in json.loads(ended["train hf:someone/hidden --epochs 1 --json"].out)

    again, short, never, other = commands(
        [
            "data get mnist",
            "train hf:someone/reviews:short --epochs 1 --json",
            f"train hf:someone/shaky {_DRY}",
            f"train hf:stanfordnlp/imdb:other {_DRY}",
        ],
        tmp_path,
        nowhere(),
    ).values()
    assert (again.code, again.err) == (0, "")
    assert short.code == 0
    assert json.loads(short.out)["test_accuracy"] == trained["test_accuracy"]
    assert short.err.count("the hub cannot be reached") == 1  # however often it was asked
    assert_refused(never, r"shaky cannot be fetched: .* reached \(.*refused\); connect to the netw")
    assert_refused(other, r"of what was fetched before: .*config 'other'")


def assert_decoded(data, builtin):
    assert data.classes == builtin.classes
    assert list(data.ids) == [f"test-{i:06}" for i in range(20)]
    if builtin.kind == "text":
        assert data.inputs == reviews(20)["text"]
        assert data.given.tolist() == reviews(20)["label"]
        return
    side, channels = (32, 3) if builtin.name == "cifar10" else (28, 1)
    shades = torch.arange(20, dtype=torch.uint8).reshape(20, 1, 1, 1)
    assert torch.equal(data.inputs, shades.expand(20, channels, side, side))
    assert data.given.tolist() == [i % 10 for i in range(20)]


def assert_refused(ended, pattern):
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("abstain: source ")
    assert ended.err.count("\n") == 1
    assert re.search(pattern, ended.err.rstrip()), ended.err
    assert ended.seconds < 5


@pytest.mark.slow
def test_broken_connection_is_taken_up_again_or_reported(hub, tmp_path):
    lines = [f"train hf:someone/{name} {_DRY}" for name in ("shaky", "broken")]
    shaky, broken = commands(lines, tmp_path, hub.endpoint).values()
    assert (shaky.code, shaky.err) == (0, "")
    assert json.loads(shaky.out)["samples"] == 20
    assert broken.seconds < 15  # the client tries six times, a second apart
    assert_refused(broken._replace(seconds=0), r"broken cannot be fetched .*; try again")


@pytest.mark.slow
def test_token_opens_a_gated_set_unless_it_is_not_valid(hub, tmp_path):
    line = f"train hf:someone/gated {_DRY}"
    assert commands([line], tmp_path, hub.endpoint, HF_TOKEN=TOKEN)[line].code == 0
    ended = commands([line], tmp_path, hub.endpoint, HF_TOKEN="hf_old")[line]
    assert_refused(ended, r"the hub says: Invalid credentials in Authorization header")


@pytest.mark.slow
@pytest.mark.parametrize("value", ["1", "0"])
def test_offline_mode_is_what_the_library_takes_for_it(hub, tmp_path, value):
    line = f"train hf:someone/hidden {_DRY}"
    ended = commands([line], tmp_path, hub.endpoint, HF_HUB_OFFLINE=value)[line]
    if value == "1":
        assert_refused(ended, r"\(HF_HUB_OFFLINE or HF_DATASETS_OFFLINE is set\); connect to the")
    else:
        assert ended.code == 0


@pytest.mark.slow
def test_folder_that_cannot_be_written_to_is_named(hub, tmp_path):
    (tmp_path / "huggingface").touch()
    line = f"train hf:someone/hidden {_DRY}"
    ended = commands([line], tmp_path, hub.endpoint)[line]
    assert_refused(ended, r"cannot be stored \(.*huggingface.*\); make room there, or set HF_HOME")


@pytest.mark.slow
def test_silent_network_is_given_up_after_seconds(tmp_path):
    """A host that takes the connection and says nothing, as behind some firewalls."""
    line = f"train hf:someone/hidden {_DRY}"
    with socket.create_server(("127.0.0.1", 0)) as mute:
        endpoint = f"http://127.0.0.1:{mute.getsockname()[1]}"
        ended = commands([line], tmp_path, endpoint)[line]
    assert ended.seconds < 15
    assert_refused(ended._replace(seconds=0), r"cannot be reached \(timed out\)")


@pytest.mark.slow
def test_processes_that_fetch_at_once_do_not_disturb_each_other(hub, tmp_path):
    line = "data get imdb"
    with ThreadPoolExecutor(3) as pool:
        every = list(pool.map(lambda _: commands([line], tmp_path, hub.endpoint)[line], range(3)))
    assert [(ended.code, ended.err) for ended in every] == [(0, "")] * 3
