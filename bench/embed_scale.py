"""Measure an audit from features on disk beside the same audit from features in memory.

    python bench/embed_scale.py --on-disk 10000000 --output results/embed-scale.json

Made-up texts, two classes, a tenth of the labels wrong, by `small:wordllama`. First all features
are made, with an empty cache. Then the same audit is made twice, each time in a process of its
own: with a budget that holds all features in memory, and with one that holds none. Memory is the
peak of what the process and its children hold of their own, without the pages of mapped files,
which the system takes back when it needs them. Of `--on-disk` texts there is no audit in memory.

Ends with 1 if the aim is missed: an epoch from disk in at most twice the time of one in memory.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import torch

from abstain import Recipe, audit
from abstain.data import LabeledData
from abstain.data.contract import NumberedIds
from abstain.embed import encoder
from abstain.embed.backbones.names import backbone_named
from abstain.embed.embedding import embed

BACKBONE = "small:wordllama"
EPOCHS, WRONG = 3, 0.1
AIM = 2.0
JUDGED = 10**6
"""Texts up to which out-of-sample probabilities are made too."""
EVERY = 0.2
"""Seconds between two looks at the memory."""
WORDS = (
    "dull awful boring weak poor terrible flat slow wooden tired",
    "great superb lovely fine strong moving bright witty fresh honest",
)
NOUNS = ["plot", "cast", "music", "script", "camera", "humour", "dialogue", "pace", "story", "hero"]


def made_up(count):
    """Distinct texts about films: three judgements, of which most agree with the class."""
    rng = np.random.default_rng(0)
    true = rng.integers(2, size=count)
    agrees = rng.random((count, 3)) < 0.8
    words = [group.split() for group in WORDS]
    which, nouns = rng.integers(10, size=(count, 3)), rng.integers(10, size=(count, 3))
    texts = []
    for k in range(count):
        said = (
            f"the {NOUNS[nouns[k, j]]} is {words[true[k] if agrees[k, j] else 1 - true[k]][x]}"
            for j, x in enumerate(which[k])
        )
        texts.append(f"{', '.join(said)}; seen {k} times")
    given = np.where(rng.random(count) < WRONG, 1 - true, true)
    return LabeledData(
        inputs=texts,
        given=torch.from_numpy(given),
        classes=("-", "+"),
        ids=NumberedIds(count),
        kind="text",
        name=f"{count:,} texts",
    )


class Peak(threading.Thread):
    """The most memory that this process and its children held, in GiB."""

    def __init__(self):
        super().__init__(daemon=True)
        self.gib, self.mapped = 0.0, 0.0

    def run(self):
        while True:
            self.look()
            time.sleep(EVERY)

    def look(self):
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        held = [_held(pid) for pid in ("self", *children)]
        self.gib = max(self.gib, sum(own for own, _ in held) / 2**20)
        self.mapped = max(self.mapped, sum(mapped for _, mapped in held) / 2**20)


def _held(pid):
    """KiB of a process, what it shares with others in part: its own, and of mapped files."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:  # it has ended
        return 0, 0
    kib = {name: int(rest.split()[0]) for name, rest in (line.split(":") for line in lines)}
    return kib["Pss_Anon"] + kib["Pss_Shmem"], kib["Pss_File"]


def run(count, way):
    """One phase after the other, with its seconds; the peak of memory, and the data's part."""
    seconds = {}

    def timed(name, work):
        def doing(*args, **settings):
            began = time.perf_counter()
            result = work(*args, **settings)
            seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - began
            return result

        return doing

    data = made_up(count)
    peak = Peak()
    peak.look()
    texts = peak.gib
    peak.start()
    backbone = backbone_named(BACKBONE, "text")
    found = {}
    if way == "embed":
        timed("embed", embed)(data, backbone)
    else:
        encoder.MEMORY_BUDGET = 0 if way == "disk" else 1 << 60
        own = encoder.BackboneEncoder
        encoder.embed = timed("reading the cache", embed)
        own.fit = timed("fit", own.fit)
        own.encode = timed("encode", own.encode)
        # Whatever would be chosen by its speed is named: both ways are to compute the same.
        recipe = Recipe(epochs=EPOCHS, warm_up=1, precision="fp32")
        audited = timed("audit", audit)(data, recipe, backbone=BACKBONE, check=["labels"])
        epochs = [row["seconds"] for row in audited.trained.history.epochs]
        seconds["an epoch"] = median(epochs)
        found["rate"] = audited.noise_rate.value
        found["scores"] = float(audited.verdict.label_score.sum())
        if count <= JUDGED:
            probabilities = timed("probabilities", lambda: audited.probabilities)()
            found["probabilities"] = float(probabilities[:, 0].astype(np.float64).sum())
    peak.look()
    own = {"texts_gib": texts, "gib": peak.gib, "mapped_gib": peak.mapped}
    return {**found, **own, "seconds": seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, nargs="*", default=[200_000, 1_000_000])
    parser.add_argument("--on-disk", type=int, nargs="*", default=[])
    parser.add_argument("--output", type=Path, help="where to keep the figures, as JSON")
    parser.add_argument("--case", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        count, way = options.case
        print(json.dumps(run(int(count), way)))
        return 0
    rows = []
    for count in (*options.texts, *options.on_disk):
        ways = ["embed", *(["memory"] if count in options.texts else []), "disk"]
        with tempfile.TemporaryDirectory(dir=os.environ.get("ABSTAIN_CACHE")) as cache:
            row = {"texts": count}
            for way in ways:
                done = subprocess.run(
                    [sys.executable, __file__, "--case", str(count), way],
                    check=True,
                    stdout=subprocess.PIPE,
                    env={**os.environ, "ABSTAIN_CACHE": cache},
                )
                row[way] = json.loads(done.stdout.splitlines()[-1])
                print(json.dumps({way: row[way]}, indent=1), flush=True)
        rows.append(row)
        if options.output:
            options.output.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    missed = 0
    for row in rows:
        if "memory" in row:
            times = row["disk"]["seconds"]["an epoch"] / row["memory"]["seconds"]["an epoch"]
            print(f"{row['texts']:,} texts: an epoch from disk takes {times:.2f} times as long")
            missed += times > AIM
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
