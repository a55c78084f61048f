"""Options that a source has no use for are refused, not passed over."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from PIL import Image

from abstain.data import load
from abstain.data.forms import divided
from abstain.errors import DataError

FRAME = pd.DataFrame({"size": np.arange(8.0), "label": list("abababab")})
ARRAYS = (np.random.default_rng(0).normal(size=(8, 2)), np.arange(8) % 2)


@pytest.fixture
def sources(tmp_path):
    FRAME.to_csv(tmp_path / "numbers.csv", index=False)
    np.savez(tmp_path / "arrays.npz", x=ARRAYS[0], y=ARRAYS[1])
    for name in ("photos/cat", "photos/dog"):
        (tmp_path / name).mkdir(parents=True)
        for number in range(2):
            Image.new("L", (8, 8), 40 * number).save(tmp_path / name / f"{number}.png")
    tensors = torch.utils.data.TensorDataset(*map(torch.as_tensor, ARRAYS))
    named = {name: tmp_path / name for name in ("numbers.csv", "arrays.npz", "photos")}
    memory = {"frame": FRAME, "arrays": ARRAYS, "pair": (FRAME[["size"]], FRAME["label"])}
    return {"digits": "digits", "torch": tensors, **named, **memory}


VALUES = {
    "label": "label",
    "features": "size",
    "ignore": "size",
    "data_dir": "sets",
    "image_size": 8,
    "skip_bad": True,
}
WRONG = {
    "digits": ["label", "features", "ignore", "image_size", "skip_bad"],
    "photos": ["label", "features", "ignore", "data_dir"],
    "numbers.csv": ["data_dir", "image_size", "skip_bad"],
    "frame": ["data_dir", "image_size", "skip_bad"],
    "arrays.npz": ["ignore", "data_dir", "image_size", "skip_bad"],
    "pair": ["label", "data_dir", "image_size", "skip_bad"],
    "arrays": list(VALUES),
    "torch": list(VALUES),
}


@pytest.mark.parametrize(
    ("source", "option"), [(source, name) for source, names in WRONG.items() for name in names]
)
def test_an_option_that_does_not_apply_to_a_source_is_refused(sources, source, option):
    with pytest.raises(DataError, match=rf"^{option} must be left out for .*, got "):
        load(sources[source], **{option: VALUES[option]})


@pytest.mark.parametrize(
    ("source", "remedy"),
    [(pa.table(FRAME), "give what its to_pandas"), (FRAME.to_dict("list"), "X alone needs")],
)
def test_a_table_that_cannot_be_read_is_not_said_to_have_no_columns(source, remedy):
    with pytest.raises(DataError, match=rf"^source must be .*got (Table|dict); {remedy}"):
        load(source, label="label")


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("photos", {"image_size": 4, "skip_bad": True}),
        ("numbers.csv", {"label": "label", "features": "size"}),
        ("frame", {"label": "label", "features": "size"}),
        ("pair", {"features": "size"}),
        ("arrays.npz", {"label": "y", "features": "x"}),
        ("digits", {"data_dir": "sets"}),
    ],
)
def test_an_option_that_is_meant_for_a_source_is_taken(sources, source, options):
    assert len(load(sources[source], **options)) >= 4


def test_of_two_sources_each_gets_what_is_meant_for_it(sources):
    options = {"label": "kind", "image_size": 8, "data_dir": "sets"}
    of_photos, of_table = divided(options, sources["photos"], sources["numbers.csv"])
    assert of_table == {"label": "kind", "image_size": 8}
    assert of_photos == {"image_size": 8, "data_dir": "sets"}  # the latter is to be refused


def test_data_that_are_read_already_are_taken_as_they_are():
    data = load((np.zeros((4, 2)), [0, 1, 0, 1]))
    assert load(data) is data
    with pytest.raises(DataError, match="label must be left out for LabeledData, which are read"):
        load(data, label="stars")
    with pytest.raises(DataError, match="split must be one of those in data in memory: train"):
        load(data, split="test")
    features = load(data, features=np.ones((4, 3)))
    assert features.inputs.shape == (4, 3)
    assert features.as_shown.inputs.equal(data.inputs)
