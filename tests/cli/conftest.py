import numpy as np
import pytest

from audits import blobs


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to run commands in, but for a source."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ABSTAIN_CACHE", str(tmp_path / "cache"))
    x, y = blobs(120)
    np.savez(tmp_path / "blobs.npz", x=x, y=y)
    return tmp_path
