"""Samples as a person looks at them: thumbnails, texts, rows."""

import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image

from abstain.data import LabeledData
from abstain.showing.as_html import Samples, data_uri


def test_a_missing_category_is_compared_with_others_that_are_missing():
    nan = float("nan")
    rows = [[nan, nan], [nan, 1.0], [nan, 2.0], [0.0, 3.0], [1.0, nan], [1.0, nan]]
    data = LabeledData(
        inputs=torch.tensor(rows),
        given=torch.tensor([0, 0, 0, 0, 1, 1]),
        classes=("a", "b"),
        ids=[str(k) for k in range(6)],
        kind="table",
        columns=("city", "size"),
        categories={"city": ("Oslo", "Rome")},
    )
    shown = Samples(data).show(0, proposed=1)
    assert [value for _, values in shown.lines for value in values] == [
        "missing",
        "75% alike",
        "0% alike",
        "missing",
        "2",
        "missing",
    ]


def test_an_absurd_value_is_shown_and_has_no_part_in_means():
    rows = torch.arange(60.0)[:, None].repeat(1, 2)
    rows[7, 0] = 1e30
    data = LabeledData(
        inputs=rows,
        given=torch.arange(60) % 2,
        classes=("a", "b"),
        ids=[str(k) for k in range(60)],
        kind="table",
    )
    shown = Samples(data).show(7, proposed=0)
    values = [value for _, values in shown.lines for value in values]
    assert values == ["1e+30", "30.79", "29", "7", "30", "29"]


def test_pictures_stop_where_the_page_would_become_too_heavy():
    noise = torch.randint(0, 256, (60, 3, 200, 200), dtype=torch.uint8)
    ids = [str(k) for k in range(60)]
    given = torch.arange(60) % 2
    data = LabeledData(inputs=noise, given=given, classes=("a", "b"), ids=ids, kind="image")
    samples = Samples(data, bytes_left=40_000)
    shown = [samples.show(k) for k in range(60)]
    assert shown[0] is not None
    assert shown[-1] is None
    assert sum(len(x.source) for x in shown if x) < 60_000


@pytest.mark.parametrize(
    "pixels",
    [
        np.arange(64, dtype=np.uint8).reshape(1, 8, 8),
        np.random.default_rng(0).normal(size=(3, 9, 7)),
        np.zeros((2, 300, 40), dtype=np.float32),
        np.full((3, 500, 700), 7, dtype=np.uint8),
    ],
)
def test_any_image_becomes_a_small_picture(pixels):
    uri, size = data_uri(pixels)
    header, _, code = uri.partition(",")
    picture = Image.open(io.BytesIO(base64.b64decode(code)))
    assert header in ("data:image/png;base64", "data:image/jpeg;base64")
    assert picture.size == size
    assert max(size) <= 112
    if pixels.dtype == np.uint8 and pixels.shape == (1, 8, 8):
        assert np.asarray(picture).tolist() == pixels[0].tolist()


def test_an_image_that_is_gone_costs_its_picture_only():
    class Gone:
        def __len__(self):
            return 3

        def __getitem__(self, index):
            raise OSError("unmounted")

    data = LabeledData(
        inputs=Gone(), given=torch.tensor([0, 1, 0]), classes=("a", "b"), ids="abc", kind="image"
    )
    assert Samples(data).show(1) is None


@pytest.mark.parametrize("columns", [0, 1])
def test_texts_of_a_row_stand_beside_its_numbers(columns):
    data = LabeledData(
        inputs=torch.arange(4.0)[:, None][:, :columns],
        given=torch.arange(4) % 2,
        classes=("a", "b"),
        ids=[str(k) for k in range(4)],
        kind="table",
        columns=("size",)[:columns],
        texts={"note": ["as new", "", "fine", "word " * 1000]},
    )
    shown = [Samples(data).show(k, proposed=1) for k in range(4)]
    assert shown[0].texts == [("note", "as new")]
    assert shown[1].texts == [("note", "missing")]
    assert 200 < len(shown[3].texts[0][1]) < 300
    assert [len(x.lines) for x in shown] == [columns] * 4
    assert shown[0].left_out == 0
