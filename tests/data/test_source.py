import json
from pathlib import Path

import numpy as np
import pytest

from abstain.data.source import Source
from abstain.errors import AbstainError

ROWS = "\n".join(["size,plan,label", *(f"{k},{'ab'[k % 2]},{'yn'[k % 3 == 0]}" for k in range(12))])


@pytest.fixture
def table(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text(ROWS)
    (tmp_path / "test.csv").write_text(ROWS.replace(",b,", ",c,"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def again(source):
    """As a run folder keeps it."""
    return Source.found_again(json.loads(json.dumps(source.saved())))


def test_a_saved_source_is_loaded_again_from_another_folder(table, monkeypatch):
    saved = json.dumps(Source("t.csv", "test.csv", {"features": ("size", "plan")}).saved())
    monkeypatch.chdir("/")
    data, test = Source.found_again(json.loads(saved)).load()
    assert data.columns == test.columns == ("size", "plan")


def test_a_test_set_is_read_with_the_categories_of_the_training(table):
    data, test = Source("t.csv", "test.csv").load()
    assert data.categories == test.categories == {"plan": ("a", "b")}
    assert test.unknown[0].startswith("plan (c in row 1")
    assert Source("t.csv", "test.csv").load_train().columns == data.columns


def test_what_lies_in_memory_is_not_saved(table):
    pair = np.zeros((4, 2)), [0, 1, 0, 1]
    assert Source(pair, options={"split": "train"}).saved()["train"] is None
    with_numbers = Source("t.csv", options={"features": np.zeros((12, 2))})
    assert with_numbers.saved() == {"train": None, "test": None, "options": {}}
    with pytest.raises(AbstainError, match=r"source must be given .* got none"):
        again(with_numbers).load()


def test_features_in_a_file_are_found_from_anywhere_and_leave_no_room_for_a_test(table):
    np.save("x.npy", np.zeros((12, 3), np.float32))
    source = Source("t.csv", options={"features": "x.npy"})
    assert Path(source.saved()["options"]["features"]).is_absolute()
    assert again(source).load()[0].inputs.shape == (12, 3)
    with pytest.raises(AbstainError, match=r"test must be left out where features are x\.npy"):
        Source("t.csv", "test.csv", {"features": "x.npy"}).load()


def test_a_folder_of_sets_that_is_not_here_is_left_out_and_so_is_what_has_no_effect():
    options = {"data_dir": "/not/here", "label": "stars", "split": "test"}
    found = Source.found_again({"train": "digits", "test": None, "options": options})
    assert found.options == {"split": "test"}


def test_a_name_of_a_built_in_set_stays_one_beside_a_folder_of_that_name(tmp_path, monkeypatch):
    (tmp_path / "digits").mkdir()
    monkeypatch.chdir(tmp_path)
    assert Source("digits").saved()["train"] == "digits"
    assert Source("./digits").saved()["train"] == str(tmp_path / "digits")


def test_what_is_wrong_with_a_test_is_said_of_it(table):
    with pytest.raises(AbstainError, match=r"^test must be .* got nowhere\.csv"):
        Source("t.csv", "nowhere.csv").load()
