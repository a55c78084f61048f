import numpy as np
import pytest
import torch
from samples_of_checks import clusters

from abstain.checks import neighbours
from abstain.checks.neighbours import Index, rows_of
from abstain.embed.store.shards import SHARD, Features, write_shard
from abstain.errors import AbstainError


def slow(rows, queries, k, *, own):
    """All distances in float64."""
    distance = np.linalg.norm(queries[:, None].astype(float) - rows[None].astype(float), axis=2)
    if own:
        np.fill_diagonal(distance, np.inf)
    return np.sort(distance, axis=1)[:, :k]


@pytest.mark.parametrize("way", ["all", "cells"])
def test_distances_against_all_pairs(way, monkeypatch):
    if way == "cells":
        monkeypatch.setitem(neighbours.ALL_UP_TO, "cpu", 10)
    rows = rows_of(clusters()[0])
    rows[3] = rows[4]
    index = Index.of(rows)
    found = index.neighbours(5)
    assert (found.index != np.arange(len(rows))[:, None]).all()
    assert found.distance[3, 0] == found.distance[4, 0] == 0
    np.testing.assert_allclose(found.distance, slow(rows, rows, 5, own=True), atol=1e-5)
    queries = rows[:7] + 0.1
    others = index.nearest_to(queries, 5)
    np.testing.assert_allclose(others.distance, slow(rows, queries, 5, own=False), atol=1e-5)


@pytest.mark.parametrize("way", ["all", "cells"])
def test_the_main_components_find_the_nearest_by_all_columns(way, monkeypatch):
    monkeypatch.setitem(neighbours.EXACT_UP_TO, "cpu", 10)
    monkeypatch.setattr(neighbours, "_COLUMNS", 6)
    if way == "cells":
        monkeypatch.setitem(neighbours.ALL_UP_TO, "cpu", 10)
    rng = np.random.default_rng(0)
    spread = np.r_[np.full(34, 0.05), np.ones(6)]  # four in five columns hardly matter, but they do
    turn = np.linalg.qr(rng.normal(size=(40, 40)))[0]
    rows = (3 + spread * rng.normal(size=(800, 40)) @ turn).astype(np.float32)
    index = Index.of(rows)
    right = np.isclose(index.neighbours().distance, slow(rows, rows, 10, own=True), atol=1e-5)
    assert right.mean() > (0.97 if way == "cells" else 0.9999)  # cells have no spare candidates
    queries = rows[:50] + 0.01
    right = np.isclose(index.nearest_to(queries).distance, slow(rows, queries, 10, own=False))
    assert right.mean() > (0.97 if way == "cells" else 0.9999)


def test_a_copy_is_nearest_though_the_main_components_say_little(monkeypatch):
    monkeypatch.setitem(neighbours.EXACT_UP_TO, "cpu", 10)
    monkeypatch.setattr(neighbours, "_COLUMNS", 12)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1000, 60)).astype(np.float32)
    rows[1::2] = rows[::2] + 0.05 * rng.normal(size=(500, 60)).astype(np.float32)
    assert (Index.of(rows).neighbours().index[:, 0] == np.arange(1000) ^ 1).all()


def test_a_gpu_without_memory_leaves_the_search_to_the_cpu(monkeypatch, caplog):
    on_device = neighbours._Search

    def search(rows):
        if rows.is_meta:  # stands for a GPU
            raise torch.OutOfMemoryError
        return on_device(rows)

    monkeypatch.setattr(neighbours, "_Search", search)
    rows = clusters(size=50)[0].numpy()
    found = Index.of(rows, torch.device("meta")).neighbours()
    np.testing.assert_array_equal(found.index, Index.of(rows).neighbours().index)
    assert "too little memory" in caplog.text


@pytest.mark.gpu
@pytest.mark.parametrize("way", ["all", "cells"])
def test_a_gpu_finds_what_the_cpu_finds(way, monkeypatch):
    for device in ("cpu", "cuda"):
        monkeypatch.setitem(neighbours.EXACT_UP_TO, device, 10)
        if way == "cells":
            monkeypatch.setitem(neighbours.ALL_UP_TO, device, 10)
    rows = torch.randn(3000, 300, generator=torch.Generator().manual_seed(0)).numpy()
    one, other = (Index.of(rows, torch.device(x)).neighbours() for x in ("cpu", "cuda"))
    assert (one.index == other.index).mean() > 0.99  # but for ties in single precision
    assert np.isclose(one.distance, other.distance, rtol=1e-3).mean() > 0.999


def test_more_copies_than_neighbours_leave_out_the_sample_itself():
    rows = np.ones((30, 4), np.float32)
    found = Index.of(rows).neighbours(3)
    assert (found.index != np.arange(30)[:, None]).all()
    assert (found.distance == 0).all()


def test_length_counts_only_in_few_columns():
    wide, narrow = torch.rand(5, 11), torch.rand(5, 10)
    np.testing.assert_allclose(rows_of(wide), rows_of(wide * 7), rtol=1e-5)
    np.testing.assert_array_equal(rows_of(narrow), narrow.numpy())


def test_features_on_disk_are_those_in_memory(tmp_path):
    rows = clusters(size=SHARD + 10)[0]
    shards = tuple(tmp_path / name for name in ("a", "b"))
    for path, part in zip(shards, rows.split(SHARD), strict=True):
        write_shard(path, part)
    on_disk = rows_of(Features(shards, len(rows), rows.shape[1]))
    np.testing.assert_allclose(on_disk, rows_of(rows), atol=1e-3)


@pytest.mark.parametrize("features", [torch.full((3, 2), torch.nan), torch.zeros(3)])
def test_what_are_no_features_is_refused(features):
    with pytest.raises(AbstainError, match=r"features must be finite numbers \(samples, columns\)"):
        rows_of(features)
