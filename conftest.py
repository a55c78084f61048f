"""One thread per process, no GPU, no deadline for examples, a temporary cache, Ctrl-C at work."""

import os
import signal
import tempfile
from contextlib import suppress

import pytest
import torch

# Small tensors gain nothing from more threads, and idle ones may spin.
torch.set_num_threads(1)
# Decoded data must not come from, or go to, the cache of whoever runs the tests.
_cache = tempfile.TemporaryDirectory(prefix="abstain-tests-")
os.environ["ABSTAIN_CACHE"] = _cache.name
# Nor may it show which models of the hub this machine has.
os.environ["HF_HUB_CACHE"] = os.path.join(_cache.name, "hub")  # noqa: PTH118
# How long an example takes depends on what else the machine does.
with suppress(ImportError):  # a machine with a GPU may lack its native part
    from hypothesis import settings

    settings.register_profile("abstain", deadline=None)
    settings.load_profile("abstain")

# A shell lets background processes ignore Ctrl-C, and so does every process that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    # Tests mean the same on every machine: only those of a GPU see one, and what they start.
    if config.option.markexpr != "gpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def pytest_ignore_collect(collection_path, config):
    """Of `make test-gpu`, only files that need a GPU: others may need what the machine lacks."""
    if config.option.markexpr != "gpu":
        return None
    files = collection_path.rglob("test_*.py") if collection_path.is_dir() else [collection_path]
    return not any("mark.gpu" in path.read_text(encoding="utf-8") for path in files) or None


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("needs a GPU, and `make test-gpu`, which lets tests see it")
