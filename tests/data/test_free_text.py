"""Free text in tables: free_text.py, and what the reader makes of it."""

import pickle

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tickets import tickets

from abstain import DataError
from abstain.data import LabeledData, fit_encoder, load
from abstain.data.free_text import is_free_text
from abstain.data.identity import fingerprints
from abstain.data.readers.rows import LazyTexts, holds_free_text


def test_free_text_is_read_alike_from_every_table(tmp_path):
    frame = tickets()
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    frame.to_parquet(tmp_path / "t.parquet")
    hub = datasets.Dataset.from_pandas(frame)
    for source in (frame, hub, *(tmp_path / f"t.{x}" for x in ("csv", "jsonl", "parquet"))):
        data = load(source)
        assert (data.kind, data.columns) == ("table", ("priority", "created", "hours"))
        assert [*data.texts] == ["description", "comment"]
        assert data.texts["description"] == frame["description"].tolist()
        assert data.texts["comment"] == frame["comment"].fillna("").tolist()
        assert data.row(0)["comment"] is None
        assert data.row(1) == {
            "priority": frame["priority"][1],
            "created": "2024-01-02",
            "hours": frame["hours"][1],
            "description": frame["description"][1],
            "comment": frame["comment"][1],
        }


def test_above_the_budget_texts_are_read_when_asked_for(tmp_path):
    frame = tickets()
    frame.to_csv(tmp_path / "t.csv", index=False)
    data = load(tmp_path / "t.csv", memory_budget=8)
    lazy = pickle.loads(pickle.dumps(data.texts["comment"]))
    assert isinstance(lazy, LazyTexts)
    assert [lazy[k] for k in range(len(lazy))] == frame["comment"].fillna("").tolist()
    assert np.array_equal(fingerprints(data), fingerprints(load(frame)))


@pytest.mark.parametrize(
    ("texts", "free"),
    [
        ([f"the screen number {k} is black" for k in range(20)], True),
        (["the screen is black", "it does not start"] * 10, False),
        ([f"AB-{k}" for k in range(20)], False),
        ([f"https://example.org/a b c d/{k}".replace(" ", "%20") for k in range(20)], False),
        ([f"28/02/{k} 10:30 PM" for k in range(20)], False),
        ([f"画面が暗い{k}" for k in range(20)], True),
        ([f"the screen number {k} is black" if k < 4 else None for k in range(20)], True),
    ],
)
def test_free_text_does_not_repeat_and_has_words(texts, free):
    assert holds_free_text(pa.chunked_array([texts])) == free


def test_the_same_holds_whatever_the_order_of_a_long_column():
    known = [f"reply number {k} of the desk" for k in range(256)]
    column = pa.chunked_array([np.random.default_rng(0).choice(known, 20_000)])
    assert not holds_free_text(column)
    assert holds_free_text(pa.chunked_array([*column.chunks, ["and one more reply"]]))
    assert is_free_text([*known, "and one more reply"], 20_001)


def test_columns_can_be_chosen_and_ignored():
    data = load(tickets(), ignore="comment")
    assert [*data.texts] == ["description"]
    data = load(tickets(), features=["description", "hours"])
    assert (data.columns, [*data.texts]) == (("hours",), ["description"])
    data = load(tickets(), features=["comment", "description"])
    assert (data.kind, data.columns, [*data.texts]) == ("table", (), ["comment", "description"])
    assert load(tickets(), features="description").kind == "text"


def test_a_column_called_text_still_decides():
    data = load(tickets().rename(columns={"description": "text"}))
    assert (data.kind, data.columns) == ("text", ("text",))


def test_new_data_have_the_texts_of_the_training():
    """Too few to tell, and all of them numbers: they are texts all the same."""
    new = pd.DataFrame({"hours": [1.0, 2.0], "comment": [12, 7]})
    as_trained = {"texts": ("comment",), "labelled": False}
    data = load(new, **as_trained)
    assert data.texts == {"comment": ["12", "7"]}
    alone = load(new.astype({"comment": str}), features="comment", **as_trained)
    assert (alone.kind, alone.texts) == ("table", {"comment": ["12", "7"]})
    gone = load(new.assign(comment=None), **as_trained)
    assert gone.texts == {"comment": ["", ""]}


def test_rows_that_differ_in_a_text_alone_are_no_duplicates():
    frame = pd.DataFrame(
        {
            "size": [1.0] * 4,
            "note": [
                "It does not start",
                "it  does not START",
                "the screen is black",
                "it is slow",
            ],
            "label": ["a", "b"] * 2,
        }
    )
    prints = fingerprints(load(frame))
    assert prints[0] == prints[1]
    assert len(set(prints.tolist())) == 3


def test_codes_are_neither_categories_nor_texts():
    frame = tickets().assign(code=[f"AB-{k}" for k in range(160)])
    with pytest.raises(DataError, match=r"column 'code' .* must repeat its texts .*ignore='code'"):
        fit_encoder(load(frame))


def test_texts_have_one_length():
    data = load(tickets())
    with pytest.raises(DataError, match="must have one length"):
        LabeledData(
            inputs=data.inputs,
            given=data.given,
            classes=data.classes,
            ids=data.ids,
            kind="table",
            texts={"description": ["one"]},
        )
