import io
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from PIL import Image

from abstain.data.readers import decoders as module
from abstain.data.readers.decoders import Decoders
from abstain.data.readers.images import LazyImages
from abstain.embed.backbones.base import ImageBackbone, TextBackbone
from abstain.embed.store.pipeline import Cost, Pipeline, features_of, in_order, reading_threads

CPU = torch.device("cpu")


class Mean(torch.nn.Module):
    """Remembers the sizes of batches."""

    def __init__(self):
        super().__init__()
        self.sizes = []

    def forward(self, images):
        self.sizes.append(len(images))
        return images.mean((2, 3))


def backbone(network):
    return ImageBackbone("mean", "mean", network, size=4, mean=(0, 0, 0), std=(1, 1, 1))


class Files:
    """Images that are read when asked for; image k has the brightness k."""

    def __init__(self, count, seconds=0.0):
        self.count, self.seconds, self.threads = count, seconds, set()

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        self.threads.add(threading.get_ident())
        time.sleep(self.seconds)
        return torch.full((3, 4, 4), index % 256, dtype=torch.uint8)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("wanted", [[range(100)], [range(40), range(60, 61), range(70, 137)]])
def test_features_of_rows_of_samples_stand_in_order(lazy, wanted):
    files, network = Files(140), Mean()
    inputs = files if lazy else torch.stack([files[k] for k in range(140)])
    with reading_threads() as threads:
        pipeline = Pipeline(inputs, backbone(network), CPU, threads, cost := Cost())
        found = list(pipeline.features(wanted))
    assert [rows for rows, _ in found] == wanted
    for rows, features in found:
        expected = torch.tensor(rows)[:, None].expand(-1, 3) / 255
        torch.testing.assert_close(features.float(), expected, atol=1e-3, rtol=0)
    assert cost.made == sum(map(len, wanted)) == sum(network.sizes)
    assert max(network.sizes) == 32


def test_progress_moves_with_every_batch_and_not_only_at_the_end_of_a_row_of_samples():
    moved = []
    with reading_threads() as threads:
        pipeline = Pipeline(
            Files(100), backbone(Mean()), CPU, threads, Cost(), advance=moved.append
        )
        next(pipeline.features([range(100)]))
    assert moved == [32, 32, 32, 4]


def test_the_next_row_of_samples_is_read_while_the_network_works():
    files = Files(64, seconds=0.002)
    with reading_threads() as threads:
        found = Pipeline(files, backbone(Mean()), CPU, threads, Cost()).features(
            [range(32), range(32, 64)]
        )
        next(found)
        deadline = time.monotonic() + 10
        while len(files.threads) < 2:  # nobody asked for the second yet
            assert time.monotonic() < deadline
            time.sleep(0.01)
        found.close()


@pytest.mark.parametrize(
    ("reading", "network", "limit"), [(0.02, 0.01, "reading"), (0.0, 0.2, "the network")]
)
def test_what_took_longer_is_the_limit(reading, network, limit):
    class Slow(Mean):
        def forward(self, images):
            time.sleep(network)
            return super().forward(images)

    with reading_threads() as threads:
        cost = Cost()
        list(
            Pipeline(Files(96, reading), backbone(Slow()), CPU, threads, cost).features([range(96)])
        )
    assert cost.limit == limit


def test_batches_have_one_size_where_a_gpu_compiles_for_each():
    sizes = []

    class Fake:
        """Says how many it is given; its features are the images."""

        def features(self, samples, device):
            sizes.append(len(samples))
            return samples

    images = torch.arange(11)[:, None]
    for device, expected in ((torch.device("cuda"), [4, 4, 4]), (CPU, [4, 4, 3])):
        assert torch.equal(features_of(images, Fake(), device, 4), images)
        assert sizes == expected
        sizes.clear()


def test_work_is_done_ahead_but_not_far():
    begun = []

    def work(item):
        begun.append(item)
        return item

    with ThreadPoolExecutor(1) as threads:
        done = in_order(threads, work, range(100), ahead=3)
        assert next(done) == 0
        threads.submit(int).result()  # what was handed on before is done by then
        assert max(begun) == 3
        assert list(done) == list(range(1, 100))


def test_an_error_of_a_thread_reaches_the_caller():
    class Broken(Files):
        def __getitem__(self, index):
            raise ValueError(f"image {index}")

    with reading_threads() as threads, pytest.raises(ValueError, match="image 0"):
        list(Pipeline(Broken(3), backbone(Mean()), CPU, threads, Cost()).features([range(3)]))


def test_arrays_are_images_too():
    class Arrays(Files):
        def __getitem__(self, index):
            return np.full((3, 4, 4), index, dtype=np.uint8)

    with reading_threads() as threads:
        pipeline = Pipeline(Arrays(3), backbone(Mean()), CPU, threads, Cost())
        ((_, features),) = pipeline.features([range(3)])
    torch.testing.assert_close(features[:, 0].float(), torch.arange(3) / 255, atol=1e-3, rtol=0)


def test_what_a_batch_took_that_did_not_fit_is_free_when_a_smaller_one_is_tried():
    taken = []

    class Large(Mean):
        def forward(self, images):
            if len(images) > 8:
                hidden = images + 1
                taken.append(weakref.ref(hidden))
                raise torch.OutOfMemoryError
            assert len(taken) == 2
            assert not any(x() is not None for x in taken)
            return super().forward(images)

    with reading_threads() as threads:
        pipeline = Pipeline(Files(32), backbone(network := Large()), CPU, threads, Cost())
        list(pipeline.features([range(32)]))
    assert network.sizes == [8] * 4


def test_long_texts_that_do_not_fit_at_first_are_counted_once():
    sizes = []

    def encode(texts, device):
        sizes.append(len(texts))
        if len(texts) > 10:
            raise torch.OutOfMemoryError
        return torch.zeros(len(texts), 3)

    halved = TextBackbone("texts", "texts", encode, lambda text: [text[:3], text[3:]])
    with reading_threads() as threads:
        list(Pipeline(["abcdef"] * 10, halved, CPU, threads, Cost()).features([range(10)]))
    assert sizes == [20, 10, 10]
    assert halved.longer == 10


@pytest.mark.gpu
@pytest.mark.parametrize("count", [5, 300])
def test_a_gpu_gives_the_features_of_a_cpu(count):
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 7, 3), torch.nn.ReLU(), Mean())
    found = {}
    for device in ("cpu", "cuda"):
        with reading_threads() as threads:
            files = Files(count)
            pipeline = Pipeline(files, backbone(network), torch.device(device), threads, Cost())
            ((_, features),) = pipeline.features([range(count)])
        found[device] = features.cpu().float()
    torch.testing.assert_close(found["cuda"], found["cpu"], atol=0.02, rtol=0.02)
    assert set(network[-1].sizes[-1:]) == {256}


@pytest.mark.gpu
def test_processes_decode_files_for_a_gpu(monkeypatch):
    monkeypatch.setattr(module, "WORTH", 0)
    rng, blobs = np.random.default_rng(0), []
    for _ in range(70):
        stream = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (9, 7, 3), dtype=np.uint8)).save(stream, "PNG")
        blobs.append(stream.getvalue())
    files, found = LazyImages(blobs, None), []
    with Decoders(len(blobs)) as decoders, reading_threads() as threads:
        for own in (decoders, None):
            gpu = torch.device("cuda")
            pipeline = Pipeline(files, backbone(Mean()), gpu, threads, Cost(), own)
            ((_, features),) = pipeline.features([range(70)])
            found.append(features)
        assert decoders._started
    assert torch.equal(*found)


@pytest.mark.gpu
def test_a_gpu_with_too_little_memory_gets_smaller_batches(caplog):
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 512, 1), mean := Mean())
    large = ImageBackbone("net", "net", network, size=224)
    torch.cuda.empty_cache()  # what other tests of this process left there
    memory = torch.cuda.memory_reserved() + 4e9
    torch.cuda.set_per_process_memory_fraction(memory / torch.cuda.mem_get_info()[1])
    try:
        with reading_threads() as threads:
            pipeline = Pipeline(Files(256), large, torch.device("cuda"), threads, Cost())
            ((_, features),) = pipeline.features([range(256)])
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert features.shape == (256, 512)
    assert features.isfinite().all()
    assert max(mean.sizes) < 256
    assert "the device has too little memory: batches of" in caplog.text
