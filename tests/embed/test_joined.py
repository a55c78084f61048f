import pytest
import torch
from tickets import tickets

from abstain import DataError
from abstain.data import fit_encoder, load
from abstain.embed import joined
from abstain.embed.backbones.names import backbone_named
from abstain.embed.embedding import embed
from abstain.embed.encoder import load_any_encoder
from abstain.embed.joined import JoinedEncoder, LazyJoined


@pytest.fixture(scope="module")
def backbone():
    return backbone_named("small:wordllama", "text")


def test_each_part_is_what_its_own_encoder_gives(backbone):
    data = load(tickets())
    rows = JoinedEncoder.fit(data, backbone).encode(data)
    numbers = fit_encoder(data).encode(data)
    assert torch.equal(rows[:, : numbers.shape[1]], numbers)
    for k, name in enumerate(("description", "comment")):
        features = embed(data.of_texts(name), backbone).in_memory()
        expected = (features - features.mean(0)) / features.std(0, correction=0)
        begin = numbers.shape[1] + 256 * k
        torch.testing.assert_close(rows[:, begin : begin + 256], expected / 4)


def test_columns_in_another_order_are_the_same_rows(backbone):
    frame = tickets()
    encoder = JoinedEncoder.fit(load(frame), backbone)
    assert encoder.columns == ("priority", "created", "hours", "description", "comment")
    as_trained = {"categories": encoder.categories, "texts": tuple(encoder.texts)}
    new = frame[frame.columns[::-1]].head(3)
    new = load(new, features=encoder.columns, labelled=False, **as_trained)
    torch.testing.assert_close(encoder.encode(new), encoder.encode(load(frame))[:3])


def test_a_saved_encoder_gives_the_same(backbone, tmp_path):
    data = load(tickets())
    encoder = JoinedEncoder.fit(data, backbone, reason="named")
    encoder.save(tmp_path)
    again = load_any_encoder(tmp_path)
    assert again.backbone_used == "description, comment by small:wordllama, named"
    assert (again.columns, again.categories) == (encoder.columns, encoder.categories)
    assert torch.equal(again.encode(data), encoder.encode(data))
    assert again.input_shape == tuple(encoder.encode(data).shape[1:])


def test_what_does_not_fit_is_read_when_asked_for(backbone, monkeypatch):
    data = load(tickets())
    whole = JoinedEncoder.fit(data, backbone).encode(data)
    monkeypatch.setattr(joined, "MEMORY_BUDGET", 2 * 4 * 160 * 256 - 1)
    lazy = JoinedEncoder.fit(data, backbone).encode(data)
    assert isinstance(lazy, LazyJoined)
    assert len(lazy) == 160
    torch.testing.assert_close(torch.stack(lazy.__getitems__(range(160))), whole)
    torch.testing.assert_close(lazy[7], whole[7])


def test_texts_alone_need_no_numbers(backbone, tmp_path):
    frame = tickets().assign(hours=None)[["hours", "description", "comment", "label"]]
    data = load(frame)
    encoder = JoinedEncoder.fit(data, backbone)
    encoder.save(tmp_path)
    assert load_any_encoder(tmp_path).columns == ("description", "comment")
    assert encoder.encode(data).shape == (160, 512) == (160, *encoder.input_shape)


def test_absurd_numbers_are_named(backbone):
    frame = tickets()
    frame.loc[7, "hours"] = 1e30
    data = load(frame)
    assert JoinedEncoder.fit(data, backbone).too_far(data) == ["hours (1e+30 in row 7)"]


def test_a_table_without_the_texts_is_refused(backbone):
    frame = tickets()
    encoder = JoinedEncoder.fit(load(frame), backbone)
    with pytest.raises(DataError, match="no column of free text called comment"):
        encoder.encode(load(frame.drop(columns="comment")))
    with pytest.raises(DataError, match="must be encoded as LabeledData"):
        encoder.encode(load(frame).inputs)
