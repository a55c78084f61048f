"""Files are there whole or not at all."""

import os
import stat

import pytest

from abstain.support.files import in_the_way, publish, publish_text


def test_what_fails_halfway_leaves_the_old_file_and_no_trace(tmp_path):
    path = tmp_path / "a.txt"
    publish_text(path, "old")

    def fail(temporary):
        temporary.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publish(path, fail)
    assert path.read_text() == "old"
    assert [x.name for x in tmp_path.iterdir()] == ["a.txt"]


def test_folders_are_made_and_files_are_as_open_as_others(tmp_path):
    path = tmp_path / "a" / "b.bin"
    publish(path, lambda temporary: (temporary.unlink(), _private(temporary)))
    plain = tmp_path / "plain"
    plain.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def _private(path):
    with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as stream:
        stream.write(b"x")


def test_text_that_utf8_cannot_encode_is_an_error_or_replaced(tmp_path):
    with pytest.raises(UnicodeEncodeError):
        publish_text(tmp_path / "a.txt", "\udc00")
    publish_text(tmp_path / "b.txt", "\udc00", errors="replace")
    assert [x.name for x in tmp_path.iterdir()] == ["b.txt"]


def test_what_is_in_the_way_of_a_folder_is_found_before_it_is_made(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    assert in_the_way(tmp_path / "a" / "b") is None
    assert in_the_way(tmp_path) is None
    assert in_the_way(tmp_path / "file" / "b") == tmp_path / "file"
    monkeypatch.setattr("os.access", lambda place, mode: place != tmp_path)
    assert in_the_way(tmp_path / "a" / "b") == tmp_path
