"""Data sets with planted duplicates, outliers, dark and blurry images, for `bench/datalab.py`.

Faults are appended, so that the first rows of a set are as they were. A near duplicate is a copy
with a small change: of an image shifted by a pixel, compressed, brighter, noisier or cropped; of a
text with other case, a word less, two letters swapped or another ending; of a table's row with 1%
of noise. An outlier comes from elsewhere: an image of other sets, noise, or a mosaic of the set's
own; a text of other sets or of random words; a row whose every value is
from another row, or of which one value is off by ten standard deviations.
"""

import io
from dataclasses import dataclass, replace

import numpy as np
import sklearn.datasets
import torch
from PIL import Image
from scipy.ndimage import gaussian_filter

from abstain.data import LabeledData, load
from abstain.data.encoders.table_encoder import TableEncoder
from abstain.embed.backbones.names import backbone_named
from abstain.embed.embedding import embed

SHARE = {"near_duplicate": 0.02, "outlier": 0.005, "dark": 0.02, "blurry": 0.02}
"""Share of the samples of a set. Outliers are rare: many alike would be a class of their own."""
BACKBONES = {"image": "small:efficientnet-lite2", "text": "small:wordllama"}
STRANGERS = ("product_match", "convabuse", "climate_fever", "weak_trec", "noisyag", "politeness",
             "davidson_hate", "md_offensive")  # fmt: skip
"""Sets of real/ whose texts are outliers among others."""


@dataclass(frozen=True)
class Planted:
    """A data set with faults, and where they are."""

    data: LabeledData
    features: torch.Tensor
    fault: np.ndarray
    """(N,) the fault of each sample that was appended, else an empty string."""
    original: np.ndarray
    """(N,) the row that a sample was made from; its own where it was not."""

    def only(self, fault):
        """The set with faults of one kind only, and which samples have it."""
        rows = np.flatnonzero((self.fault == "") | (self.fault == fault))
        bad = self.fault[rows] == fault
        if fault == "near_duplicate":  # a pair has two members, and the originals are not appended
            bad |= np.isin(rows, self.original[self.fault == fault])
        return taken(self.data, rows), self.features[torch.from_numpy(rows)], bad


def taken(data, rows):
    """Some samples of a set."""
    inputs = data.inputs
    picked = inputs[torch.as_tensor(rows)] if isinstance(inputs, torch.Tensor) else None
    return replace(
        data,
        inputs=[inputs[int(k)] for k in rows] if picked is None else picked,
        given=data.given[torch.as_tensor(rows)],
        true=None,
        ids=[str(data.ids[int(k)]) for k in rows],
    )


def planted(name, samples, seed, data_dir):
    """A set of at most so many samples with every fault that its kind can have."""
    rng = np.random.default_rng(seed)
    data = read(name, data_dir)
    data = taken(data, np.sort(rng.permutation(len(data))[:samples]))
    plant = {"image": plant_images, "text": plant_texts, "table": plant_rows}[data.kind]
    inputs, fault, original = plant(data, rng, data_dir)
    data = replace(
        data,
        inputs=inputs,
        given=data.given[torch.from_numpy(original)],
        ids=[f"{k}" for k in range(len(fault))],
    )
    return Planted(data, features_of(data), fault, original)


def read(name, data_dir):
    """A built-in set, one of scikit-learn's as a table, or one of real/."""
    if name in ("mnist-5k", "fashion-mnist"):
        return load(name)
    if name in ("cifar10", "imdb"):
        return load(name, data_dir=data_dir)
    if name in ("breast_cancer", "digits", "iris", "wine"):
        return load(getattr(sklearn.datasets, f"load_{name}")(return_X_y=True))
    if name == "diabetes":
        rows, progress = sklearn.datasets.load_diabetes(return_X_y=True)
        return load((rows, (progress > np.median(progress)).astype(int)))
    return load(data_dir / "real" / f"{name}.parquet", ignore="true")


def features_of(data):
    """Compute what an audit would get: features of a backbone, or an encoded table."""
    if data.kind == "table":
        return TableEncoder.fit(data).encode(data)
    backbone = backbone_named(BACKBONES[data.kind], data.kind)
    if data.kind == "image":
        backbone = backbone.for_images(*data.inputs.shape[2:])
    return embed(data, backbone).in_memory()


def chosen(data, rng, faults):
    """Different rows for each fault."""
    order = iter(rng.permutation(len(data)))
    return {
        fault: [next(order) for _ in range(max(5, round(SHARE[fault] * len(data))))]
        for fault in faults
    }


def appended(data, made):
    """Faults in a row, and the row that each was made from."""
    fault = [""] * len(data) + [x[0] for x in made]
    original = [*range(len(data)), *(x[1] for x in made)]
    return np.array(fault), np.array(original)


def plant_images(data, rng, data_dir):
    """Images as uint8 (channels, height, width), of one size."""
    images = data.inputs.numpy()
    strangers = other_images(images.shape[1:], data_dir)
    make = {
        "near_duplicate": lambda i, k: changed(images[k], i, rng),
        "outlier": lambda i, k: strange(images, strangers, i, rng),
        "dark": lambda i, k: images[k] * rng.uniform(0.1, 0.25),
        "blurry": lambda i, k: blurred(images[k], rng),
    }
    made = made_by(make, chosen(data, rng, make))
    new = np.stack([np.clip(x[2], 0, 255).astype(np.uint8) for x in made])
    return torch.from_numpy(np.concatenate([images, new])), *appended(data, made)


def made_by(make, rows):
    """Every fault, with the row that it was made from."""
    return [(fault, k, make[fault](i, k)) for fault in make for i, k in enumerate(rows[fault])]


def changed(image, kind, rng):
    """A near duplicate."""
    side = image.shape[1]
    match kind % 5:
        case 0:
            return np.roll(image, rng.choice([-1, 1]), axis=rng.integers(1, 3))
        case 1:
            return compressed(image)
        case 2:
            return image * rng.uniform(1.05, 1.2)
        case 3:
            return image + rng.normal(0, 4, image.shape)
        case _:
            edge = max(1, side // 20)
            return resized(image[:, edge:-edge, edge:-edge], image.shape[1:])


def compressed(image):
    file = io.BytesIO()
    as_pil(image).save(file, "jpeg", quality=80)
    found = np.array(Image.open(file))
    return found[None] if found.ndim == 2 else found.transpose(2, 0, 1)


def as_pil(image):
    return Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0))


def resized(image, size):
    found = np.array(as_pil(np.ascontiguousarray(image)).resize(size[::-1]))
    return found[None] if found.ndim == 2 else found.transpose(2, 0, 1)


def strange(images, strangers, kind, rng):
    """An outlier: of another set, noise, or a mosaic."""
    shape = images.shape[1:]
    match kind % 4:
        case 0 | 1:
            return strangers[rng.integers(len(strangers))]
        case 2:
            grain = int(rng.choice([1, 2, 4]))
            coarse = rng.integers(0, 256, (shape[0], *(-(-x // grain) for x in shape[1:])))
            return coarse.repeat(grain, 1).repeat(grain, 2)[:, : shape[1], : shape[2]]
        case _:
            half = shape[1] // 2
            top, bottom = (255 - images[rng.integers(len(images))] for _ in range(2))
            return np.concatenate([top[:, half:], bottom[:, :half]], axis=1)


def other_images(shape, data_dir):
    """Images of another set, scaled, grey or in colour as these are."""
    other = load("cifar10" if shape[0] == 1 else "mnist", data_dir=data_dir, split="test")
    found = []
    for image in other.inputs.numpy()[:500]:
        grey = image.mean(0, keepdims=True).astype(np.uint8) if shape[0] == 1 else image
        scaled = resized(grey, shape[1:])
        found.append(np.repeat(scaled, shape[0] // len(scaled), axis=0))
    return found


def blurred(image, rng):
    sigma = rng.uniform(0.06, 0.12) * image.shape[1]
    return np.stack([gaussian_filter(channel.astype(float), sigma) for channel in image])


def plant_texts(data, rng, data_dir):
    """Texts."""
    texts = [str(data.inputs[k]) for k in range(len(data))]
    others = [x for x in STRANGERS if x != data.name]
    strangers = [read(x, data_dir).inputs for x in others]
    words = sorted({word for text in texts for word in text.split()})

    def stranger(kind):
        if kind % 4 == 3:
            return " ".join(words[k] for k in rng.integers(len(words), size=12))
        source = strangers[kind % len(strangers)]
        return str(source[int(rng.integers(len(source)))])

    make = {
        "near_duplicate": lambda i, k: reworded(texts[k], i, rng),
        "outlier": lambda i, k: stranger(i),
    }
    made = made_by(make, chosen(data, rng, make))
    return [*texts, *(x[2] for x in made)], *appended(data, made)


def reworded(text, kind, rng):
    """A near duplicate."""
    words = text.split()
    match kind % 4:
        case 0:
            return text.upper()
        case 1 if len(words) > 3:
            del words[rng.integers(len(words))]
            return " ".join(words)
        case 2 if len(text) > 8:
            at = int(rng.integers(1, len(text) - 3))
            return f"{text[:at]}{text[at + 1]}{text[at]}{text[at + 2 :]}"
        case _:
            return f"{text.rstrip('.!? ')} !"


def plant_rows(data, rng, data_dir):
    """Rows of a table."""
    table = data.inputs.numpy()
    columns = range(table.shape[1])
    spread = np.nanstd(table, axis=0)

    def mixed(k):
        return table[rng.integers(len(table), size=len(columns)), columns]

    def slipped(k):
        row, at = table[k].copy(), rng.integers(len(columns))
        row[at] += rng.choice([-1, 1]) * 10 * spread[at]
        return row

    make = {
        "near_duplicate": lambda i, k: table[k] * rng.normal(1, 0.01, len(columns)),
        "outlier": lambda i, k: (slipped if i % 2 else mixed)(k),
    }
    made = made_by(make, chosen(data, rng, make))
    new = np.stack([x[2] for x in made]).astype(np.float32)
    return torch.from_numpy(np.concatenate([table, new])), *appended(data, made)
