"""Processes that decode (decoders.py), and what they run (decoding.py)."""

import io
import os
import signal
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from PIL import Image

from abstain.data.readers import decoders as module
from abstain.data.readers import decoding
from abstain.data.readers.decoders import Decoders
from abstain.data.readers.images import LazyImages
from abstain.errors import DataError

SIZE = (12, 10)


class Blobs(list):
    def subset(self, keep):
        return Blobs(self[k] for k in keep)


def encoded(image, kind="PNG", **settings):
    stream = io.BytesIO()
    image.save(stream, kind, **settings)
    return stream.getvalue()


@pytest.fixture
def images():
    """Images of many kinds, and one that a camera held upright."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (20, 30, 3), dtype=np.uint8)
    photo = Image.fromarray(pixels)
    deep = Image.fromarray(rng.integers(0, 1 << 16, (9, 14), dtype=np.uint16))
    exif = Image.Exif()
    exif[0x0112] = 6
    return LazyImages(
        Blobs(
            [
                encoded(photo),
                encoded(photo, "JPEG", exif=exif),
                encoded(photo.convert("L")),
                encoded(photo.convert("P"), "GIF"),
                encoded(photo.convert("CMYK"), "JPEG"),
                encoded(photo.convert("RGBA"), "WEBP"),
                encoded(deep),
            ]
        ),
        channels=3,
        resize=SIZE,
    )


@pytest.fixture
def always(monkeypatch):
    monkeypatch.setattr(module, "WORTH", 0)


def is_running(process):
    return process.poll() is None


@pytest.mark.parametrize("channels", [1, 3])
def test_processes_decode_as_the_images_do(images, always, channels):
    images = LazyImages(images.blobs, channels, images.resize)
    rows = [6, 0, 3, 3, 1, 5, 2, 4]
    with Decoders(len(rows)) as decoders, ThreadPoolExecutor(2) as threads:
        parts = list(threads.map(lambda part: decoders.images(images, part), [rows[:5], rows[5:]]))
        started = [x.process for x in decoders._started]
        assert all(map(is_running, started))
    assert 1 <= len(started) <= 2
    assert not any(map(is_running, started))
    assert torch.cat(parts).shape == (8, channels, *SIZE)
    assert torch.equal(torch.cat(parts), torch.stack([images[row] for row in rows]))


def test_few_images_start_nothing(images):
    with Decoders(module.WORTH - 1) as decoders:
        assert torch.equal(decoders.images(images, [2])[0], images[2])
        assert decoders._started == []


def test_an_image_that_breaks_is_named_and_the_next_are_decoded(images, always):
    images.blobs[4] = images.blobs[0][:60]
    with Decoders(8) as decoders:
        for _ in range(2):
            with pytest.raises(DataError, match="image 4 must be readable, got: "):
                decoders.images(images, range(3, 6))
            assert torch.equal(decoders.images(images, [1])[0], images[1])
        assert len(decoders._started) == 1


def test_a_process_that_was_killed_is_not_needed(images, always):
    expected = torch.stack([images[row] for row in range(7)])
    with Decoders(8) as decoders:
        decoders.images(images, [0])
        decoders._started[0].process.kill()
        decoders._started[0].process.wait()
        for _ in range(2):
            assert torch.equal(decoders.images(images, range(7)), expected)


def test_a_process_that_says_something_else_is_not_listened_to(
    images, always, monkeypatch, tmp_path
):
    """As start-up files of an interpreter may do."""
    (tmp_path / "sitecustomize.py").write_text("print('ready')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Decoders(8) as decoders:
        for row in range(7):
            assert torch.equal(decoders.images(images, [row])[0], images[row])
        assert decoders._own.decoder is None


def test_where_no_process_can_be_started_the_thread_decodes(images, always, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with Decoders(8) as decoders:
        assert torch.equal(decoders.images(images, [5])[0], images[5])


def test_a_file_that_is_gone_is_an_error_of_the_images(always):
    class Gone(Blobs):
        def __getitem__(self, index):
            raise FileNotFoundError(f"no {index}.png")

    with Decoders(8) as decoders, pytest.raises(DataError, match=r"image 1 must be.*no 1\.png"):
        decoders.images(LazyImages(Gone([b"", b""]), 3, SIZE), [1])


def test_a_row_of_a_table_that_cannot_be_read_is_an_error_of_the_images(images, always):
    class Broken(Blobs):
        def __getitem__(self, index):
            if index == 1:
                raise ValueError("the table is broken")
            return super().__getitem__(index)

    broken = LazyImages(Broken(images.blobs), 3, SIZE)
    with Decoders(8) as decoders:
        with pytest.raises(DataError, match="image 1 must be readable, got: the table is broken"):
            decoders.images(broken, [0, 1])
        assert torch.equal(decoders.images(broken, [2])[0], images[2])


def test_of_large_files_one_is_in_memory_at_a_time(images, always):
    class Large(Blobs):
        def __getitem__(self, index):
            return super().__getitem__(index) + bytes(1 << 20)

    with Decoders(8) as decoders:
        decoders.images(images, [0])
        tracemalloc.start()
        try:
            decoders.images(LazyImages(Large(images.blobs), 3, SIZE), range(7))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 3 << 20


@pytest.mark.skipif(not hasattr(os, "kill"), reason="needs signals")
def test_an_interrupt_is_for_the_process_that_asks(images, always):
    with Decoders(8) as decoders:
        decoders.images(images, [0])
        process = decoders._started[0].process
        process.send_signal(signal.SIGINT)
        assert torch.equal(decoders.images(images, [1])[0], images[1])
        assert is_running(process)


def test_the_program_imports_neither_torch_nor_the_package():
    shown = (
        "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__'); print(*sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-P", "-c", shown, decoding.__file__],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
    )  # fmt: skip
    loaded = {name.partition(".")[0] for name in run.stdout.split()}
    assert "numpy" in loaded
    assert loaded.isdisjoint({"torch", "abstain", "pandas"})
