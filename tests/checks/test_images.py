import io

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.ndimage import gaussian_filter, laplace
from scipy.stats import entropy

from abstain.checks import images as checks_of_images
from abstain.checks.images import image_issues, measure
from abstain.data import load
from abstain.data.readers import decoders
from abstain.data.readers.images import LazyImages


@pytest.fixture(scope="module")
def digits():
    return load("mnist-5k").inputs[:500].numpy()


def issues(images, *, own_size=False):
    found = image_issues(measure(torch.from_numpy(images)), own_size=own_size)
    return {name: x.is_issue for name, x in found}


def test_measures_against_a_slow_version(digits):
    found = measure(torch.from_numpy(digits))
    for k in range(20):
        grey = digits[k, 0] / 255.0
        counts, _ = np.histogram(grey, 32, (0, 1))
        assert found.brightness[k] == pytest.approx(np.sort(grey.ravel())[775], abs=1e-6)
        expected = laplace(grey, mode="nearest").std() / grey.std()
        assert found.sharpness[k] == pytest.approx(expected, rel=1e-4)
        assert found.information[k] == pytest.approx(entropy(counts, base=2), rel=1e-4)
        assert found.contrast[k] == pytest.approx(grey.std(), rel=1e-4)


def test_planted_dark_blurry_and_blank_images_are_found(digits):
    images = digits.copy()
    images[:10] = images[:10] * 0.2
    for k in range(10, 20):
        images[k] = gaussian_filter(images[k].astype(float), (0, 2.5, 2.5))
    images[20] = 200
    found = issues(images)
    assert found["dark"][:10].all()
    assert not found["dark"][20:].any()  # of a thin stroke, blur leaves little light
    assert np.flatnonzero(found["blurry"]).tolist() == [*range(10, 20)]
    assert found["low_information"][20]
    assert found["low_information"].sum() <= 3
    assert "odd_size" not in found


def test_floats_are_measured_as_bytes_are(digits):
    bytes_, floats = (measure(torch.from_numpy(x)) for x in (digits, digits / np.float32(127) - 1))
    np.testing.assert_allclose(floats.brightness, bytes_.brightness, atol=1e-3)
    np.testing.assert_allclose(floats.sharpness, bytes_.sharpness, rtol=1e-3)


@pytest.mark.parametrize("shape", [(2, 600), (600, 1)])
def test_thin_images_are_measured_too(shape):
    """As series of a few channels are, in an array of three axes."""
    rows = torch.rand(3, 1, *shape, generator=torch.Generator().manual_seed(0))
    measures = measure(rows)
    assert (measures.height, measures.width) == tuple(pytest.approx([x] * 3) for x in shape)
    assert (measures.contrast > 0).all()


def test_large_images_are_measured_as_small_ones_are():
    """A picture of twelve megapixels has no edges as sharp as a pixel."""
    small = torch.randint(0, 256, (2, 1, 256, 256), dtype=torch.uint8)
    large = small.repeat_interleave(3, dim=2).repeat_interleave(3, dim=3)
    found, expected = measure(large), measure(small)
    np.testing.assert_allclose(found.sharpness, expected.sharpness, rtol=1e-4)
    np.testing.assert_allclose(found.brightness, expected.brightness, rtol=1e-4)


class Files(list):
    """Encoded images in memory; None stands for one that is missing."""

    def __getitem__(self, index):
        blob = super().__getitem__(index)
        if blob is None:
            raise FileNotFoundError("gone")
        return blob


def encoded(height, width, rng):
    stream = io.BytesIO()
    pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(stream, "png")
    return stream.getvalue()


def test_odd_sizes_and_shapes_are_those_of_the_files():
    rng = np.random.default_rng(0)
    sizes = [(40, 60)] * 10 + [(60, 40), (8, 12), (300, 450), (20, 120), (45, 60)]
    lazy = LazyImages(Files(encoded(*size, rng) for size in sizes), 3, (32, 32))
    measures = measure(lazy)
    assert [*zip(measures.height, measures.width, strict=True)] == sizes
    found = dict(image_issues(measures, own_size=True))
    assert np.flatnonzero(found["odd_size"].is_issue).tolist() == [11, 12]
    assert np.flatnonzero(found["odd_aspect_ratio"].is_issue).tolist() == [13]


def test_files_of_several_sizes_are_measured_as_each_by_itself(monkeypatch):
    rng = np.random.default_rng(0)
    sizes = [(40, 60), (300, 450), (8, 12)] * 12 + [(40, 60)] * 9
    blobs = [encoded(*size, rng) for size in sizes]
    each = [measure(LazyImages(Files([blob]), 3)) for blob in blobs]
    for worth in (len(blobs) + 1, 0):  # by threads, and by processes
        monkeypatch.setattr(decoders, "WORTH", worth)
        together = measure(LazyImages(Files(blobs), 3))
        for name in ("brightness", "sharpness", "information", "contrast", "height", "width"):
            alone = np.concatenate([getattr(x, name) for x in each])
            np.testing.assert_allclose(getattr(together, name), alone, rtol=1e-5)


@pytest.mark.gpu
def test_a_gpu_measures_as_a_cpu_does(digits):
    images = torch.from_numpy(digits)
    found, expected = (checks_of_images._measure(images, torch.device(x)) for x in ("cuda", "cpu"))
    for name in ("brightness", "sharpness", "information", "contrast"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-4)


def test_a_file_that_is_missing_or_cannot_be_opened_is_measured_as_unknown(monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)  # Pillow raises beyond twice as many
    blobs = [encoded(9, 9, rng), None, encoded(9, 9, rng), encoded(20, 20, rng), b"no image"]
    blobs += [encoded(9, 9, rng)[:-60], encoded(7, 7, rng)[:-60]]  # headers as of the others
    measures = measure(LazyImages(Files(blobs), 3))
    assert np.isnan(measures.contrast).tolist() == [False, True, False, True, True, True, True]
    assert not any(x.is_issue.any() for _, x in image_issues(measures, own_size=True))
