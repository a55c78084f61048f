"""One thread per process, no GPU, no deadline for examples, a temporary cache, Ctrl-C at work."""

import os
import signal
import tempfile

import pytest
import torch
from hypothesis import settings

# Small tensors gain nothing from more threads, and idle ones may spin.
torch.set_num_threads(1)
# Decoded data must not come from, or go to, the cache of whoever runs the tests.
_cache = tempfile.TemporaryDirectory(prefix="abstain-tests-")
os.environ["ABSTAIN_CACHE"] = _cache.name
# Nor may it show which models of the hub this machine has.
os.environ["HF_HUB_CACHE"] = os.path.join(_cache.name, "hub")  # noqa: PTH118
# How long an example takes depends on what else the machine does.
settings.register_profile("abstain", deadline=None)
settings.load_profile("abstain")

# A shell lets background processes ignore Ctrl-C, and so does every process that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    # Tests mean the same on every machine: only those of a GPU see one, and what they start.
    if config.option.markexpr != "gpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("needs a GPU, and `make test-gpu`, which lets tests see it")
