"""One thread per process, and a cache that is thrown away."""

import os
import tempfile

import torch

# Small tensors gain nothing from more threads, and idle ones may spin.
torch.set_num_threads(1)
# Decoded data must not come from, or go to, the cache of whoever runs the tests.
_cache = tempfile.TemporaryDirectory(prefix="abstain-tests-")
os.environ["ABSTAIN_CACHE"] = _cache.name
