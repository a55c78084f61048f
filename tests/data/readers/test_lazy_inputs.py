"""Data above the memory budget: decoded per sample, in this process or in workers.

Grouped by this, for every reader that has lazy inputs (image_folder.py, images.py, rows.py).
"""

import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader

from abstain.data import fit_encoder, load
from abstain.data.readers.images import LazyImages
from abstain.data.readers.rows import LazyTable, LazyTexts
from abstain.errors import DataError

SMALL = 10  # bytes: nothing fits


def test_folder_stays_on_disk_and_decodes_the_same(image_folder, cache):
    root = image_folder()
    whole, lazy = load(root, cache_dir=cache / "other"), load(root, memory_budget=SMALL)
    assert isinstance(lazy.inputs, LazyImages)
    assert not list(cache.glob("*.safetensors"))
    assert lazy.ids == whole.ids
    assert torch.equal(lazy.given, whole.given)
    for index in range(len(whole)):
        assert torch.equal(lazy.inputs[index], whole.inputs[index])


def test_lazy_images_are_checked_by_their_headers(image_folder, make_png):
    root = image_folder(mode="RGB")
    (root / "cat" / "grey.png").write_bytes(make_png(7))
    (root / "dog" / "bad.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"1 unreadable: dog/bad\.png"):
        load(root, memory_budget=SMALL)
    data = load(root, memory_budget=SMALL, skip_bad=True)
    assert data.skipped == ("dog/bad.png",)
    assert data.inputs[list(data.ids).index("cat/grey.png")].shape == (3, 4, 5)
    assert len(data.inputs) == len(data.ids) == 7
    (root / "cat" / "big.png").write_bytes(make_png(7, (9, 9)))
    mixed = load(root, memory_budget=SMALL, skip_bad=True)
    assert mixed.scaled
    assert {tuple(mixed.inputs[index].shape) for index in range(8)} == {(3, 4, 5)}
    scaled = load(root, memory_budget=SMALL, skip_bad=True, image_size=6)
    assert scaled.inputs[0].shape == (3, 6, 6)


def test_parquet_images_stream_through_loader_workers(tmp_path, make_png, cache):
    table = pa.table(
        {
            "image": [{"bytes": make_png(i), "path": None} for i in range(40)],
            "label": [i % 2 for i in range(40)],
        }
    )
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=7)
    data = load(tmp_path / "t.parquet", memory_budget=SMALL)
    assert len(list(cache.glob("rows-*.arrow"))) == 1
    encoder = fit_encoder(data)
    encoded = encoder.encode(data)
    assert len(pickle.dumps(encoded)) < 2000  # travels as a path, not as its content
    batches = list(DataLoader(encoded, batch_size=16, num_workers=2))
    assert torch.cat(batches)[:, 0, 0, 0].tolist() == list(range(40))
    assert encoder.to_model(batches[0]).max() == 15 / 255


@pytest.mark.parametrize("end", ["csv", "parquet", "jsonl"])
def test_numbers_above_the_budget(tmp_path, end):
    rows = 50
    path = tmp_path / f"t.{end}"
    if end == "parquet":
        pq.write_table(pa.table({"a": range(rows), "b": [0.5] * rows, "label": [0, 1] * 25}), path)
    elif end == "csv":
        path.write_text("a,b,label\n" + "".join(f"{i},0.5,{i % 2}\n" for i in range(rows)))
    else:
        path.write_text("".join(f'{{"a": {i}, "b": 0.5, "label": {i % 2}}}\n' for i in range(rows)))
    lazy, whole = load(path, memory_budget=SMALL), load(path)
    assert isinstance(lazy.inputs, LazyTable)
    assert torch.equal(lazy.given, whole.given)
    ours, theirs = fit_encoder(lazy), fit_encoder(whole)
    encoded = pickle.loads(pickle.dumps(ours.encode(lazy)))
    expected = theirs.encode(whole)
    assert torch.allclose(encoded[-1], expected[-1])
    with pytest.raises(IndexError):
        encoded[rows]
    batches = list(DataLoader(encoded, batch_size=20))
    assert torch.allclose(torch.cat(batches), expected)


def test_numbers_above_the_budget_are_still_checked(tmp_path):
    (tmp_path / "t.csv").write_text("a,label\n1,x\n2,y\ninf,x\n4,y\n")
    with pytest.raises(DataError, match="column 'a', row 2"):
        load(tmp_path / "t.csv", memory_budget=SMALL)


def test_texts_above_the_budget(tmp_path):
    (tmp_path / "t.csv").write_text("text,label\ngood film,1\nbad film,0\nfine,1\nawful,0\n")
    lazy, whole = load(tmp_path / "t.csv", memory_budget=SMALL), load(tmp_path / "t.csv")
    assert isinstance(lazy.inputs, LazyTexts)
    encoder = fit_encoder(lazy, length=3)
    encoded = pickle.loads(pickle.dumps(encoder.encode(lazy)))
    assert torch.equal(torch.stack([encoded[i] for i in range(4)]), encoder.encode(whole))


def test_mapped_table_that_is_gone_says_so(tmp_path, cache):
    (tmp_path / "t.csv").write_text("text,label\ngood,1\nbad,0\nfine,1\nawful,0\n")
    data = load(tmp_path / "t.csv", memory_budget=SMALL)
    packed = pickle.dumps(data.inputs)
    for path in cache.iterdir():
        path.unlink()
    with pytest.raises(DataError, match="is gone; load the source again"):
        pickle.loads(packed)[0]


def test_photo_on_its_side_is_measured_upright(tmp_path):
    from PIL import Image

    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for i in range(2):
            exif = Image.Exif()
            exif[0x0112] = 6
            Image.new("L", (20, 10)).save(tmp_path / name / f"{i}.jpg", exif=exif)
        Image.new("L", (10, 20)).save(tmp_path / name / "upright.jpg")
    data = load(tmp_path, memory_budget=SMALL)
    assert {tuple(data.inputs[i].shape) for i in range(len(data))} == {(1, 20, 10)}


def test_image_that_breaks_behind_its_header_is_named_or_left_out(image_folder, make_png):
    root = image_folder()
    (root / "cat" / "1.png").write_bytes(make_png(3)[:50])
    data = load(root, memory_budget=SMALL)
    broken = data.ids.index("cat/1.png")
    with pytest.raises(DataError, match=r"image cat/1\.png must be readable, .*; replace it, or"):
        data.inputs[broken]
    with pytest.raises(DataError, match=r"image cat/1\.png must"):
        data.inputs.subset([0, broken])[1]
    for read in ({"memory_budget": SMALL}, {"own_size": True}, {}):
        whole = load(root, skip_bad=True, **read)
        assert whole.skipped == ("cat/1.png",)
        assert len(whole) == len(data) - 1
        assert all(whole.inputs[k].shape == (1, 4, 5) for k in range(len(whole)))
