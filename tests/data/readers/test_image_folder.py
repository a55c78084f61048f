"""Image folders, and decoding images (`images.py`)."""

import os

import numpy as np
import pytest
import torch
from PIL import Image

from abstain.data import load, splits
from abstain.errors import DataError


def test_one_subfolder_per_class(image_folder):
    data = load(image_folder())
    assert data.inputs.shape == (6, 1, 4, 5)
    assert data.inputs[:, 0, 0, 0].tolist() == [0, 1, 2, 10, 11, 12]
    assert data.given.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.classes == ("cat", "dog")
    assert data.ids[3] == "dog/0.png"


def test_train_and_test_folders_above_the_classes(image_folder, tmp_path):
    root = tmp_path / "set"
    image_folder(root / "train", classes=("cat", "dog"))
    image_folder(root / "val", classes=("dog",))
    train = load(str(root))
    other = load(root, split="validation", classes=train.classes)
    assert splits(root) == ("train", "validation")
    assert train.ids[0] == "train/cat/0.png"
    assert other.given.tolist() == [1, 1, 1]
    with pytest.raises(DataError, match=r"split must be one of.*train, validation; got 'test'"):
        load(root, split="test")


def test_folder_is_decoded_once_and_again_after_a_change(image_folder, cache, make_png):
    root = image_folder()
    first = load(root)
    assert len(list(cache.iterdir())) == 1
    (root / "cat" / "0.png").write_bytes(make_png(99))
    second = load(root)
    assert second.inputs[0].max() == 99
    assert torch.equal(first.inputs[1:], second.inputs[1:])


def test_grey_among_colour_becomes_colour(image_folder, make_png):
    root = image_folder(mode="RGB")
    (root / "cat" / "grey.png").write_bytes(make_png(77))
    data = load(root)
    assert data.inputs.shape[1] == 3
    assert data.inputs[list(data.ids).index("cat/grey.png")].unique().tolist() == [77]


def test_images_are_scaled_on_request(image_folder, make_png):
    root = image_folder()
    (root / "dog" / "large.png").write_bytes(make_png(5, (40, 50)))
    assert load(root, image_size=8).inputs.shape == (7, 1, 8, 8)
    assert load(root, image_size=(6, 7)).inputs.shape == (7, 1, 6, 7)


def test_flat_folder_for_prediction(tmp_path, make_png):
    for i in range(3):
        (tmp_path / f"{i}.png").write_bytes(make_png(i))
    data = load(tmp_path, labelled=False, classes=("cat", "dog"))
    assert data.given.tolist() == [-1, -1, -1]
    assert data.ids == ["0.png", "1.png", "2.png"]
    assert data.classes == ("cat", "dog")


def test_unreadable_images_are_named_or_left_out(image_folder):
    root = image_folder(per_class=8)
    for i in range(7):
        (root / "cat" / f"{i}.png").write_bytes(b"not an image")
    (root / "cat" / "extra.png").write_bytes((root / "cat" / "7.png").read_bytes())
    with pytest.raises(
        DataError,
        match=r"7 unreadable: cat/0.png, .* and 2 more \(the first: no image\); .*skip_bad=True",
    ):
        load(root)
    data = load(root, skip_bad=True)
    assert len(data) == 10
    assert data.skipped == tuple(f"cat/{i}.png" for i in range(7))
    assert data.given.tolist() == [0, 0] + [1] * 8
    assert load(root, skip_bad=True).skipped == data.skipped  # from the cache too


@pytest.mark.parametrize("per_class", [3, 20])  # by their bytes, and by their names and sizes
def test_links_that_lead_nowhere_are_unreadable(image_folder, per_class):
    """As a data set has them whose large files are still to be fetched."""
    root = image_folder(per_class=per_class)
    (root / "cat" / "later.png").symlink_to(root / "nowhere.png")
    with pytest.raises(DataError, match=r"1 unreadable: cat/later.png"):
        load(root)
    assert load(root, skip_bad=True).skipped == ("cat/later.png",)
    (root / "nowhere.png").write_bytes((root / "cat" / "1.png").read_bytes())
    assert load(root, skip_bad=True, labelled=False).skipped == ()


def test_cut_image_is_unreadable(image_folder, make_png):
    root = image_folder()
    (root / "cat" / "0.png").write_bytes(make_png(3, (30, 30))[:60])
    with pytest.raises(DataError, match=r"1 unreadable: cat/0\.png \(the first: .*truncated"):
        load(root)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([(4, 5)] * 6 + [(40, 50)], (4, 5)),  # one that is larger changes nothing for the others
        ([(480, 640), (640, 480), (300, 200)], (64, 64)),
        ([(100, 20), (90, 30), (80, 40)], (64, 30)),
    ],
)
def test_images_of_several_sizes_are_scaled_to_their_median(
    image_folder, make_png, cache, sizes, expected
):
    root = image_folder(per_class=0)
    for number, size in enumerate(sizes):
        for name in ("cat", "dog"):
            (root / name / f"{number}.png").write_bytes(make_png(9, size))
    (root / "dog" / "bad.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"1 unreadable: dog/bad\.png"):
        load(root)
    for data in (load(root, skip_bad=True), load(root, skip_bad=True)):  # decoded, and kept
        assert data.inputs.shape == (2 * len(sizes), 1, *expected)
        assert (data.inputs == 9).all()
        assert data.scaled
    assert any(cache.iterdir())


def test_images_of_one_size_or_of_a_given_size_do_not_count_as_scaled(image_folder):
    root = image_folder()
    assert not load(root).scaled
    assert not load(root, image_size=3).scaled


def test_folder_without_subfolders(tmp_path, make_png):
    (tmp_path / "a.png").write_bytes(make_png())
    with pytest.raises(DataError, match=r"one sub-folder per class .*got no sub-folders"):
        load(tmp_path)


def test_class_folder_without_images(image_folder):
    root = image_folder()
    (root / "bird").mkdir()
    with pytest.raises(DataError, match="got none in bird"):
        load(root)


def test_image_outside_the_classes(image_folder, make_png):
    root = image_folder()
    (root / "stray.png").write_bytes(make_png())
    with pytest.raises(DataError, match=r"got stray\.png outside"):
        load(root)


def test_split_named_twice(image_folder, tmp_path):
    root = tmp_path / "set"
    for name in ("train", "val", "validation"):
        image_folder(root / name)
    with pytest.raises(
        DataError, match="name each split once, got 'validation' as val, validation"
    ):
        load(root)


def test_one_class_and_a_class_of_one(image_folder, tmp_path, make_png):
    with pytest.raises(DataError, match="two classes or more, got only 'cat'"):
        load(image_folder(classes=("cat",)))
    root = image_folder(tmp_path / "other")
    (root / "emu").mkdir()
    (root / "emu" / "0.png").write_bytes(make_png())
    with pytest.raises(DataError, match="two samples or more of a class, got one of emu"):
        load(root)
    assert len(load(root, classes=("cat", "dog", "emu"))) == 7  # a test split may hold one


def test_photo_on_its_side_is_set_upright(tmp_path):

    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for i in range(2):
            exif = Image.Exif()
            exif[0x0112] = 6  # turned by a quarter
            Image.new("RGB", (20, 10)).save(tmp_path / name / f"{i}.jpg", exif=exif)
    assert load(tmp_path).inputs.shape == (4, 3, 20, 10)


def test_link_that_leads_back_up_is_walked_once(image_folder):
    root = image_folder()
    (root / "cat" / "loop").symlink_to(root / "cat")
    (root / "dog" / "more").symlink_to(root / "cat", target_is_directory=True)
    assert len(load(root)) == 6


def test_folder_with_a_lone_table_points_to_it(tmp_path):
    (tmp_path / "labels.csv").write_text("x,label\n1,a\n")
    with pytest.raises(DataError, match=r"give one of its files: .*labels\.csv"):
        load(tmp_path)


@pytest.mark.parametrize("per_class", [3, 20])
def test_file_names_that_cannot_be_written_down_are_named(image_folder, per_class):
    root = image_folder(per_class=per_class)
    (root / "cat" / "0.png").rename(os.fsdecode(os.fsencode(root / "cat") + b"/\xff.png"))
    with pytest.raises(DataError, match=r"must be UTF-8, got cat/\\udcff.png; rename"):
        load(root)


@pytest.mark.parametrize("turned", [1, 6])
def test_photos_that_are_read_at_a_fraction_of_their_size_are_the_same(image_folder, turned):
    rng = np.random.default_rng(0)
    photo = Image.fromarray(rng.integers(0, 255, (6, 8, 3), dtype=np.uint8)).resize((800, 600))
    exif = Image.Exif()
    exif[0x0112] = turned
    root = image_folder()
    photo.save(root / "cat" / "0.jpg", exif=exif, quality=95)
    data = load(root, image_size=(30, 40))
    found = data.inputs[list(data.ids).index("cat/0.jpg")].numpy().astype(int)
    upright = photo if turned == 1 else photo.rotate(-90, expand=True)
    expected = np.asarray(upright.resize((40, 30))).transpose(2, 0, 1).astype(int)
    assert np.abs(found - expected).mean() < 3
