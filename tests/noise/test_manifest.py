"""The record of planted noise: saved, read, replayed, damaged."""

import dataclasses
import json
import os
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from noisy_labels import (
    draw_labels,
    seeds,
)

from abstain import noise
from abstain.errors import AbstainError


def make(kind="symmetric", size=60, m=5, seed=0, ids=None, **options):
    true = draw_labels(m, size, seed)
    ids = np.array([f"img/{i}-é.png" for i in range(size)]) if ids is None else ids
    features = np.random.default_rng(seed).normal(size=(size, 4)) if kind == "instance" else None
    return noise.plant(true, ids, kind, 0.4, seed, num_classes=m, features=features, **options)


@settings(max_examples=25)
@given(st.sampled_from(noise.KINDS), seeds, st.booleans(), st.sampled_from(["U", "i", "u", "O"]))
def test_manifest_round_trip(tmp_path_factory, kind, seed, exact, id_type):
    ids = {
        "U": None,
        "i": np.arange(60) - 30,
        "u": np.arange(60, dtype=np.uint64) + 2**63,
        "O": np.array([f"row {i}" for i in range(60)], dtype=object),
    }[id_type]
    manifest = make(kind, seed=seed, exact=exact, ids=ids)
    path = tmp_path_factory.mktemp("manifest") / "noise.manifest"
    manifest.save(path)
    loaded = noise.NoiseManifest.load(path)
    for field in dataclasses.fields(noise.NoiseManifest):
        saved, read = getattr(manifest, field.name), getattr(loaded, field.name)
        np.testing.assert_array_equal(saved, read, err_msg=field.name)
        assert np.asarray(saved).dtype == np.asarray(read).dtype
    assert [file.name for file in path.parent.iterdir()] == ["noise.manifest"]
    assert set(loaded.versions) == {"abstain", "numpy", "python"}


@given(st.sampled_from(noise.KINDS), seeds)
def test_the_same_seed_plants_the_same_labels(kind, seed):
    np.testing.assert_array_equal(make(kind, seed=seed).given, make(kind, seed=seed).given)


def test_manifest_counts_what_is_wrong():
    manifest = make(exact=True)
    assert manifest.flipped.sum() == 24
    assert manifest.realised_rate == 0.4
    np.testing.assert_array_equal(manifest.flipped, manifest.given != manifest.true)


def test_planting_leaves_no_thread_to_the_caller_s_arrays():
    true, ids = np.array([0, 1, 2]), np.array([5, 6, 7])
    manifest = noise.plant(true, ids, "symmetric", 0.0, 0, num_classes=3)
    true[:], ids[:] = 0, 0
    np.testing.assert_array_equal(manifest.true, [0, 1, 2])
    np.testing.assert_array_equal(manifest.given, [0, 1, 2])
    np.testing.assert_array_equal(manifest.ids, [5, 6, 7])


@given(seeds)
def test_replay_goes_by_id_not_by_position(seed):
    manifest = make(seed=seed)
    order = np.random.default_rng(seed).permutation(60)
    replayed = manifest.replay(manifest.true[order], manifest.ids[order])
    np.testing.assert_array_equal(replayed, manifest.given[order])


def test_replay_refuses_other_samples():
    manifest = make()
    true, ids = manifest.true, manifest.ids
    other_ids = ids.copy()
    other_ids[3] = "new.png"
    changed = true.copy()
    changed[[3, 7]] = (changed[[3, 7]] + 1) % 5
    for labels, names, message in [
        (true, other_ids, "new.png, which it lacks"),
        (true[1:], ids[1:], "60 strings, got 59 strings"),
        (true, np.arange(60), "60 strings, got 60 integers"),
        (changed, ids, r"img/3-é.png had .* \(and 1 more\)"),
        (true[1:], ids, "one label per id, 60, got 59"),
        (true, np.repeat(ids[:30], 2), "unique"),
    ]:
        with pytest.raises(AbstainError, match=message):
            manifest.replay(labels, names)


def test_a_failed_save_keeps_the_old_file_and_leaves_nothing(tmp_path, monkeypatch):
    path = tmp_path / "noise.npz"
    old = make(seed=1)
    old.save(path)

    def full_disk(_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(AbstainError, match="no space left"):
        make(seed=2).save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["noise.npz"]
    assert noise.NoiseManifest.load(path).seed == 1


def test_a_reader_of_the_old_file_is_not_disturbed(tmp_path):
    path = tmp_path / "noise.npz"
    make(seed=1).save(path)
    before = path.read_bytes()
    with path.open("rb") as reader:
        make(seed=2).save(path)
        assert reader.read() == before
    assert noise.NoiseManifest.load(path).seed == 2


def test_saving_into_a_missing_folder_says_so(tmp_path):
    with pytest.raises(AbstainError, match="path must lie in a folder that exists"):
        make().save(tmp_path / "missing" / "noise.npz")


@pytest.fixture(scope="module")
def saved_bytes(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "noise.npz"
    make().save(path)
    return path.read_bytes()


@settings(max_examples=200)
@given(st.data())
def test_a_damaged_file_is_refused_or_read_right(tmp_path_factory, saved_bytes, data):
    content = bytearray(saved_bytes)
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    else:
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    path.write_bytes(content)
    try:
        loaded = noise.NoiseManifest.load(path)
    except AbstainError as error:
        assert "path must name a noise manifest" in str(error)  # noqa: PT017
    else:
        # the damage hit a byte that no reader looks at, such as a date
        np.testing.assert_array_equal(loaded.given, make().given)


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was run",))


def test_foreign_files_are_refused(tmp_path):
    np.save(tmp_path / "array.npy", np.arange(3))
    np.savez(tmp_path / "other.npz", weights=np.arange(3))
    np.savez(tmp_path / "objects.npz", header=np.array([Bomb()], dtype=object))
    (tmp_path / "pickle").write_bytes(pickle.dumps(Bomb()))
    (tmp_path / "text").write_text("not a manifest")
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    names = [file.name for file in tmp_path.iterdir()]
    for name in [*names, "missing"]:
        with pytest.raises(AbstainError, match=f"path must name a noise manifest.*{name}"):
            noise.NoiseManifest.load(tmp_path / name)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "abstain-noise-999"},
        {"num_classes": 3},
        {"num_classes": 6},
        {"kind": "instance"},
        {"kind": "gremlins"},
        {"rate": 1.5},
        {"seed": -1},
        {"surprise": True},
    ],
)
def test_a_header_that_contradicts_its_arrays_is_refused(tmp_path, saved_bytes, change):
    path = tmp_path / "noise.npz"
    path.write_bytes(saved_bytes)
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(str(arrays["header"])) | change
    np.savez(path, **{**arrays, "header": np.array(json.dumps(header))})
    with pytest.raises(AbstainError):
        noise.NoiseManifest.load(path)
