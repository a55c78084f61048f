"""Tests of the contract of all sources, checked where it is put together."""

from dataclasses import replace

import pytest
import torch

from abstain.data import LabeledData
from abstain.data.contract import NumberedIds, check_unique
from abstain.errors import DataError

DATA = LabeledData(
    inputs=["fine", "dull", "kind"], given=torch.tensor([0, 1, 0]), classes=("+", "-"),
    ids=("a", "b", "c"), kind="text",
)  # fmt: skip


@pytest.mark.parametrize(
    "shorter",
    [
        {"inputs": ["fine"]},
        {"given": torch.zeros(2)},
        {"ids": ("a",)},
        {"true": torch.zeros(2)},
        {"weights": torch.ones(4)},
        {"shown": replace(DATA, inputs=["x"], given=torch.zeros(1), ids=("a",))},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_parts_of_another_length_are_refused(shorter):
    with pytest.raises(DataError, match="must have one length, got"):
        replace(DATA, **shorter)


def test_what_is_shown_has_the_labels_that_the_model_sees():
    changed = torch.tensor([1, 1, 0])
    numbers = replace(DATA, inputs=torch.zeros(3, 2), kind="table", shown=DATA, given=changed,
                      true=DATA.given, weights=torch.ones(3))  # fmt: skip
    shown = numbers.as_shown
    assert (shown.kind, shown.inputs) == ("text", DATA.inputs)
    assert shown.given is changed
    assert shown.true is DATA.given
    assert shown.weights is numbers.weights


def test_ids_are_unique_and_can_be_written_down():
    with pytest.raises(DataError, match="ids of photos must be unique, got b at least twice"):
        check_unique(["a", "b", "b"], "photos")
    with pytest.raises(DataError, match=r"must be UTF-8, got .*udcff"):
        check_unique(["a", "b\udcff"], "photos")
    check_unique(["é", "e"], "photos")


def test_numbered_ids_are_those_of_a_list():
    ids = NumberedIds(12, prefix="row-", width=3)
    names = [f"row-{k:03d}" for k in range(12)]
    assert list(ids) == names
    assert list(ids[3:9:2]) == names[3:9:2]
    assert ids[-1] == names[-1]
