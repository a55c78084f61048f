"""Tests of data see no cache and no data folder but their own."""

import io

import numpy as np
import pytest
from PIL import Image


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch, request):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("ABSTAIN_CACHE", str(folder))
    if "slow" not in request.keywords:
        monkeypatch.delenv("ABSTAIN_DATA", raising=False)
    return folder


def png(value=0, size=(4, 5), mode="L"):
    """An encoded image of height and width `size`, of one shade."""
    shape = size if mode == "L" else (*size, 3)
    stream = io.BytesIO()
    Image.fromarray(np.full(shape, value, dtype=np.uint8)).save(stream, format="PNG")
    return stream.getvalue()


@pytest.fixture
def make_png():
    return png


@pytest.fixture
def image_folder(tmp_path):
    """Two classes of three grey images; the shade of an image tells which it is."""

    def make(root=tmp_path / "photos", classes=("cat", "dog"), per_class=3, **options):
        for k, name in enumerate(classes):
            (root / name).mkdir(parents=True)
            for i in range(per_class):
                (root / name / f"{i}.png").write_bytes(png(10 * k + i, **options))
        return root

    return make
