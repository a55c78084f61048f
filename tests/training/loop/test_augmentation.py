"""Augmentation: compared with loops over single pixels, and held back where it would do harm."""

import signal

import numpy as np
import pytest
import small_runs as small
import torch
from sklearn.datasets import load_sample_images

from abstain.data import load
from abstain.training.loop.augmentation import (
    AUGMENTATIONS,
    _thumbnails,
    augmented,
    cropped,
    erased,
    mirrored,
    safe_of,
)
from abstain.training.loop.loop import Loop
from abstain.training.processes import Interrupted
from abstain.training.recipe import plan_of
from abstain.training.train import train


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def pictures(count, height=16, width=24, dtype=torch.uint8):
    images = torch.randint(0, 256, (count, 3, height, width), generator=seeded(9))
    return images.to(dtype)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_a_crop_is_one_of_the_padded_image(dtype):
    images = pictures(40, dtype=dtype)
    changed = cropped(images, seeded())
    assert changed.dtype == dtype
    found = set()
    for image, crop in zip(images.numpy(), changed.numpy(), strict=True):
        padded = np.pad(image, ((0, 0), (2, 2), (3, 3)), mode="reflect")
        places = [
            (y, x)
            for y in range(5)
            for x in range(7)
            if np.array_equal(padded[:, y : y + 16, x : x + 24], crop)
        ]
        assert len(places) == 1
        found.update(places)
    assert len(found) > 15
    assert {y for y, _ in found} == set(range(5))
    assert {x for _, x in found} == set(range(7))


def test_half_of_the_images_are_mirrored():
    images = pictures(200)
    changed = mirrored(images, seeded())
    same = [np.array_equal(a, b) for a, b in zip(images, changed, strict=True)]
    turned = [
        np.array_equal(a.numpy()[:, :, ::-1], b.numpy())
        for a, b in zip(images, changed, strict=True)
    ]
    assert all(a != b for a, b in zip(same, turned, strict=True))
    assert 70 < sum(turned) < 130


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_a_square_of_half_of_the_images_is_erased(dtype):
    images = pictures(200, 16, 16, dtype=dtype)
    changed = erased(images, seeded())
    touched, corners = 0, set()
    for image, result in zip(images.numpy(), changed.numpy(), strict=True):
        mean = image.mean((1, 2), dtype=np.float64).astype(np.float32).astype(image.dtype)
        rows, columns = np.nonzero((image != result).any(0))
        if not len(rows):
            continue
        touched += 1
        top, left = rows.min(), columns.min()
        assert rows.max() - top < 4
        assert columns.max() - left < 4
        corners.add((top, left))
        expected = image.copy()
        expected[:, top : rows.max() + 1, left : columns.max() + 1] = mean[:, None, None]
        np.testing.assert_allclose(result, expected, rtol=1e-5)
    assert 70 < touched < 130
    assert {0, 12} <= {top for top, _ in corners} <= set(range(13))


def test_the_same_draws_give_the_same_images():
    images = pictures(8)
    names = tuple(AUGMENTATIONS)
    one, two = (augmented(images, names, seeded(3)) for _ in range(2))
    assert torch.equal(one, two)
    assert not torch.equal(one, augmented(images, names, seeded(4)))
    torch.manual_seed(3)
    one = augmented(images, names)
    torch.manual_seed(3)
    assert torch.equal(one, augmented(images, names))
    assert torch.equal(augmented(images, ()), images)


def test_images_of_few_pixels_stay_whole():
    images = pictures(4, 3, 3)
    assert torch.equal(cropped(images, seeded()), images)
    assert torch.equal(erased(images, seeded()), images)


def test_digits_are_not_mirrored():
    data = load("digits")
    order = torch.randperm(len(data), generator=seeded())
    safe = safe_of(data.inputs[order], data.given[order], _thumbnails)
    assert "mirror" not in safe


def patches(count):
    """Parts of two photos: of a temple, and of a flower."""
    generator = seeded()
    found, given = [], []
    for label, photo in enumerate(load_sample_images().images):
        pixels = torch.from_numpy(photo.copy()).permute(2, 0, 1)
        for _ in range(count // 2):
            y = int(torch.randint(0, pixels.shape[1] - 64, (1,), generator=generator))
            x = int(torch.randint(0, pixels.shape[2] - 64, (1,), generator=generator))
            found.append(pixels[:, y : y + 64, x : x + 64])
            given.append(label)
    order = torch.randperm(len(found), generator=generator)
    return torch.stack(found)[order], torch.tensor(given)[order]


def test_photos_may_be_changed():
    assert safe_of(*patches(300), _thumbnails) == tuple(AUGMENTATIONS)


def test_photos_may_be_mirrored_also_where_labels_are_wrong():
    images, given = patches(600)
    wrong = torch.rand(600, generator=seeded()) < 0.15
    assert "mirror" in safe_of(images, torch.where(wrong, 1 - given, given), _thumbnails)


def test_arrows_to_the_left_and_to_the_right_are_not_mirrored():
    generator = seeded()
    given = torch.arange(400) % 2
    images = torch.randint(0, 100, (400, 1, 16, 16), generator=generator, dtype=torch.uint8)
    images[given == 0, :, 6:10, :8] += 120
    images[given == 1, :, 6:10, 8:] += 120
    assert "mirror" not in safe_of(images, given, _thumbnails)


@pytest.mark.parametrize("count", [1, 3, 40])
def test_nothing_is_safe_where_labels_say_nothing(count):
    images = torch.zeros(count, 3, 8, 8)
    assert safe_of(images, torch.arange(count) % 2, _thumbnails) == ()


def test_a_training_from_scratch_is_resumed_within_an_epoch(tmp_path, monkeypatch):
    # Draws of augmentation come from the random state that a checkpoint holds.
    np.savez(tmp_path / "pictures.npz", **dict(zip(("x", "label"), small_pictures(), strict=True)))
    source, names = tmp_path / "pictures.npz", ("crop", "erase")
    recipe = plan_of("nll", augment=names, epochs=2, batch=8, model="mlp", precision="fp32")
    whole = train(source, recipe)
    original = Loop._step

    def interrupt(loop, batch):
        original(loop, batch)
        if loop.position.step == 3:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "_step", interrupt)
        with pytest.raises(Interrupted):
            train(source, recipe, folder=tmp_path / "run")
    resumed = train(folder=tmp_path / "run", resume=True)
    assert resumed.plan.augment == names
    small.assert_same_weights(whole.model.state_dict(), resumed.model.state_dict())


def small_pictures():
    images, given = patches(66)
    return images[:, :, ::4, ::4].numpy(), np.array(["temple", "flower"])[given.numpy()]


def test_augmentation_is_off_by_default_and_found_where_asked_for(tmp_path):
    data = small_pictures()
    settings = {"epochs": 1, "batch": 16, "model": "mlp", "precision": "fp32"}
    plain = train(data, plan_of("nll", **settings))
    assert plain.plan.augment == ()
    found = train(data, plan_of("nll", augment=True, **settings))
    assert set(found.plan.augment) <= set(AUGMENTATIONS)
    assert found.plan.augment
