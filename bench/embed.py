"""Measure `abstain embed` beside the bare forward pass of its network on the same batches.

    python bench/embed.py --photos 4000 --out results/embed-cpu.json

Photos are drawn at random as JPEG files of 320×240 pixels in a folder, so that they must be read
and decoded. Three things are timed in turn, `--repeats` times: the bare forward pass on batches
that lie ready on the device, `embed` of images in memory, and `embed` of the folder. The cache is
empty each time. It also says what the limit was for the folder: the network, or reading, which is
decoding there. Last, the whole audit of 50,000 × 1,280 features.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import torch
from PIL import Image

from abstain import audit
from abstain.data import load
from abstain.embed.backbones.names import backbone_named
from abstain.embed.embedding import embed
from abstain.embed.store.pipeline import Cost


def make_photos(folder, count):
    for name in "ab":
        (folder / name).mkdir()
    coarse = np.random.default_rng(0).integers(0, 256, (count, 12, 16, 3), dtype=np.uint8)

    def make(k):
        place = folder / "ab"[k % 2] / f"{k:06d}.jpg"
        Image.fromarray(coarse[k]).resize((320, 240)).save(place, quality=90)

    with ThreadPoolExecutor() as threads:
        list(threads.map(make, range(count)))


def bare(backbone, images, device):
    """Seconds of the forward pass alone."""
    size = 256 if device.type == "cuda" else 32
    batches = [part.to(device) for part in images.split(size)]
    began = now(device)
    for part in batches:
        backbone.features(part, device)
    return now(device) - began


def now(device):
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def timed(data, backbone):
    """Seconds of `embed` with an empty cache, and where they went."""
    with tempfile.TemporaryDirectory() as cache:
        cost, began = Cost(), time.perf_counter()
        embed(data, backbone, cache_dir=cache, cost=cost)
        return time.perf_counter() - began, cost


def audit_seconds(count, repeats):
    """The median of whole audits of features with wrong labels."""
    generator = torch.Generator().manual_seed(0)
    given = torch.randint(10, (count,), generator=generator)
    centres = torch.randn(10, 1280, generator=generator) / 4
    features = centres[given] + torch.randn(count, 1280, generator=generator)
    given[: count // 5] = given[: count // 5].roll(1)
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        audit((features.numpy(), given.numpy()))
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    backbone = backbone_named("small:efficientnet-lite2", "image")
    with tempfile.TemporaryDirectory() as place:
        make_photos(Path(place), options.photos)
        folder = load(place, own_size=True)
        ready = load(place, image_size=backbone.size)
        bare(backbone, ready.inputs[:64], device)  # kernels are chosen and loaded
        rows = []
        for _ in range(options.repeats):
            forward = bare(backbone, ready.inputs, device)
            in_memory, _ = timed(ready, backbone)
            from_files, cost = timed(folder, backbone)
            rows.append((forward, in_memory, from_files))
    forward, in_memory, from_files = (statistics.median(x) for x in zip(*rows, strict=True))
    found = {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "cores": os.cpu_count(),
        "photos": options.photos,
        "bare_per_second": round(options.photos / forward, 1),
        "in_memory_share": round(statistics.median(a / b for a, b, _ in rows), 3),
        "from_files_share": round(statistics.median(a / c for a, _, c in rows), 3),
        "from_files_per_second": round(options.photos / from_files, 1),
        "limit": cost.limit,
    }
    if options.rows:
        found["audit_rows"] = options.rows
        found["audit_seconds"] = round(audit_seconds(options.rows, options.repeats), 2)
    print(json.dumps(found, indent=1))
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
