import pytest
import torch

from abstain.embed.shards import SHARD, Features, Store, digests_of, is_whole, write_shard


def test_a_shard_is_read_as_it_was_written(tmp_path):
    rows = torch.randn(3, 4)
    path = Store(tmp_path, "net").path([digests_of([b"a", b"b"]), digests_of([b"c"])])
    assert not is_whole(path)
    write_shard(path, rows)
    assert is_whole(path)
    assert Store(tmp_path, "net").path([digests_of([b"a", b"b", b"c"])]) == path
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
    made = Store(tmp_path, "net").path([digests_of([b"a", b"b"])])
    assert Store(tmp_path, identity).path([digests_of(contents)]) != made


def test_a_shard_cut_short_is_not_whole(tmp_path, caplog):
    path = Store(tmp_path, "net").path([digests_of([b"a"])])
    write_shard(path, torch.zeros(1, 64))
    path.write_bytes(path.read_bytes()[:-10])
    assert not is_whole(path)
    assert "damaged" in caplog.text


def test_rows_of_several_shards_stand_in_order(tmp_path):
    rows = torch.arange(SHARD + 5.0)[:, None]
    shards = tuple(tmp_path / name for name in ("a", "b"))
    for path, part in zip(shards, rows.split(SHARD), strict=True):
        write_shard(path, part)
    features = Features(shards, len(rows), 1)
    assert torch.equal(features.in_memory(), rows.half().float())
    assert float(features[SHARD + 1]) == SHARD + 1
