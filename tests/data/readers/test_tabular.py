"""Tables in files: CSV, Parquet and JSONL (also arrow_files.py, columns.py and splits.py)."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from abstain.data import load, splits
from abstain.errors import DataError

CSV = "height,weight,label\n1,2.5,cat\n3,4,dog\n5,6,cat\n7,8,dog\n"


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_numbers_of_a_csv_become_a_table(tmp_path):
    data = load(write(tmp_path / "pets.csv", CSV))
    assert data.kind == "table"
    assert data.inputs.dtype == torch.float32
    assert data.inputs.tolist() == [[1, 2.5], [3, 4], [5, 6], [7, 8]]
    assert data.columns == ("height", "weight")
    assert data.classes == ("cat", "dog")
    assert list(data.ids) == ["0", "1", "2", "3"]
    assert data.name == "pets"


def test_csv_parquet_and_jsonl_give_the_same(tmp_path):
    rows = [{"a": i, "b": i / 2, "kind": "xy"[i % 2]} for i in range(6)]
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, tmp_path / "t.parquet")
    write(tmp_path / "t.jsonl", "\n".join(json.dumps(row) for row in rows))
    write(
        tmp_path / "t.csv", "a,b,kind\n" + "".join(f"{r['a']},{r['b']},{r['kind']}\n" for r in rows)
    )
    write(tmp_path / "t.tsv", (tmp_path / "t.csv").read_text().replace(",", "\t"))
    found = [
        load(tmp_path / f"t.{end}", label="kind") for end in ("csv", "tsv", "parquet", "jsonl")
    ]
    for data in found:
        assert torch.equal(data.inputs, found[0].inputs)
        assert torch.equal(data.given, found[0].given)
        assert data.columns == ("a", "b")


def test_id_column_names_the_samples_and_is_no_feature(tmp_path):
    path = write(tmp_path / "t.csv", "id,x,label\n007,1,a\n008,2,b\n009,3,a\n010,4,b\n")
    data = load(path)
    assert list(data.ids) == ["007", "008", "009", "010"]
    assert data.columns == ("x",)


def test_text_column_with_line_breaks_and_quotes(tmp_path):
    path = write(
        tmp_path / "t.csv", 'label,text\n1,"Nice,\nreally ""nice"""\n0,bad\n1,ok\n0,Käse 雪\n'
    )
    data = load(path)
    assert data.kind == "text"
    assert data.inputs == ['Nice,\nreally "nice"', "bad", "ok", "Käse 雪"]
    assert data.given.tolist() == [1, 0, 1, 0]
    assert data.columns == ("text",)


@pytest.mark.parametrize("memory_budget", [1 << 30, 1 << 10])
def test_a_text_may_be_as_long_as_a_book(tmp_path, memory_budget):
    rows = [("short", "a"), ("a book " * 400_000, "b"), ("shorter", "a"), ("a word", "b")]
    write(tmp_path / "t.csv", "text,label\n" + "".join(f"{text},{end}\n" for text, end in rows))
    lines = [json.dumps({"text": text, "label": end}) for text, end in rows]
    write(tmp_path / "t.jsonl", "\n".join(lines))
    for name in ("t.csv", "t.jsonl"):
        data = load(tmp_path / name, memory_budget=memory_budget)
        assert [data.inputs[k] for k in range(4)] == [text for text, _ in rows]


def test_image_paths_start_at_the_file(tmp_path, make_png):
    (tmp_path / "img").mkdir()
    lines = ["path,label"]
    for i in range(4):
        (tmp_path / "img" / f"{i}.png").write_bytes(make_png(i))
        lines.append(f"img/{i}.png,{'ab'[i % 2]}")
    data = load(write(tmp_path / "t.csv", "\n".join(lines)))
    assert data.kind == "image"
    assert data.inputs[:, 0, 0, 0].tolist() == [0, 1, 2, 3]
    (tmp_path / "img" / "2.png").unlink()
    with pytest.raises(
        DataError, match=r"1 unreadable: 2 \(the first: .*img/2\.png is not there\);"
    ):
        load(tmp_path / "t.csv")
    (tmp_path / "img" / "2.png").write_bytes(make_png(44))  # a path's target may change: no cache
    assert load(tmp_path / "t.csv").inputs[2].max() == 44


def test_image_bytes_of_a_parquet_file_are_decoded_once(tmp_path, make_png, cache):
    table = pa.table({"img": [make_png(i) for i in range(4)], "label": [0, 1, 0, 1]})
    pq.write_table(table, tmp_path / "t.parquet")
    assert load(tmp_path / "t.parquet").inputs[:, 0, 0, 0].tolist() == [0, 1, 2, 3]
    assert len(list(cache.iterdir())) == 1
    assert load(tmp_path / "t.parquet").inputs[:, 0, 0, 0].tolist() == [0, 1, 2, 3]


def test_features_choose_columns_and_their_order(tmp_path):
    path = write(tmp_path / "t.csv", "a,b,note,label\n1,2,p,x\n3,4,q,y\n5,6,r,x\n7,8,s,y\n")
    assert load(path, features=["b", "a"]).inputs[0].tolist() == [2, 1]
    assert load(path, features="note").inputs == list("pqrs")
    with pytest.raises(DataError, match=r"features must name columns .*got aa; .*did you mean a\?"):
        load(path, features=["aa"])


@pytest.mark.parametrize(("name", "between"), [("t.csv", ";"), ("t.csv", "\t"), ("t.tsv", "\t")])
def test_columns_may_be_kept_apart_by_semicolons_or_tabs(tmp_path, name, between):
    for point in (",", "."):
        text = "a;b;label\n1;2,5;x\n3;-4,5;y\n5;6;x\n7;2,5;y\n".replace(",", point)
        data = load(write(tmp_path / name, text.replace(";", between)))
        assert data.columns == ("a", "b")
        assert data.inputs.tolist() == [[1, 2.5], [3, -4.5], [5, 6], [7, 2.5]]
    one = write(tmp_path / "one.csv", "text,label\na;b,x\nc;d,y\ne;f,x\ng;h,y\n")
    assert load(one).inputs == ["a;b", "c;d", "e;f", "g;h"]


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_the_index_that_pandas_writes_is_no_feature(tmp_path, name):
    """In rows sorted by label it would give the label away, wrong ones too."""
    rows = "{},a,label\n0,2,x\n1,3,x\n2,4,y\n{},5,y\n"
    assert load(write(tmp_path / "t.csv", rows.format(name, 3))).columns == ("a",)
    again = load(write(tmp_path / "t.csv", rows.format(name, 2)))
    assert again.columns == (name, "a")  # a value twice: it numbers nothing
    path = write(tmp_path / "t.csv", rows.format(name, 3))
    assert load(path, features=[name, "a"]).columns == (name, "a")


def test_a_column_called_text_decides_among_mixed_columns(tmp_path):
    path = write(tmp_path / "t.csv", "text,stars,label\nhm,1,x\nyes,2,y\nno,3,x\nwell,4,y\n")
    assert load(path).inputs == ["hm", "yes", "no", "well"]


def test_images_beside_other_columns_are_the_users_choice(tmp_path):
    path = write(tmp_path / "t.csv", "photo,size,label\na.png,1,x\nb.png,2,y\n")
    with pytest.raises(
        DataError, match=r"one kind, got image: photo; table: size; choose with features="
    ):
        load(path)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["10", "9", "10", "9"], ("9", "10")),
        (["0.0", "1.0", "0.0", "1.0"], ("0", "1")),
        (["true", "false", "true", "false"], ("false", "true")),
        (["007", "7a", "007", "7a"], ("007", "7a")),
        (["None", "scratch", "None", "scratch"], ("None", "scratch")),
    ],
)
def test_labels_are_classes_whatever_they_look_like(tmp_path, labels, classes):
    lines = [f"{i},{label}\n" for i, label in enumerate(labels)]
    data = load(write(tmp_path / "t.csv", "x,label\n" + "".join(lines)))
    assert data.classes == classes


def test_whole_floats_of_a_parquet_column_are_classes(tmp_path):
    pq.write_table(
        pa.table({"x": [1, 2, 3, 4], "label": [2.0, 0.0, 2.0, 0.0]}), tmp_path / "t.parquet"
    )
    data = load(tmp_path / "t.parquet")
    assert data.classes == ("0", "2")
    assert data.given.tolist() == [1, 0, 1, 0]


def test_test_split_takes_the_training_classes(tmp_path):
    write(tmp_path / "train.csv", "x,label\n1,a\n2,b\n3,c\n4,a\n5,b\n6,c\n")
    write(tmp_path / "test.csv", "x,label\n1,c\n")
    train = load(tmp_path)
    assert splits(tmp_path) == ("train", "test")
    assert load(tmp_path, split="test", classes=train.classes).given.tolist() == [2]
    with pytest.raises(DataError, match=r"of the training data \(a, b, see\), got c, which"):
        load(tmp_path, split="test", classes=("a", "b", "see"))
    with pytest.raises(DataError, match="classes must name every class once"):
        load(tmp_path, split="test", classes=("a", "a"))


def test_file_without_labels_for_prediction(tmp_path):
    path = write(tmp_path / "t.csv", "x,y\n1,2\n")
    data = load(path, labelled=False)
    assert data.given.tolist() == [-1]
    assert data.classes == ()
    assert data.columns == ("x", "y")
    labelled = write(tmp_path / "l.csv", CSV)
    assert load(labelled, labelled=False).columns == ("height", "weight")


def test_hub_layout_with_numbered_parts(tmp_path):
    (tmp_path / "data").mkdir()
    for part in range(3):
        table = pa.table({"x": [part * 2.0, part * 2.0 + 1], "label": [0, 1]})
        pq.write_table(table, tmp_path / "data" / f"train-0000{part}-of-00003.parquet")
    assert load(tmp_path).inputs[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    (tmp_path / "data" / "train-00001-of-00003.parquet").unlink()
    with pytest.raises(DataError, match=r"must have 3 parts .*got 2"):
        load(tmp_path)


def test_parts_with_other_columns(tmp_path):
    write(tmp_path / "train-0.csv", "x,label\n1,a\n")
    write(tmp_path / "train-1.csv", "z,label\n1,a\n")
    with pytest.raises(
        DataError, match=r"same columns, got x, z in one of train-0.csv and train-1.csv only"
    ):
        load(tmp_path)
    write(tmp_path / "train-1.csv", "x,label\nred,a\n")
    with pytest.raises(DataError, match=r"must have the same columns, got: .*x.* int64 vs string"):
        load(tmp_path)


def test_parts_may_be_read_as_different_numbers(tmp_path):
    write(tmp_path / "train-0.csv", "x,y,label\n1,,a\n2,,b\n")
    write(tmp_path / "train-1.csv", "y,x,label\n0.5,1.5,a\n,2,b\n")
    data = load(tmp_path)
    assert (data.columns, data.inputs[:, 0].tolist()) == (("x", "y"), [1, 2, 1.5, 2])
    assert data.inputs[:, 1].isnan().tolist() == [True, True, False, True]


def test_true_and_false_are_numbers(tmp_path):
    path = write(tmp_path / "t.csv", "x,label\ntrue,a\nfalse,b\ntrue,a\nfalse,b\n")
    assert load(path).inputs.flatten().tolist() == [1, 0, 1, 0]


def test_cached_parquet_images_need_no_image_reader(tmp_path, make_png, monkeypatch):
    import sys

    pq.write_table(
        pa.table({"img": [make_png(i) for i in range(4)], "label": [0, 1, 0, 1]}),
        tmp_path / "t.parquet",
    )
    first = load(tmp_path / "t.parquet")
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert torch.equal(load(tmp_path / "t.parquet").inputs, first.inputs)
    with pytest.raises(DataError, match=r"a table needs the package pyarrow.*pip install pyarrow"):
        load(tmp_path / "t.parquet", features="img")


def test_parquet_that_only_points_to_images_is_read_again(tmp_path, make_png):
    for i in range(4):
        (tmp_path / f"{i}.png").write_bytes(make_png(i))
    images = pa.array(
        [{"bytes": None, "path": f"{i}.png"} for i in range(4)],
        pa.struct({"bytes": pa.binary(), "path": pa.string()}),
    )
    pq.write_table(pa.table({"image": images, "label": [0, 1, 0, 1]}), tmp_path / "t.parquet")
    assert load(tmp_path / "t.parquet").inputs[2].max() == 2
    (tmp_path / "2.png").write_bytes(make_png(44))
    assert load(tmp_path / "t.parquet").inputs[2].max() == 44


def test_label_is_no_feature(tmp_path):
    with pytest.raises(DataError, match="features must not hold the label column, got 'label'"):
        load(write(tmp_path / "t.csv", CSV), features=["height", "label"])
