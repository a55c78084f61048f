import pytest
import torch

from abstain.embed.shards import SHARD, Features, Store


def refuse():
    raise AssertionError("made again")


def test_a_shard_is_made_once_and_read_as_it_was(tmp_path):
    rows = torch.randn(3, 4)
    first = Store(tmp_path).shard("net", [b"a", b"b", b"c"], lambda: rows)
    assert Store(tmp_path).shard("net", [b"a", b"b", b"c"], refuse) == first
    features = Features((first,), 3, 4)
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
    store = Store(tmp_path)
    made = store.shard("net", [b"a", b"b"], lambda: torch.zeros(2, 1))
    assert store.shard(identity, contents, lambda: torch.ones(2, 1)) != made


def test_a_shard_cut_short_is_made_again(tmp_path, caplog):
    store = Store(tmp_path)
    path = store.shard("net", [b"a"], lambda: torch.zeros(1, 64))
    path.write_bytes(path.read_bytes()[:-10])
    assert store.shard("net", [b"a"], lambda: torch.ones(1, 64)) == path
    assert Features((path,), 1, 64)[0].tolist() == [1.0] * 64
    assert "damaged" in caplog.text


def test_rows_of_several_shards_stand_in_order(tmp_path):
    store = Store(tmp_path)
    rows = torch.arange(SHARD + 5.0)[:, None]
    shards = tuple(
        store.shard("net", [part.numpy().tobytes()], lambda part=part: part)
        for part in rows.split(SHARD)
    )
    features = Features(shards, len(rows), 1)
    assert torch.equal(features.in_memory(), rows.half().float())
    assert float(features[SHARD + 1]) == SHARD + 1
