"""Decoded data on disk."""

import os
import subprocess
import sys
import textwrap

import pytest
import torch

from abstain.data import LabeledData, load
from abstain.data.cache import cache_folder, cached, read_entry, write_entry
from abstain.data.contract import NumberedIds
from abstain.data.identity import files_digest


def sample(**changes):
    fields = {
        "inputs": torch.arange(8, dtype=torch.uint8).reshape(2, 1, 2, 2),
        "kind": "image",
        "given": torch.tensor([1, 0]),
        "classes": ("é", "b"),
        "ids": ["x/1.png", "雪"],
        "skipped": ("y",),
        "columns": ("c",),
        "name": "n",
    }
    return LabeledData(**{**fields, **changes})


@pytest.mark.parametrize(
    "data",
    [
        sample(),
        sample(inputs=["", "Käse\n雪"], kind="text"),
        sample(inputs=torch.zeros(2, 3), kind="table", ids=NumberedIds(2, "train-", 6)),
    ],
)
def test_entry_comes_back_as_it_was(tmp_path, data):
    write_entry(tmp_path / "e.safetensors", data)
    back = read_entry(tmp_path / "e.safetensors")
    assert list(back.ids) == list(data.ids)
    for name in ("kind", "classes", "skipped", "columns", "name"):
        assert getattr(back, name) == getattr(data, name)
    assert torch.equal(back.given, data.given)
    if data.kind == "text":
        assert back.inputs == data.inputs
    else:
        assert torch.equal(back.inputs, data.inputs)
        assert back.inputs.dtype == data.inputs.dtype


@pytest.mark.parametrize("kept", [0, 7, 100, -1])
def test_entry_cut_short_is_built_again(tmp_path, kept):
    built = []

    def build():
        built.append(1)
        return sample()

    cached("s", "key", tmp_path, build)
    path = tmp_path / "s-key.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    assert torch.equal(cached("s", "key", tmp_path, build).inputs, sample().inputs)
    assert len(built) == 2
    cached("s", "key", tmp_path, build)
    assert len(built) == 2


def test_entry_of_something_else_is_built_again(tmp_path):
    from safetensors.torch import save_file

    save_file({"weights": torch.zeros(3)}, tmp_path / "s-key.safetensors")
    assert cached("s", "key", tmp_path, sample).name == "n"


def test_failed_write_leaves_nothing_behind_and_costs_only_time(tmp_path, monkeypatch, caplog):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert cached("s", "key", blocked, sample).name == "n"
    assert "not cached" in caplog.text

    def fail(descriptor):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    assert cached("s", "key", tmp_path / "c", sample).name == "n"
    assert list((tmp_path / "c").iterdir()) == []


def test_key_follows_content_not_place(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_bytes(b"same")
    second.write_bytes(b"same")
    assert files_digest([first]) == files_digest([second])
    assert files_digest([first], "option") != files_digest([first])
    second.write_bytes(b"else")
    assert files_digest([first]) != files_digest([second])


def test_key_of_a_large_folder_follows_size_and_time(tmp_path):
    files = [tmp_path / f"{i}" for i in range(20)]
    for path in files:
        path.write_bytes(b"1234")
    before = files_digest(files)
    assert files_digest(files) == before
    os.utime(files[3], ns=(1, 1))
    assert files_digest(files) != before


def test_where_the_cache_lies(tmp_path, monkeypatch):
    assert cache_folder(tmp_path) == tmp_path
    monkeypatch.setenv("ABSTAIN_CACHE", str(tmp_path / "env"))
    assert cache_folder() == tmp_path / "env"
    monkeypatch.delenv("ABSTAIN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "abstain"
    assert len(load("digits", cache_dir=tmp_path / "arg")) == 1442
    assert list((tmp_path / "arg").iterdir())


def test_two_processes_write_the_same_entry_at_once(tmp_path):
    """Each writes entries that the other reads: none is ever half there."""
    script = textwrap.dedent(
        """
        import sys, torch
        from pathlib import Path
        from abstain.data import LabeledData
        from abstain.data.cache import read_entry, write_entry
        folder = Path(sys.argv[1])
        data = LabeledData(inputs=torch.arange(20_000, dtype=torch.int64), kind="table",
                           given=torch.zeros(20_000, dtype=torch.int64), classes=("a",),
                           ids=[str(i) for i in range(20_000)])
        (folder / f"ready-{sys.argv[2]}").touch()
        while len(list(folder.glob("ready-*"))) < 2:
            pass
        for turn in range(30):
            path = folder / f"e{turn % 4}.safetensors"
            write_entry(path, data)
            back = read_entry(path)
            assert back is not None and torch.equal(back.inputs, data.inputs)
            assert back.ids[-1] == "19999"
        """
    )
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path), str(i)], stderr=subprocess.PIPE
        )
        for i in range(2)
    ]
    for run in runs:
        _, errors = run.communicate(timeout=120)
        assert run.returncode == 0, errors.decode()
        assert b"damaged" not in errors
    assert sorted(p.name for p in tmp_path.glob("*.safetensors")) == [
        f"e{i}.safetensors" for i in range(4)
    ]
    assert not list(tmp_path.glob(".*"))


def test_entry_is_as_readable_as_any_new_file(tmp_path):
    (tmp_path / "plain").touch()
    write_entry(tmp_path / "e.safetensors", sample())
    assert (tmp_path / "e.safetensors").stat().st_mode == (tmp_path / "plain").stat().st_mode
