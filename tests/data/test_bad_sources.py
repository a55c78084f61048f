"""Sources that cannot be used: each has its own error, which says what to do.

Tests of loading.py and class_labels.py; of the readers by mistake, whichever finds it.
"""

import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from abstain.data import load
from abstain.errors import DataError


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_missing_label_column_names_the_columns(tmp_path):
    path = write(tmp_path / "t.csv", "x,lable\n1,a\n2,b\n")
    with pytest.raises(
        DataError,
        match=r"got 'label' \(the default\); its columns are x, lable; did you mean lable\?",
    ):
        load(path)
    with pytest.raises(
        DataError, match=r"label must name a column .*got 'kind'; its columns are x"
    ):
        load(path, label="kind")
    with pytest.raises(DataError, match=r"its columns are x, ' label'; did you mean ' label'\?"):
        load(write(tmp_path / "t.csv", "x, label\n1,a\n2,b\n"))
    with pytest.raises(DataError, match=r"label must name a column, got a list; .* as \(X, y\)"):
        load(path, label=["a", "b"])


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.jsonl", "t.npz"])
def test_empty_file(tmp_path, name):
    with pytest.raises(DataError, match="got an empty file"):
        load(write(tmp_path / name, b""))


def test_header_without_rows(tmp_path):
    with pytest.raises(DataError, match="must hold rows, got none"):
        load(write(tmp_path / "t.csv", "x,label\n"))


def test_one_class_only(tmp_path):
    with pytest.raises(DataError, match="two classes or more, got only 'a'"):
        load(write(tmp_path / "t.csv", "x,label\n1,a\n2,a\n"))


def test_class_with_one_sample(tmp_path):
    with pytest.raises(DataError, match="got one of b, d"):
        load(write(tmp_path / "t.csv", "x,label\n1,a\n2,a\n3,b\n4,c\n5,c\n6,d\n"))
    with pytest.raises(DataError, match=r"got one of Rmoe; .*did you mean Rome\?"):
        load(write(tmp_path / "t.csv", "x,label\n1,Rome\n2,Oslo\n3,Rome\n4,Oslo\n5,Rmoe\n"))


@pytest.mark.parametrize("bad", ["inf", "-inf", "1e300"])
def test_features_that_are_no_numbers(tmp_path, bad):
    rows = "".join(f"{i},{bad if i % 2 else i},{'ab'[i % 2]}\n" for i in range(14))
    with pytest.raises(
        DataError,
        match=r"more than 3\.4e38, in column 'y', rows 1, 3, 5, 7, 9 and 2 more",
    ):
        load(write(tmp_path / "t.csv", "x,y,label\n" + rows))


def test_duplicate_ids(tmp_path):
    with pytest.raises(DataError, match="ids of t must be unique, got q at least twice"):
        load(write(tmp_path / "t.csv", "id,x,label\np,1,a\nq,2,b\nq,3,a\nr,4,b\n"))


def test_an_index_that_repeats_itself():
    """As parts of a table have it that were put together."""
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "label": list("abab")}, index=[0, 1, 0, 1])
    with pytest.raises(DataError, match=r"index .* once, got 0, 1 again; .*reset_index"):
        load(frame)
    assert load(frame.assign(id=list("pqrs"))).ids == list("pqrs")


def test_labels_that_are_measurements(tmp_path):
    with pytest.raises(DataError, match=r"look like measurements: 0.25, 0.37"):
        load(write(tmp_path / "t.csv", "x,label\n1,0.37\n2,0.25\n3,1\n4,1\n"))
    with pytest.raises(DataError, match="look like measurements"):
        load((np.zeros((4, 2)), np.array([0.1, 0.2, 0.1, 0.2])))


def test_rows_without_a_label(tmp_path):
    with pytest.raises(DataError, match="got none in 2 rows: 1, 3"):
        load(write(tmp_path / "t.csv", "x,label\n1,a\n2,\n3,b\n4,\n"))
    pq.write_table(pa.table({"x": [1, 2, 3], "label": [0, None, 1]}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match="got none in 1 row: 1"):
        load(tmp_path / "t.parquet")


def test_rows_without_a_text(tmp_path):
    pq.write_table(pa.table({"text": ["a", None], "label": [0, 1]}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"text column 'text' .*got none in 1 row: 1;"):
        load(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", b"text,label\nfine,a\ncaf\xe9,b\n"),
        ("t.jsonl", b'{"text": "fine", "label": "a"}\n\n{"text": "caf\xe9", "label": "b"}\n'),
    ],
)
def test_text_that_is_not_utf8(tmp_path, name, content):
    with pytest.raises(
        DataError, match=r"must be UTF-8, got byte 0xe9 in line 3; convert it.*iconv"
    ):
        load(write(tmp_path / name, content))


def test_text_of_wide_characters(tmp_path):
    with pytest.raises(DataError, match=r"got byte 0xff in line 1; .*iconv -f UTF-16 -t UTF-8"):
        load(write(tmp_path / "t.csv", "text,label\nfine,a\n".encode("utf-16")))


def test_parquet_text_that_is_not_utf8(tmp_path):
    raw = pa.array([b"fine", b"caf\xe9"]).view(pa.string())
    pq.write_table(pa.table({"text": raw, "label": [0, 1]}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"text column 'text' .*must be UTF-8"):
        load(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    "names",
    [("train.csv", "train.parquet"), ("val.csv", "validation.csv"), ("train.csv", "train-0.csv")],
)
def test_split_named_twice(tmp_path, names):
    write(tmp_path / "train.csv", "x,label\n1,a\n")
    for name in names:
        write(tmp_path / name, "x,label\n1,a\n")
    with pytest.raises(DataError, match="must name each split once"):
        load(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="who may read all files is refused none")
@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.parquet"])
def test_a_file_that_may_not_be_read(tmp_path, name):
    write(tmp_path / name, "x,label\n1,a\n2,b\n").chmod(0)
    with pytest.raises(DataError, match=r"must be a readable .*Permission denied"):
        load(tmp_path / name)


def test_a_file_in_place_of_columns(tmp_path):
    np.savez(tmp_path / "clip.npz", x=np.zeros((4, 2)))
    for source in (write(tmp_path / "t.csv", "x,label\n1,a\n2,b\n"), (np.zeros((2, 2)), "ab")):
        with pytest.raises(DataError, match=r"columns or one .npy .* got .*clip.npz; save"):
            load(source, features=str(tmp_path / "clip.npz"))


def test_missing_file_and_near_name(tmp_path):
    write(tmp_path / "pets.csv", "x,label\n")
    with pytest.raises(DataError, match=r"that exists, got .*pest\.csv; did you mean .*pets\.csv"):
        load(tmp_path / "pest.csv")


def test_no_name_at_all():
    """As a shell gives it for a variable that is not set."""
    with pytest.raises(DataError, match=r"source must be a built-in set .*, got ''"):
        load("")


def test_unknown_kind_of_file(tmp_path):
    with pytest.raises(DataError, match=r"of type \.csv.*got .*notes\.docx; convert it"):
        load(write(tmp_path / "notes.docx", "x"))
    with pytest.raises(DataError, match=r"got .*cat\.jpg; give the folder that it lies in"):
        load(write(tmp_path / "cat.jpg", "x"), labelled=False)


@pytest.mark.parametrize("name", ["t.parquet", "t.jsonl", "t.csv"])
def test_garbage_is_named(tmp_path, name):
    with pytest.raises(DataError, match=r"must be a readable"):
        load(write(tmp_path / name, b'{"a": 1}}\n1,2\n3\n'))


def test_single_file_has_no_test_split(tmp_path):
    path = write(tmp_path / "t.csv", "x,label\n1,a\n2,b\n")
    with pytest.raises(DataError, match=r"split must be one of .*train; got 'test'"):
        load(path, split="test")


def test_column_named_twice(tmp_path):
    with pytest.raises(DataError, match="different names, got x twice"):
        load(write(tmp_path / "t.csv", "x,x,label\n1,2,a\n"))


def test_only_a_label_column(tmp_path):
    with pytest.raises(DataError, match="must have feature columns besides label"):
        load(write(tmp_path / "t.csv", "label\na\nb\n"))


def test_column_that_is_no_feature(tmp_path):
    pq.write_table(pa.table({"x": [[1], [2]], "label": [0, 1]}), tmp_path / "t.parquet")
    with pytest.raises(
        DataError, match=r"column 'x' .*must hold numbers, text or images, got list.* features, or"
    ):
        load(tmp_path / "t.parquet")


def test_label_outside_the_named_classes(tmp_path):
    meta = '{"info": {"features": {"label": {"names": ["a", "b"]}}}}'
    table = pa.table({"x": [1, 2], "label": [0, -1]}).replace_schema_metadata({"huggingface": meta})
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(
        DataError, match=r"0 to 1 for 2 named classes, got -1 in row 1.*labelled=False"
    ):
        load(tmp_path / "t.parquet")


def test_a_column_of_several_types():
    frame = pd.DataFrame({"x": [1, "one"], "label": ["a", "b"]})
    with pytest.raises(DataError, match=r"of one type each, got: Could not .* column x "):
        load(frame)


@pytest.mark.parametrize("shape", [(4, 0), (4, 3, 0, 8)])
def test_samples_without_numbers(shape):
    with pytest.raises(DataError, match="X must hold numbers for every sample, got shape"):
        load((np.zeros(shape), [0, 1, 0, 1]))


def test_a_class_that_the_training_data_do_not_have_is_named_with_its_samples(tmp_path):
    (tmp_path / "new.csv").write_text("size,label\n1,cat\n2,zebra\n3,dog\n4,zebra\n5,dgo\n")
    expected = (
        "labels of new must hold only classes of the training data (cat, dog), got dgo, zebra, "
        "which these do not have, for 3 samples: 1, 3, 4; leave out what is of no class that can "
        "be predicted; did you mean dog?"
    )
    with pytest.raises(DataError) as raised:
        load(tmp_path / "new.csv", classes=("cat", "dog"))
    assert str(raised.value) == expected


def test_one_of_anything_is_in_the_singular(tmp_path):
    (tmp_path / "gap.csv").write_text("size,label\n1,cat\n2,\n3,cat\n4,dog\n5,dog\n")
    with pytest.raises(DataError, match="got none in 1 row: 1; fill in what is missing"):
        load(tmp_path / "gap.csv")
