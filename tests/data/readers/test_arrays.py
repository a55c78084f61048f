"""Arrays, `.npz` files and DataFrames."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from abstain.data import load, splits
from abstain.errors import DataError

Y = np.array([0, 1, 0, 1])


def test_arrays_of_numbers():
    data = load((np.arange(8.0).reshape(4, 2), Y))
    assert (data.kind, data.inputs.dtype) == ("table", torch.float32)
    assert data.given.tolist() == [0, 1, 0, 1]
    assert list(data.ids) == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((4, 8, 9), (4, 1, 8, 9)),
        ((4, 3, 8, 9), (4, 3, 8, 9)),
        ((4, 8, 9, 3), (4, 3, 8, 9)),
        ((4, 8, 9, 1), (4, 1, 8, 9)),
        ((4, 8, 9, 4), (4, 4, 8, 9)),
        ((4, 4, 8, 9), (4, 4, 8, 9)),
        ((4, 8, 4, 2), (4, 2, 8, 4)),
    ],
)
def test_arrays_of_images(shape, expected):
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    data = load((images, Y))
    assert data.kind == "image"
    assert data.inputs.dtype == torch.uint8
    assert data.inputs.shape == expected
    if shape[-1] == 3:
        assert data.inputs[1, 2, 5, 6] == images[1, 5, 6, 2]


def test_tensors_texts_and_names():
    data = load((torch.zeros(4, 1, 5, 5), torch.tensor([1, 0, 1, 0])))
    assert data.inputs.dtype == torch.float32
    texts = load((["a b", "c", "d", "e"], ["no", "yes", "no", "yes"]))
    assert texts.kind == "text"
    assert texts.classes == ("no", "yes")
    assert load(np.zeros((2, 3)), labelled=False).given.tolist() == [-1, -1]
    assert load(["new text"], labelled=False).inputs == ["new text"]
    assert load(["cut \ud83d", "whole 😀"], labelled=False).inputs == ["cut ?", "whole 😀"]
    assert load(pd.Series(["new text"]), labelled=False).inputs == ["new text"]


def test_a_long_text_costs_only_itself():
    texts = ["short"] * 1999 + ["long" * 25_000]
    tracemalloc.start()
    data = load((texts, ["a", "b"] * 1000))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert data.inputs == texts
    assert most < 10_000_000  # 800 MB, were all as long as the longest


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ((np.zeros((3, 2)), Y), "X and y must have one length, got 3 and 4"),
        ((np.zeros(4), Y), "X must have two axes"),
        ((np.zeros((0, 2)), np.zeros(0)), "X must hold samples, got none"),
        (([[1], [1, 2], [1], [1]], Y), "X must be rectangular"),
        (([Image.new("L", (8, 8 + k)) for k in Y], Y), "several shapes; bring them to one shape"),
        ((["a", None, "b", "c"], Y), "objects of other kinds in rows 1"),
        ((["a", np.nan, "b", "c"], Y), "objects of other kinds in rows 1"),
        ((np.zeros((4, 2)), ["x", "cut \ud83d", "x", "y"]), r"must be UTF-8, got cut \\ud83d"),
        ((["cat/a.PNG", "cat/b.jpg", "dog/a.png", "dog/b.png"], Y), "got the names of image files"),
        ((["a", "b", "c", "d"], ["x", np.nan, "x", "y"]), "got none in 1 row: 1"),
        ((np.zeros((4, 2)), np.zeros((4, 3))), "one label per sample, got an array of shape"),
        ((np.array([[1.0, np.inf]] * 4), Y), "NaN or infinity in column 1"),
        (np.zeros((4, 2)), "X alone needs labelled=False"),
        (
            pd.DataFrame({"text": ["a", "cut \ud83d"], "label": Y[:2]}, dtype=object),
            r"texts of the DataFrame must be UTF-8, got 'cut \\\\ud83d'",
        ),
        (pd.Series(["a", "b"]), "got Series; X alone needs labelled=False"),
        (42, "got int"),
    ],
)
def test_arrays_that_cannot_be_used(source, message):
    with pytest.raises(DataError, match=message):
        load(source)


def test_npz_with_splits_and_without(tmp_path):
    x = np.zeros((4, 6, 6), np.uint8)
    np.savez(tmp_path / "k.npz", x_train=x, y_train=Y, x_test=x[:2], y_test=Y[:2])
    assert splits(tmp_path / "k.npz") == ("train", "test")
    assert len(load(tmp_path / "k.npz")) == 4
    assert load(tmp_path / "k.npz", split="test", classes=("0", "1")).given.tolist() == [0, 1]
    np.savez(tmp_path / "p.npz", X=x, y=Y, ids=list("abcd"), classes=["off", "on"])
    data = load(tmp_path / "p.npz")
    assert data.ids == list("abcd")
    assert data.classes == ("off", "on")
    np.savez(tmp_path / "q.npz", pixels=x, which=Y)
    assert len(load(tmp_path / "q.npz", features="pixels", label="which")) == 4
    with pytest.raises(
        DataError, match=r"features must name an array .*its arrays are pixels, which"
    ):
        load(tmp_path / "q.npz")


def test_npz_never_runs_code(tmp_path):
    np.savez(tmp_path / "o.npz", x=np.array([{}, {}], dtype=object), y=Y)
    with pytest.raises(DataError, match=r"\.npz of plain arrays"):
        load(tmp_path / "o.npz")


def test_frame_with_index_ids():
    frame = pd.DataFrame(
        {"a": [1, 2, 3, 4], "b": [0.5] * 4, "label": list("xyxy")}, index=["p", "q", "r", "s"]
    )
    data = load(frame)
    assert data.ids == ["p", "q", "r", "s"]
    assert data.columns == ("a", "b")
    again = load((frame[["a", "b"]], frame["label"]))
    assert torch.equal(again.inputs, data.inputs)
    assert again.classes == data.classes
    with pytest.raises(DataError, match=r"index of the DataFrame .* once, got p again"):
        load(pd.concat([frame, frame.iloc[:1]]))


def test_columns_of_a_frame_may_be_sparse():
    frame = pd.DataFrame({"a": [1.5, 2.5] * 2, "city": ["Oslo", "Rome"] * 2, "label": list("xyxy")})
    dummies = pd.get_dummies(frame, columns=["city"], sparse=True)
    dense = pd.get_dummies(frame, columns=["city"])
    assert torch.equal(load(dummies).inputs, load(dense).inputs)


def test_columns_of_a_frame_may_be_numbered():
    frame = pd.DataFrame([[1.5, 2.5, "x"], [3.5, 4.5, "y"]] * 2)
    data = load(frame, label=2, ignore=frame.columns[0])
    assert (data.columns, data.classes) == (("1",), ("x", "y"))
    assert load(frame, label=2, features=frame.columns[:2]).columns == ("0", "1")


def test_labels_that_are_bytes_are_texts():
    names = np.array(["Äpfel", "Birnen"])
    labels = np.char.encode(names, "utf-8")[[0, 1, 0, 1]]
    assert load((np.zeros((4, 2)), labels)).classes == ("Birnen", "Äpfel")


def test_frame_of_texts_and_of_holes():
    frame = pd.DataFrame({"text": ["a", "b", "c", "d"], "label": pd.Categorical(list("xyxy"))})
    assert load(frame).inputs == ["a", "b", "c", "d"]
    holes = load(pd.DataFrame({"a": [1, None, 3, 4], "label": list("xyxy")})).inputs
    assert holes.isnan().flatten().tolist() == [False, True, False, False]
    with pytest.raises(DataError, match="got none in 1 row: 2"):
        load(pd.DataFrame({"a": [1, 2, 3, 4], "label": [0, 1, None, 1]}))
