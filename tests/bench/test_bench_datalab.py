"""The page docs/checks.md shows what the committed results give; issues are where it says.

The faults are planted into small tables here; what needs data sets is measured by the bench.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import f1_score

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import datalab
import planted_faults

from abstain.auditing.faults import QUICK
from abstain.checks import cells, classes, duplicates, giveaways, groups, neighbours, rules


def test_tables_of_the_page_are_what_the_committed_results_give():
    assert datalab.PAGE.read_text(encoding="utf-8") == datalab.page()


def test_what_the_page_says_of_the_results_holds():
    cases = json.loads(datalab.RESULT.read_text(encoding="utf-8"))["cases"]

    def f1(fault, method, mark=""):
        kept = [x for x in cases if mark in datalab.SETS[x["set"]]]
        return np.array([x[method]["f1"] for x in kept if x["fault"] == fault])

    assert {x["set"] for x in cases} == set(datalab.SETS)
    assert f1("near_duplicate", "ours").mean() > f1("near_duplicate", "datalab").mean()
    for mark, more, fewer, sets in (("*", 2, 1, 3), ("†", 9, 1, 13)):
        mine, other = (f1("near_duplicate", x, mark) for x in ("ours", "datalab"))
        assert ((mine > other).sum(), (mine < other).sum(), len(mine)) == (more, fewer, sets)
    wide = [x for x in cases if x["fault"] == "outlier" and x["columns"] > 10]
    assert max(abs(x["ours"]["f1"] - x["datalab"]["f1"]) for x in wide) < 0.01
    assert [x["ours"]["f1"] for x in wide if x["set"] == "cifar10"] == [0]
    assert f1("dark", "ours").tolist() == f1("dark", "datalab").tolist()
    assert min(f1("blurry", "ours") - f1("blurry", "datalab")) > 0
    assert f1("blurry", "ours").min() > 0.9
    assert [x["datalab"]["f1"] < 0.5 for x in cases if x["fault"] == "blurry"] == [0, 0, 1]


def test_the_page_names_the_numbers_by_which_checks_decide():
    text = datalab.PAGE.read_text(encoding="utf-8")
    for part in (
        f"Of more than {QUICK['cpu']:,} samples ({QUICK['cuda']:,} with a GPU)",
        f"lies {rules._FENCE:.1f} interquartile ranges above",
        f"avoids {giveaways.GIVEN_AWAY:.0%} of the errors of a guess",
        f"| up to {neighbours.EXACT_UP_TO['cpu']:,} | up to {neighbours.EXACT_UP_TO['cuda']:,} |",
        f"| up to {neighbours.ALL_UP_TO['cpu']:,} | – | all others, compared in the first "
        f"{neighbours._COLUMNS} principal components |",
        f"makes cells of {cells._SIZE}, and a sample is compared with those of the {cells._ASKED}",
    ):
        assert part in text, part
    assert neighbours.EXACT_UP_TO["cuda"] == neighbours.ALL_UP_TO["cuda"]
    assert duplicates.NEAR == 1 / 2  # "half the distance to the tenth neighbour"
    assert (neighbours.NEIGHBOURS, neighbours._FEW) == (10, 10)  # "up to ten columns"
    assert rules.FRACTION == 1 / 3  # "less than a third"
    assert classes.RARE == 1 / 10  # "less than a tenth of an even share"
    assert groups._TIMES == 2  # "more than twice the share of labels"


@pytest.fixture(scope="module")
def planted():
    return planted_faults.planted("breast_cancer", 5_000, 0, None)


def test_planted_rows_are_where_they_are_said_to_be(planted):
    data, features, bad = planted.only("near_duplicate")
    assert len(data) == len(features) == len(bad) == 569 + 11
    copies = np.flatnonzero(planted.fault == "near_duplicate")
    inputs = planted.data.inputs.numpy()
    np.testing.assert_allclose(inputs[copies], inputs[planted.original[copies]], rtol=0.06)
    assert bad.sum() == 22
    assert bad[-11:].all()


def test_planted_duplicates_of_a_table_are_found(planted):
    data, features, bad = planted.only("near_duplicate")
    found, score = datalab.ours(data, features, "near_duplicate")
    assert f1_score(bad, found) > 0.9
    assert score[bad].max() < score[~bad].min() + 0.1
