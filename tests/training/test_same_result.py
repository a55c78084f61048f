"""The same command gives the same result, whatever else the machine does meanwhile.

Grouped by what a user runs, real processes: nothing that is measured may choose how numbers round.
"""

import subprocess
import sys

import numpy as np
import pytest
import small_runs as small

from abstain.training.saving.checkpoint import load_checkpoint


@pytest.fixture
def busy():
    """Two processes that take the processors away."""
    others = []
    yield lambda: others.extend(
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)
    )
    for other in others:
        other.kill()
        other.wait()


@pytest.mark.slow
def test_a_busy_machine_changes_nothing(tmp_path, busy):
    rng = np.random.default_rng(0)
    label = rng.integers(0, 5, 2000)
    # A width at which a clock once chose bf16 on one occasion and fp32 on another.
    x = rng.normal(size=(2000, 256)) + np.eye(5, 256)[label] * 3
    np.savez(tmp_path / "table.npz", x=x.astype(np.float32), label=label)

    def run(name):
        command = ["-m", "abstain", "train", "table.npz", "--flip", "0.3", "--epochs", "4"]
        subprocess.run(
            [sys.executable, *command, "--batch", "512", "--out", name, "--json"],
            cwd=tmp_path, check=True, capture_output=True, timeout=300,
        )  # fmt: skip
        return tmp_path / name

    idle = run("idle")
    busy()
    loaded = run("loaded")
    small.assert_same_weights(small.weights(idle), small.weights(loaded))
    one, two = (load_checkpoint(folder / "last.safetensors").tensors for folder in (idle, loaded))
    assert one.keys() == two.keys()
    for name, tensor in one.items():  # to the last bit, NaN too
        if name.startswith(("model/", "averaged/", "optimizer/", "ledger/", "history/steps")):
            assert tensor.numpy().tobytes() == two[name].numpy().tobytes(), name
