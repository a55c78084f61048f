"""Photos to pixels: threads, our processes and the workers of torch's DataLoader, in turn.

    python bench/decoding.py results/decoding.json [PHOTOS] [ROUNDS]

Photos are noise with edges, 375×500 pixels, as JPEG of quality 90, decoded to 224×224 in batches
of 32. The three ways take turns within one run, so that their ratios hold on a busy machine; the
start of processes counts. Peak memory of the workers is not measured.
"""

import io
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import numpy as np
import torch
from PIL import Image, ImageFilter
from torch.utils.data import DataLoader

from abstain.data.readers.decoders import Decoders
from abstain.data.readers.images import LazyImages

SIZE, BATCH = (224, 224), 32


class Photos(list):
    """Encoded images, as files would be."""

    def subset(self, keep):
        return Photos(self[k] for k in keep)


def photos(count):
    rng = np.random.default_rng(0)
    different = []
    for _ in range(50):
        image = Image.fromarray(rng.integers(0, 256, (375, 500, 3), dtype=np.uint8))
        stream = io.BytesIO()
        image.filter(ImageFilter.GaussianBlur(2)).save(stream, "JPEG", quality=90)
        different.append(stream.getvalue())
    return LazyImages(Photos(different[k % 50] for k in range(count)), 3, SIZE)


def parts(images):
    return [range(k, min(k + BATCH, len(images))) for k in range(0, len(images), BATCH)]


def by_threads(images):
    with ThreadPoolExecutor((os.cpu_count() or 1) + 2) as pool:
        for _ in pool.map(lambda part: torch.stack([images[k] for k in part]), parts(images)):
            pass


def by_decoders(images):
    with Decoders(len(images)) as decoders, ThreadPoolExecutor((os.cpu_count() or 1) + 2) as pool:
        for _ in pool.map(lambda part: decoders.images(images, part), parts(images)):
            pass


def by_loader(images):
    for _ in DataLoader(images, batch_size=BATCH, num_workers=os.cpu_count() or 1):
        pass


WAYS = {"threads": by_threads, "decoders": by_decoders, "DataLoader": by_loader}


def main():
    count, rounds = (int(x) for x in [*sys.argv[2:], 3000, 3][:2])
    torch.set_num_threads(1)
    images, seconds = photos(count), {name: [] for name in WAYS}
    for _ in range(rounds):
        for name, way in WAYS.items():
            began = time.monotonic()
            way(images)
            seconds[name].append(round(time.monotonic() - began, 2))
    found = {
        "photos": count,
        "cores": os.cpu_count(),
        "seconds": seconds,
        "photos_per_second": {name: round(count / median(x)) for name, x in seconds.items()},
    }
    print(json.dumps(found["photos_per_second"]))
    Path(sys.argv[1]).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
