import pickle
from pathlib import Path

import pytest
import torch

from abstain.data.identity import digest
from abstain.embed.store.shards import SHARD, Features, ShardFolder, is_whole, write_shard
from abstain.errors import AbstainError


def joined(contents):
    return b"".join(map(digest, contents))


def test_a_shard_is_read_as_it_was_written(tmp_path):
    rows = torch.randn(3, 4)
    path = ShardFolder(tmp_path, "net").path([joined([b"a", b"b"]), joined([b"c"])])
    assert not is_whole(path)
    write_shard(path, rows)
    assert is_whole(path)
    assert ShardFolder(tmp_path, "net").path([joined([b"a", b"b", b"c"])]) == path
    features = Features((path,), 3, 4)
    torch.testing.assert_close(features.in_memory(), rows, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(features[1], rows[1], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(features[-1], rows[2], rtol=1e-3, atol=1e-3)
    with pytest.raises(IndexError):
        features[3]


@pytest.mark.parametrize(
    ("identity", "contents"),
    [("other", [b"a", b"b"]), ("net", [b"b", b"a"]), ("net", [b"ab", b""])],
)
def test_another_backbone_or_other_samples_have_another_shard(tmp_path, identity, contents):
    made = ShardFolder(tmp_path, "net").path([joined([b"a", b"b"])])
    assert ShardFolder(tmp_path, identity).path([joined(contents)]) != made


def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    path = ShardFolder(tmp_path / "file", "net").path([joined([b"a"])])
    with pytest.raises(AbstainError, match=r"cache must be a folder .*/file: .*ABSTAIN_CACHE"):
        write_shard(path, torch.zeros(1, 2))


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    from safetensors import SafetensorError

    def full(*_):
        raise SafetensorError("No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    path = ShardFolder(tmp_path, "net").path([joined([b"a"])])
    with pytest.raises(AbstainError, match="No space left on device; make room there"):
        write_shard(path, torch.zeros(1, 2))
    assert not any(tmp_path.iterdir())


def test_a_shard_cut_short_is_not_whole(tmp_path, caplog):
    path = ShardFolder(tmp_path, "net").path([joined([b"a"])])
    write_shard(path, torch.zeros(1, 64))
    assert Features((path,), 1, 64)[0].tolist() == [0.0] * 64  # and mapped from now on
    path.write_bytes(path.read_bytes()[:-10])
    assert not is_whole(path)
    assert "damaged" in caplog.text


def kept(folder, rows):
    """Rows of numbers as features on disk."""
    parts = rows.split(SHARD)
    shards = tuple(folder / f"{number}.safetensors" for number in range(len(parts)))
    for path, part in zip(shards, parts, strict=True):
        write_shard(path, part)
    return Features(shards, *rows.shape)


def test_rows_of_several_shards_stand_in_order(tmp_path):
    rows = torch.arange(SHARD + 5.0)[:, None]
    features = kept(tmp_path, rows)
    assert torch.equal(features.in_memory(), rows.half().float())
    assert float(features[SHARD + 1]) == SHARD + 1


def test_rows_are_read_in_any_order_and_more_than_once(tmp_path):
    rows = torch.randn(2 * SHARD + 5, 3)
    features = kept(tmp_path, rows)
    order = torch.randint(len(rows), (500,))
    assert torch.equal(features.as_tensor(order.tolist()), rows.half().float()[order])
    assert torch.equal(
        torch.stack(features.__getitems__([SHARD, 0])), rows.half().float()[[SHARD, 0]]
    )


def test_all_shards_are_opened_before_any_is_read_and_their_files_closed(tmp_path, monkeypatch):
    from safetensors import torch as safetensors

    opened, load_file = [], safetensors.load_file
    monkeypatch.setattr(safetensors, "load_file", lambda x: (opened.append(x), load_file(x))[1])
    files = Path("/proc/self/fd")  # empty but for Linux
    before = len([*files.glob("*")])
    features = kept(tmp_path, torch.arange(100.0 * SHARD)[:, None])
    assert opened == [*features.shards]
    for row in torch.randperm(len(features))[:1000].tolist():
        assert float(features[row]) == float(torch.tensor(row).half())
    assert opened == [*features.shards]
    assert len([*files.glob("*")]) == before


def test_another_process_gets_the_names_of_the_shards_not_what_is_in_them(tmp_path):
    rows = torch.randn(SHARD, 64)
    features = kept(tmp_path, rows)
    assert torch.equal(features[5], rows[5].half().float())
    packed = pickle.dumps(features)
    assert len(packed) < 1000
    assert torch.equal(pickle.loads(packed)[5], features[5])
