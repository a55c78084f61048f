"""Features given beside a source."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from abstain.data import LabeledData, load
from abstain.data.features import with_features
from abstain.errors import AbstainError, DataError
from abstain.training.plan import Plan
from abstain.training.train import train


def texts(words, labels=None):
    given = torch.arange(len(words)) % 2 if labels is None else torch.tensor(labels)
    ids = [str(i) for i in range(len(words))]
    return LabeledData(inputs=words, given=given, classes=("a", "b"), ids=ids, kind="text")


def test_features_replace_inputs_and_nothing_else(tmp_path):
    data = texts(["one", "two", "three"])
    array = np.arange(6, dtype=np.float64).reshape(3, 2)
    np.save(tmp_path / "x.npy", array)
    for features in (array, torch.from_numpy(array), tmp_path / "x.npy", str(tmp_path / "x.npy")):
        other = with_features(data, features)
        assert other.kind == "table"
        assert other.inputs.tolist() == array.tolist()
        assert other.ids == data.ids
        assert torch.equal(other.given, data.given)
        assert other.as_shown.inputs == data.inputs


@pytest.mark.parametrize("as_array", [str, np.load, lambda path: torch.from_numpy(np.load(path))])
def test_load_gives_what_the_model_sees_and_what_a_person_is_shown(
    as_array, tmp_path, image_folder
):
    np.save(tmp_path / "x.npy", np.arange(12.0).reshape(4, 3))
    data = load(image_folder(per_class=2), features=as_array(tmp_path / "x.npy"))
    assert (data.kind, data.inputs[1].tolist()) == ("table", [3.0, 4.0, 5.0])
    assert data.as_shown.kind == "image"
    assert data.as_shown.inputs[0].dtype == torch.uint8
    assert list(data.as_shown.ids) == list(data.ids)


def test_what_is_shown_has_the_labels_of_what_is_trained_on(image_folder):
    data = load(image_folder(per_class=2), features=np.zeros((4, 3)))
    flipped = replace(data, given=1 - data.given, true=data.given)
    assert torch.equal(flipped.as_shown.given, 1 - data.given)
    assert torch.equal(flipped.as_shown.true, data.given)


def test_columns_are_not_taken_for_numbers():
    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], 1: [4.0, 5, 6, 7], "label": list("xyxy")})
    for columns in ("a", ["a", "1"], ["a", 1], frame.columns[:2], np.array(["a"]), 1):
        assert load(frame, features=columns).shown is None
    numbers = load(frame, features=frame[["a"]])
    assert numbers.inputs.flatten().tolist() == [0.0, 1.0, 2.0, 3.0]
    assert numbers.as_shown.columns == ("a", "1")


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.zeros((2, 4)), "one row for each of 3 samples of data, got 2"),
        (np.zeros(3), r"of the shape \(samples, columns\)"),
        (np.array([["a"], ["b"], ["c"]]), "must hold numbers"),
        (np.array([[1.0], [np.nan], [2.0]]), "must be finite"),
        ("nowhere.npy", "features must name a file that exists, got nowhere.npy"),
        ([[1.0], [1.0, 2.0], [3.0]], "rectangular"),
    ],
)
def test_features_that_do_not_fit_are_refused(features, message):
    with pytest.raises(DataError, match=message):
        with_features(texts(["one", "two", "three"]), features)


def test_pickles_are_not_opened(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{}, {}, {}]), allow_pickle=True)
    with pytest.raises(DataError, match="plain numbers"):
        with_features(texts(["one", "two", "three"]), tmp_path / "x.npy")


def test_what_is_no_npy_is_not_called_a_pickle(tmp_path):
    (tmp_path / "x.npy").write_text("1,2\n")
    with pytest.raises(DataError, match=r"an .npy of plain numbers, got: (?!.*unsafe).*magic"):
        with_features(texts(["one", "two", "three"]), tmp_path / "x.npy")


def test_a_run_trains_on_a_feature_file_and_resumes(tmp_path, image_folder):
    root = image_folder(per_class=8)
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.normal(size=(16, 3)))
    options = {"features": str(tmp_path / "x.npy")}
    trained = train(root, Plan(epochs=2, warm_up=1), folder=tmp_path / "run", **options)
    assert trained.data.inputs.shape == (16, 3)
    assert trained.data.ids[0] == "cat/0.png"
    again = train(folder=tmp_path / "run", resume=True)
    assert again.data.inputs.shape == (16, 3)


def test_a_run_on_features_in_memory_needs_them_to_resume(tmp_path, image_folder):
    root, x = image_folder(per_class=8), np.random.default_rng(0).normal(size=(16, 3))
    recipe = Plan(epochs=2, warm_up=1)
    trained = train(root, recipe, features=x, folder=tmp_path / "run")
    assert trained.data.inputs.shape == (16, 3)
    assert trained.data.as_shown.kind == "image"
    with pytest.raises(AbstainError, match=r"source must be given \(data in memory also to resume"):
        train(folder=tmp_path / "run", resume=True)
    again = train(root, features=x, folder=tmp_path / "run", resume=True)
    assert again.data.inputs.shape == (16, 3)
