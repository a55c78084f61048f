import math

import torch
from samples_of_checks import data_of

from abstain.checks.empty import empty
from abstain.checks.images import measure


def test_texts_without_a_character():
    found = empty(data_of(["fine", "", " \n\t", "."], "text"))
    assert found.is_issue.tolist() == [False, True, True, False]


def test_rows_without_a_value_and_how_full_the_others_are():
    table = torch.tensor([[1.0, 2.0], [math.nan, 2.0], [math.nan, math.nan]])
    found = empty(data_of(table, "table"))
    assert found.is_issue.tolist() == [False, False, True]
    assert found.score.tolist() == [1, 0.5, 0]


def test_images_of_one_shade():
    images = torch.randint(0, 256, (3, 3, 8, 8), dtype=torch.uint8)
    images[1] = 77
    found = empty(data_of(images, "image"), measure(images))
    assert found.is_issue.tolist() == [False, True, False]


def test_rows_whose_texts_are_missing_too():
    table = torch.tensor([[1.0], [math.nan], [math.nan]])
    found = empty(data_of(table, "table", columns=("x",), texts={"note": ["fine", " ", "fine"]}))
    assert found.is_issue.tolist() == [False, True, False]
    assert found.score.tolist() == [1, 0, 0.5]
    alone = data_of(torch.empty(2, 0), "table", texts={"note": ["fine", ""], "more": ["", ""]})
    assert empty(alone).score.tolist() == [0.5, 0]
