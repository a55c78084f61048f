import pickle
from pathlib import Path

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
    assert Features((path,), 1, 64)[0].tolist() == [0.0] * 64  # and mapped from now on
    path.write_bytes(path.read_bytes()[:-10])
    assert store.shard("net", [b"a"], lambda: torch.ones(1, 64)) == path
    assert Features((path,), 1, 64)[0].tolist() == [1.0] * 64
    assert "damaged" in caplog.text


def kept(folder, rows):
    """Rows of numbers as features on disk."""
    store = Store(folder)
    shards = tuple(
        store.shard("net", [part.numpy().tobytes()], lambda part=part: part)
        for part in rows.split(SHARD)
    )
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
