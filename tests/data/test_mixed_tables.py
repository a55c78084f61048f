"""Tables as people have them: categories, dates, gaps, and columns that say nothing.

Grouped by what tables hold, from the reader (tabular.py, columns.py, rows.py) to the encoder
(table_encoder.py, table_checks.py).
"""

import datetime
import pickle
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from abstain.data import fit_encoder, load, load_encoder
from abstain.data.readers.rows import LazyTable, as_numbers, categories_of
from abstain.errors import DataError

ROWS = [
    ("1", "30", "Rome", "2020-01-01", "yes"),
    ("2", "", "Oslo", "2020-01-02", "no"),
    ("3", "50", "", "2020-01-03", "yes"),
    ("4", "40", "Rome", "2020-01-04", "no"),
    ("5", "60", " Oslo ", "2020-01-05", "yes"),
    ("6", "NaN", "Rome", "2020-01-06", "no"),
]
HEAD = "customer,age,city,joined,label"


def write(path, rows=ROWS, head=HEAD):
    path.write_text("\n".join([head, *(",".join(row) for row in rows)]) + "\n")
    return path


def test_categories_are_numbers_dates_are_days_and_gaps_stay_gaps(tmp_path):
    data = load(write(tmp_path / "t.csv"), ignore="customer")
    assert (data.kind, data.columns) == ("table", ("age", "city", "joined"))
    assert data.categories == {"city": ("Oslo", "Rome")}
    first_day = (datetime.date(2020, 1, 1) - datetime.date(1970, 1, 1)).days
    nan = float("nan")
    expected = [[30, 1], [nan, 0], [50, nan], [40, 1], [60, 0], [nan, 1]]
    expected = [[*row, first_day + k] for k, row in enumerate(expected)]
    np.testing.assert_array_equal(data.inputs.numpy(), np.array(expected, dtype=np.float32))
    assert data.named(data.inputs[2].tolist()) == [50.0, None, "2020-01-03"]


def days_since_1970(text):
    if not text:
        return float("nan")
    moment = datetime.datetime.fromisoformat(text.strip())
    moment = moment.replace(tzinfo=moment.tzinfo or datetime.UTC)
    return moment.timestamp() / 86400


@pytest.mark.parametrize(
    "moments",
    [
        ["2024-02-29", "2024-03-01", "", "9999-12-31"],
        ["2024-02-29 00:00", " 2024-03-01T12:30:15", "1969-12-31", ""],
        ["2024-02-29T01:00:00+01:00", "2024-03-01T00:00:00Z", "", "1970-01-01T00:00:00Z"],
        ["2024-02-29T00:00:00.123456789", "", "2024-03-01T12:00:00.5", "2000-01-01"],
    ],
)
def test_dates_that_are_texts_are_read_alike_from_every_table(moments, tmp_path):
    frame = pd.DataFrame({"joined": moments, "age": [1.5, 2, 3, 4], "label": ["a", "b", "a", "b"]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    frame.to_parquet(tmp_path / "t.parquet")
    frame.astype({"joined": "category"}).to_parquet(tmp_path / "dictionary.parquet")
    sources = [frame, *sorted(tmp_path.iterdir())]
    lazy = load(tmp_path / "t.parquet", memory_budget=8)
    expected = np.array([days_since_1970(text) for text in moments], dtype=np.float32)
    for data in map(load, sources):
        assert (data.kind, data.dates, data.categories) == ("table", ("joined",), {})
        np.testing.assert_array_equal(data.inputs[:, 0].numpy(), expected)
    np.testing.assert_array_equal([float(lazy.inputs[k][0]) for k in range(4)], expected)


def test_whole_numbers_of_many_digits_are_numbers(tmp_path):
    """As keys of customers are, and what hashes give."""
    rows = [(str(9007199254740993 + k), "ab"[k % 2]) for k in range(4)]
    data = load(write(tmp_path / "t.csv", rows, "key,label"))
    assert data.inputs[:, 0].tolist() == [2.0**53] * 4


def test_texts_that_are_no_dates_stay_categories():
    texts = ["2024-02-29", "2024-02-29", "soon", "soon"]
    frame = pd.DataFrame({"due": texts, "age": [1.5, 2, 3, 4], "label": ["a", "b", "a", "b"]})
    data = load(frame)
    assert (data.dates, data.categories) == ((), {"due": ("2024-02-29", "soon")})
    # New rows that happen to hold dates only are still of these categories.
    new = load(frame[:2], categories=data.categories, labelled=False)
    assert (new.dates, new.inputs[:, 0].tolist()) == ((), [0.0, 0.0])


def test_what_a_model_sees_is_what_scikit_learn_makes_of_it(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": np.where(rng.random(60) < 0.2, np.nan, rng.normal(40, 9, 60)),
            "income": rng.lognormal(10, 1, 60),
            "city": rng.choice(["Rome", "Oslo", "Bonn"], 60),
            "label": rng.choice(["yes", "no"], 60),
        }
    )
    encoder = fit_encoder(data := load(frame))
    theirs = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["income"]),
            ("cities", OneHotEncoder(), ["city"]),
            ("gaps", MissingIndicator(), ["age"]),
        ]
    ).fit_transform(frame)
    ours = encoder.encode(data)
    assert encoder.input_shape == (6,)
    np.testing.assert_allclose(ours[:, 1:].numpy(), theirs, rtol=1e-5, atol=1e-5)
    # Theirs fills gaps before it scales; of ours the values that are there have mean 0, spread 1.
    age = frame["age"].to_numpy()
    scaled = np.nan_to_num((age - np.nanmean(age)) / np.nanstd(age))
    np.testing.assert_allclose(ours[:, 0].numpy(), scaled, rtol=1e-5, atol=1e-5)
    encoder.save(tmp_path)
    assert torch.equal(load_encoder(tmp_path).encode(data), ours)


def test_images_are_no_table_of_other_categories(tmp_path):
    encoder = fit_encoder(load(write(tmp_path / "t.csv")))
    with pytest.raises(DataError, match=r"digits must hold what the model .* \(table\), got image"):
        encoder.encode(load("digits"))


def test_above_the_budget_it_is_the_same(tmp_path):
    path = write(tmp_path / "t.csv")
    lazy, whole = load(path, memory_budget=8), load(path)
    assert isinstance(lazy.inputs, LazyTable)
    encoder = fit_encoder(lazy)
    encoded = pickle.loads(pickle.dumps(encoder.encode(lazy)))
    rows = torch.stack([encoded[k] for k in range(len(ROWS))])
    assert torch.allclose(rows, fit_encoder(whole).encode(whole))


def test_new_data_are_numbered_as_the_training_data_were(tmp_path):
    encoder = fit_encoder(data := load(write(tmp_path / "t.csv"), features=["city", "age"]))
    row = [("x", "30", "Bonn", "2020-01-01", "yes"), ("y", "", "Rome", "2020-01-01", "no")]
    new = write(tmp_path / "new.csv", row)
    as_trained = {"features": data.columns, "labelled": False}
    with pytest.raises(DataError, match="numbered as those of the training data"):
        encoder.encode(load(new, **as_trained))
    encoded = encoder.encode(load(new, **as_trained, categories=data.categories))
    # A city that training did not have is none of its cities, and the data say so.
    assert load(new, **as_trained, categories=data.categories).unknown == ("city (Bonn in row 0)",)
    assert encoded[:, :2].tolist() == [[0, 0], [0, 1]]
    assert encoded[:, 3:].tolist() == [[1, 0], [0, 1]]


def test_categories_that_look_like_numbers_in_new_data(tmp_path):
    rows = [("1", "7"), ("2", "B"), ("3", "7"), ("4", "B")]
    path = write(
        tmp_path / "t.csv", [(*row, "ab"[k % 2]) for k, row in enumerate(rows)], "x,k,label"
    )
    encoder = fit_encoder(data := load(path))
    new = write(tmp_path / "new.csv", [("1", "7")], "x,k")
    read = load(new, features=data.columns, categories=data.categories, labelled=False)
    assert encoder.encode(read)[0, 1:].tolist() == [1, 0]


@pytest.mark.parametrize("memory_budget", [8, 1 << 20])
@pytest.mark.parametrize("value", ["007", "7.0", "True", "2024-02-29T00:00", "NA"])
def test_categories_of_new_data_are_read_as_they_are_written(tmp_path, value, memory_budget):
    """Alone they are read as numbers, as truth or as moments, and were then unknown."""
    rows = [(str(k), ("B", value)[k % 2], "ab"[k % 2]) for k in range(4)]
    encoder = fit_encoder(data := load(write(tmp_path / "t.csv", rows, "x,k,label")))
    new = write(tmp_path / "new.csv", [("1", value)] * 2, "x,k")
    read = load(new, features=data.columns, categories=data.categories, labelled=False,
                memory_budget=memory_budget)  # fmt: skip
    encoded = encoder.encode(read)
    place = 1 + data.categories["k"].index(value)
    assert [float(encoded[k][place]) for k in range(2)] == [1, 1]


def test_texts_where_training_had_numbers(tmp_path):
    encoder = fit_encoder(load(pd.DataFrame({"x": range(4), "y": range(4), "label": list("abab")})))
    new = load(
        pd.DataFrame({"x": [1, 2], "y": ["?", "2"], "label": list("ab")}), classes=("a", "b")
    )
    with pytest.raises(
        DataError, match=r"column 'y' of frame must hold numbers, .* got \? in row 0;"
    ):
        encoder.encode(new)


@pytest.mark.parametrize("columns", [["joined"], ["age", "joined"]])
@pytest.mark.parametrize(
    ("new", "named"),
    [
        (["2024-02-29", "", "2023-02-30"], "got 2023-02-30 in row 2;"),
        (["2023-02-30", "soon", "2023-02-30"], "got 2023-02-30, soon in rows 0, 1, 2;"),
        # Each is a date, but what is compared with what?
        (["2024-02-29", "2024-02-29T00:00Z", ""], "got 2024-02-29, 2024-02-29T00:00Z in rows 0, 1"),
    ],
)
@pytest.mark.parametrize("memory_budget", [8, 1 << 20])
def test_a_date_that_does_not_exist_is_named(tmp_path, columns, new, named, memory_budget):
    encoder = fit_encoder(load(write(tmp_path / "t.csv"), features=columns))
    rows = [("x", "1", "Rome", joined, "yes") for joined in new]
    data = load(
        write(tmp_path / "new.csv", rows), features=columns, labelled=False,
        memory_budget=memory_budget,
    )  # fmt: skip
    with pytest.raises(DataError, match=re.escape(named)) as error:
        encoder.encode(data)
    assert "column 'joined' of new must hold dates (ISO 8601" in str(error.value)


@pytest.mark.parametrize("columns", [["joined"], ["age", "joined"]])
@pytest.mark.parametrize(
    ("new", "named"),
    [
        (["20240229", "20240301"], "got 2.024023e+07, 2.02403e+07 in rows 0, 1;"),
        (["", "45351"], "got 45351 in row 1;"),  # as spreadsheets count days
        (["2024-02-29", "2024"], "got 2024 in row 1;"),
        (["2024-02-29", "20240301"], "got 20240301 in row 1;"),
        (["29/02/2024", "01/03/2024"], "got 29/02/2024, 01/03/2024 in rows 0, 1;"),
    ],
)
def test_what_is_no_date_where_training_had_dates_is_named(tmp_path, columns, new, named):
    """Numbers passed for days since 1970."""
    encoder = fit_encoder(load(write(tmp_path / "t.csv"), features=columns))
    encoder.save(tmp_path)
    rows = [("x", "1", "Rome", joined, "yes") for joined in new]
    data = load(write(tmp_path / "new.csv", rows), features=columns, labelled=False)
    rule = "column 'joined' of new must hold dates (ISO 8601, 2024-02-29) of one form, as in the"
    for known in (encoder, load_encoder(tmp_path)):
        with pytest.raises(DataError, match=re.escape(named)) as error:
            known.encode(data)
        assert str(error.value).startswith(rule)


def test_dates_where_training_had_numbers_are_named():
    numbers = pd.DataFrame({"x": range(4), "y": range(4), "label": list("abab")})
    encoder = fit_encoder(load(numbers))
    of_arrays = fit_encoder(load((np.eye(4, 2), list("abab"))))
    new = load(pd.DataFrame({"x": [1, 2], "y": ["", "2024-02-29"]}), labelled=False)
    for known in (encoder, of_arrays):
        with pytest.raises(
            DataError, match=r"column 'y' of frame must hold numbers, .* got 2024-02-29 in row 1;"
        ):
            known.encode(new)


def test_dates_that_are_all_missing_are_gaps(tmp_path):
    rows = [
        ("x", "1", "Rome", joined, "ab"[k % 2]) for k, joined in enumerate(["2024-02-29", ""] * 2)
    ]
    encoder = fit_encoder(load(write(tmp_path / "t.csv", rows), features=["age", "joined"]))
    new = write(tmp_path / "new.csv", [("x", "1", "Rome", "", "a")] * 2)
    encoded = encoder.encode(load(new, features=["age", "joined"], labelled=False))
    assert encoded[:, 1:].tolist() == [[0, 1], [0, 1]]


def test_texts_that_are_all_empty_are_missing_numbers():
    encoder = fit_encoder(load(pd.DataFrame({"x": range(4), "y": range(4), "label": list("abab")})))
    empty = pd.DataFrame({"x": [1, 2], "y": ["", " "]})
    with pytest.raises(DataError, match="got NaN or infinity in column 'y', rows 0, 1;"):
        encoder.encode(load(empty, labelled=False))


def test_a_date_that_does_not_exist_is_named_before_the_training(tmp_path):
    days = [f"2023-01-{k:02}" for k in range(1, 29)]
    frame = pd.DataFrame({"day": [*days, "2023-02-30"], "x": 1.5, "label": [*"ab" * 14, "a"]})
    with pytest.raises(DataError, match=r"'day' .* dates in every row, got 2023-02-30 among them"):
        fit_encoder(load(frame))


def test_dates_that_are_not_iso_are_named_before_the_training():
    days = [f"{k:02}/01/2023" for k in range(1, 29)]
    frame = pd.DataFrame({"day": days, "x": 1.5, "label": [*"ab" * 14]})
    with pytest.raises(DataError, match=r"'day' .* got 28 different .*; write dates as 2024-02-29"):
        fit_encoder(load(frame))


@pytest.mark.parametrize("form", ["${:,.2f}", "{:.1f} %", "{:,.0f}", "-{:_.1f}€"])
def test_numbers_that_are_written_for_people_are_named(form):
    prices = [form.format(1000 * k + 0.5).replace("_", " ") for k in range(1, 29)]
    frame = pd.DataFrame({"price": prices, "x": 1.5, "label": [*"ab" * 14]})
    with pytest.raises(
        DataError, match=r"'price' .* got 28 different .*; write numbers as 1234\.5"
    ):
        fit_encoder(load(frame))


def test_texts_that_do_not_repeat_are_no_categories(tmp_path):
    rows = [(str(k), f"note {k}", "ab"[k % 2]) for k in range(8)]
    data = load(write(tmp_path / "t.csv", rows, "x,note,label"))
    with pytest.raises(
        DataError, match=r"'note' of t must repeat .* got 8 different ones in 8 row"
    ):
        fit_encoder(data)
    assert load(tmp_path / "t.csv", ignore=["note"]).columns == ("x",)
    assert load(tmp_path / "t.csv", features="note").kind == "text"


def test_columns_to_ignore_must_be_there(tmp_path, image_folder):
    with pytest.raises(
        DataError, match=r"ignore must name columns .*got aeg; .*did you mean age\?"
    ):
        load(write(tmp_path / "t.csv"), ignore=["aeg"])
    with pytest.raises(DataError, match=r"ignore must be left out for .*photos, a folder of im"):
        load(image_folder(), ignore=["age"])


@given(st.lists(st.sampled_from(["Rome", "Oslo", "Bonn", "", None]), min_size=1, max_size=20))
def test_every_category_is_found_again_under_its_number(values):
    table = pa.table({"city": pa.array(values, pa.string())})
    known = categories_of(table, ["city"])["city"]
    numbers = as_numbers(table, ["city"], {"city": known})[:, 0]
    again = [None if np.isnan(number) else known[int(number)] for number in numbers]
    assert again == [value or None for value in values]


def test_a_word_among_numbers_is_named():
    """As people write what they do not know: the column is then one of texts."""
    sizes = [str(k / 7) for k in range(40)]
    frame = pd.DataFrame({"size": [*sizes, "?", "n. a."], "label": ["yes", "no"] * 21})
    with pytest.raises(
        DataError, match=r"'size' .* numbers or dates in every row, got \?, n\. a\. among"
    ):
        fit_encoder(load(frame.assign(weight=1.5)))
    with pytest.raises(DataError, match=r"got texts such as '0.0'; convert it to numbers, or"):
        fit_encoder(load(frame[:40].assign(weight=1.5)))
