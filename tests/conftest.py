"""One thread per process, no clock over single examples, and a cache that is thrown away."""

import os
import tempfile

import torch
from hypothesis import settings

# Small tensors gain nothing from more threads, and idle ones may spin.
torch.set_num_threads(1)
# Decoded data must not come from, or go to, the cache of whoever runs the tests.
_cache = tempfile.TemporaryDirectory(prefix="abstain-tests-")
os.environ["ABSTAIN_CACHE"] = _cache.name
# How long an example takes says more about what else the machine does.
settings.register_profile("abstain", deadline=None)
settings.load_profile("abstain")
