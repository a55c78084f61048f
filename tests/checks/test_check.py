"""All checks in one call: which run, which cannot and why, and how they are written down."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from samples_of_checks import clusters, data_of

from abstain.checks.check import ALL, check
from abstain.data import LabeledData
from abstain.errors import AbstainError
from abstain.scores.evidence import evidence_from_probabilities

PER_SAMPLE = {
    "near_duplicate": "duplicates",
    "conflicting_duplicate": "duplicates",
    "outlier": "outliers",
    "class_imbalance": "imbalance",
    "underperforming_group": "groups",
    "dark": "images",
    "blurry": "images",
    "low_information": "images",
    "null": "empty",
}


def images_and_features():
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.integers(0, 256, (60, 1, 8, 8), dtype=np.uint8))
    images[5] = images[4]
    return data_of(images, "image"), torch.from_numpy(rng.random((60, 20), dtype=np.float32))


def test_every_check_of_images_runs_and_its_columns_are_named_as_datalab_names_them():
    data, features = images_and_features()
    evidence = evidence_from_probabilities(np.full((60, 2), 0.5), data.given.numpy())
    found = check(data, features, data.given, evidence)
    assert set(found.issues) == set(PER_SAMPLE)
    for issue in PER_SAMPLE:
        flags, score = found.columns[f"is_{issue}_issue"], found.columns[f"{issue}_score"]
        assert flags.shape == score.shape == (60,)
        assert flags.dtype == bool
        assert ((score >= 0) & (score <= 1)).all()
        assert found.summary[issue] == flags.sum()
    apart = torch.cdist(rows := torch.nn.functional.normalize(features), rows)
    nearest = apart.fill_diagonal_(torch.inf).amin(dim=1)
    np.testing.assert_allclose(found.columns["distance_to_nearest_neighbor"], nearest, rtol=1e-4)
    assert found.skipped == {"odd sizes of images": "they have one size",
                             "columns": "data is no table"}  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_only_what_is_asked_for_runs(name):
    data, features = images_and_features()
    evidence = evidence_from_probabilities(np.full((60, 2), 0.5), data.given.numpy())
    found = check(data, features, evidence=evidence, checks=(name,))
    assert {PER_SAMPLE[x] for x in found.issues} == {name} - {"columns"}


def test_without_features_identical_inputs_are_found_and_the_rest_is_said():
    data, _ = images_and_features()
    found = check(data, None)
    assert found.near_duplicate_sets[0].tolist() == [4, 5]
    assert found.columns["is_conflicting_duplicate_issue"].nonzero()[0].tolist() == [4, 5]
    assert "only identical inputs" in found.skipped["duplicates"]
    assert "no features" in found.skipped["outliers"]
    assert found.skipped["groups"] == "there is no evidence from a model"
    assert "outlier" not in found.issues


def test_duplicates_with_one_label_do_not_conflict():
    data, _ = images_and_features()
    found = check(data, None, np.zeros(60, int), checks=("duplicates",))
    assert found.summary == {"near_duplicate": 2, "conflicting_duplicate": 0}
    assert (found.columns["conflicting_duplicate_score"] == 1).all()


def test_ten_samples_are_too_few_for_neighbours():
    data = data_of(torch.rand(10, 3), "table")
    assert check(data, data.inputs).skipped["outliers"] == "it takes more than 10 samples, got 10"


def test_what_a_person_sees_is_checked_where_the_model_sees_features():
    texts = data_of(["one", "two", " ", *"abcdefghijkl"], "text")
    numbers = torch.rand(15, 4)
    data = replace(texts, inputs=numbers, kind="table", shown=texts)
    found = check(data, numbers)
    assert found.worst("null").tolist() == [2]
    assert found.skipped["columns"] == "data is no table"


def test_a_column_that_says_the_label_is_named():
    rows, given = clusters(size=300)
    table = torch.cat([rows, torch.from_numpy(given)[:, None].float()], dim=1)
    columns = (*(f"f{k}" for k in range(16)), "code")
    found = check(data_of(table, "table", given, columns=columns), None, checks=("columns",))
    assert [x.column for x in found.giveaways] == ["code"]
    assert found.columns == {}


def test_the_worst_stand_first():
    rows, given = clusters(size=300)
    rows = torch.cat([rows, torch.eye(16)[:3] * 20])
    found = check(data_of(rows, "table", np.r_[given, 0, 0, 0]), rows, checks=("outliers",))
    score = found.columns["outlier_score"]
    rows_worst = found.worst("outlier")
    assert (np.diff(score[rows_worst]) >= 0).all()
    assert score[rows_worst[0]] == score.min()
    assert len(found.worst("outlier", 1)) == 1


def test_a_table_names_the_others_of_a_set_and_the_copy_in_the_test_set():
    rows, given = clusters(size=300)
    rows[10] = rows[11] = rows[12]
    data = data_of(rows, "table", given)
    test = data_of(torch.cat([torch.rand(3, 16), rows[20:21] * 1.0001]), "table")
    found = check(data, rows, checks=("duplicates",), test=(test, test.inputs))
    table = found.table(data.ids)
    assert table.column_names[0] == "id"
    assert table["near_duplicate_sets"][11].as_py() == ["id10", "id12"]
    assert table["near_duplicate_sets"][13].as_py() == []
    assert table["test_duplicate_id"][20].as_py() == "id3"
    assert found.summary["test_duplicate"] == 1


def test_mistakes_are_said_in_one_line():
    data, features = images_and_features()
    with pytest.raises(AbstainError, match=r"checks must be of .* got 'outlier'; did you mean"):
        check(data, features, checks=("outlier",))
    with pytest.raises(AbstainError, match="features must have a row for each of 60 samples"):
        check(data, features[:7])


def test_scaled_images_are_not_called_blurry():
    images = torch.randint(0, 256, (30, 3, 16, 16), dtype=torch.uint8)
    data = LabeledData(
        inputs=images, given=torch.arange(30) % 2, classes=("a", "b"),
        ids=[str(k) for k in range(30)], kind="image", scaled=True,
    )  # fmt: skip
    found = check(data, None, checks=("images",))
    assert "dark" in found.issues
    assert "blurry" not in found.issues
    assert "scaled when read" in found.skipped["blurry images"]


def test_features_may_be_those_of_numpy():
    data, features = images_and_features()
    found, again = check(data, features), check(data, features.numpy())
    assert again.summary == found.summary
    np.testing.assert_array_equal(again.columns["outlier_score"], found.columns["outlier_score"])
    with pytest.raises(AbstainError, match=r"features must be finite numbers .* NaN or infinity"):
        check(data, np.full((60, 20), np.nan, np.float32))


def test_the_worst_of_an_issue_that_was_skipped():
    data, features = images_and_features()
    found = check(data, features, checks=("images",))
    with pytest.raises(AbstainError, match=r"^issue must .*got 'drak'; did you mean dark\?"):
        found.worst("drak")
    with pytest.raises(AbstainError, match=r"^issue must .*got 'outlier'"):
        found.worst("outlier")
