import numpy as np
import pytest
import torch
from samples_of_checks import clusters

from abstain.checks import neighbours
from abstain.checks.neighbours import Index, rows_of
from abstain.embed.shards import SHARD, Features, Store
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
        monkeypatch.setattr(neighbours, "EXACT_UP_TO", 10)
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
    store = Store(tmp_path)
    shards = tuple(
        store.shard("mine", [bytes([k])], lambda part=part: part)
        for k, part in enumerate(rows.split(SHARD))
    )
    on_disk = rows_of(Features(shards, len(rows), rows.shape[1]))
    np.testing.assert_allclose(on_disk, rows_of(rows), atol=1e-3)


@pytest.mark.parametrize("features", [torch.full((3, 2), torch.nan), torch.zeros(3)])
def test_what_are_no_features_is_refused(features):
    with pytest.raises(AbstainError, match=r"features must be finite numbers \(samples, columns\)"):
        rows_of(features)
