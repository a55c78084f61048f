"""`load`: which source is which, and one contract for all of them."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from abstain.arguments import typed
from abstain.data.cache import cache_folder
from abstain.data.class_labels import settle
from abstain.data.contract import LabeledData
from abstain.data.features import are_numbers, with_features
from abstain.data.forms import check_fitting, check_images
from abstain.data.readers.builtin import BUILTIN, read_builtin
from abstain.data.readers.image_folder import read_folder
from abstain.data.readers.images import SUFFIXES as IMAGE_SUFFIXES
from abstain.data.readers.splits import TABLE_SUFFIXES, canonical, pick, split_folders, table_files
from abstain.data.readers.tabular import read_files, source_name
from abstain.data.reading import MEMORY_BUDGET, ReadOptions
from abstain.data.weights import is_weight_file, read_weights
from abstain.errors import DataError
from abstain.support.wording import did_you_mean, some


@typed("label", "features", "ignore", "image_size")
def load(
    source: object,
    *,
    split: str = "train",
    label: str | None = None,
    features: npt.ArrayLike | os.PathLike[str] | None = None,
    ignore: str | Sequence[str] | None = None,
    weights: str | os.PathLike[str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    skip_bad: bool = False,
    classes: Sequence[str] | None = None,
    categories: Mapping[str, Sequence[str]] | None = None,
    texts: Sequence[str] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    labelled: bool = True,
    image_size: int | tuple[int, int] | None = None,
    own_size: bool = False,
    memory_budget: int = MEMORY_BUDGET,
    shown_only: bool = False,
) -> LabeledData:
    """Load one split of a labelled data set.

    Args:
        source: a built-in name (see `BUILTIN`; it wins over a file of that name, which ./NAME
            means), an image folder with one sub-folder per class, a CSV, TSV, Parquet, JSONL or
            `.npz` file, a folder with train.csv, test.parquet, …, `hf:OWNER/NAME` or
            `hf:OWNER/NAME:CONFIG` for the Hugging Face hub; or data: `(X, y)`, a pandas
            DataFrame, a torch or Hugging Face dataset, or `LabeledData`, taken as they are.
        split: `train`, `validation` (or val, valid, dev) or `test`. A source of one part, such as
            a single file, is its own `train`.
        label: the label column, or the key of an `.npz`; "label" by default.
        features: the feature columns; found by looking by default. In a table, text that repeats
            counts as categories, other text is for a backbone (`LabeledData.texts`), a date is a
            number, and values may be missing. Or numbers to train on instead of the source's own
            inputs, such as embeddings: an array (samples, columns) or the name of an `.npy`, in the
            order of the source. The source's own inputs are then only shown (`LabeledData.shown`):
            images may differ in size or be missing, and a table needs no columns but its labels.
        ignore: columns that are no features, such as a number for each customer.
        weights: how much each sample is to count in training: a column (or the key of an `.npz`),
            or a file: a table with the columns id and weight, or an `.npy` in order.
        data_dir: a folder of downloaded sets (mnist/train.parquet, …); else `ABSTAIN_DATA`.
        skip_bad: leave unreadable images out and record them in `skipped`.
        classes: the training classes, to number those of another split in the same way.
        categories: the training categories, by column, to number those of another table likewise.
        texts: the training's columns of free text, to read those of another table likewise.
        cache_dir: where decoded data are kept; else `ABSTAIN_CACHE`, else the user's cache folder.
        labelled: False reads data without labels; `given` is then all −1.
        image_size: scale images to this height and width; those of several sizes are scaled to
            their median ones, at most 64 by default.
        own_size: leave images as they are, of any size, to be decoded when asked for; a backbone
            scales them itself.
        memory_budget: bytes of decoded inputs to keep in memory; larger inputs are decoded lazily.
            With own_size, a quarter of it may hold the files, so that each is opened once.
        shown_only: True reads only what a person is shown; an `.npy` of features is left unread.

    Raises:
        DataError: the source cannot be used as it is; the message says what to do.

    >>> data = load(([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]], ["a", "b", "a", "b"]))
    >>> len(data), data.classes, data.given.tolist()
    (4, ('a', 'b'), [0, 1, 0, 1])
    """
    has_numbers = are_numbers(features)
    options = ReadOptions(
        split=canonical(split),
        label=None if label is None else _column("label", label),
        features=None if has_numbers else _columns("features", features),
        ignore=_columns("ignore", ignore) or (),
        categories=categories,
        texts=None if texts is None else tuple(texts),
        weights=None if weights is None or is_weight_file(weights) else os.fspath(weights),
        data_dir=None if data_dir is None else Path(data_dir).expanduser(),
        cache=cache_folder(cache_dir),
        skip_bad=skip_bad,
        labelled=labelled,
        image_size=image_size,
        to_show=has_numbers,
        own_size=own_size and image_size is None,
        memory_budget=memory_budget,
    )
    _check_no_files(options.features or ())
    check_fitting(source, vars(options))
    data = _read_named(source, options) if _is_name(source) else _read_object(source, options)
    if weights is not None and is_weight_file(weights):
        data = read_weights(data, Path(weights))
    elif weights is not None and data.weights is None:
        raise DataError(
            f"must be a file for {data.name}, which has no columns, got {weights!r}",
            argument="weights",
        )
    if classes is None:  # else read as the training data were, and whether they fit is found there
        check_images(data, vars(options))
    if data is not source or classes is not None or not labelled:
        data = settle(data, classes=classes, labelled=labelled)
    if shown_only:
        return data.as_shown
    return with_features(data, features) if has_numbers else data


def splits(source: object) -> tuple[str, ...]:
    """The splits that a source is known to have, without reading it.

    What lies on the hub is fetched for that; only splits with labels count.

    >>> splits("digits")
    ('train', 'test')
    """
    from abstain.data.readers.arrays import npz_splits
    from abstain.data.readers.hub import hub_splits, object_splits

    if not _is_name(source):
        return object_splits(source)
    if isinstance(source, str) and source.startswith("hf:"):
        return hub_splits(source.removeprefix("hf:"))
    if isinstance(source, str) and source in BUILTIN:
        return ("train", "test")
    path = Path(os.fspath(source)).expanduser()  # type: ignore[call-overload]
    if path.is_dir():
        return _ordered(table_files(path)) or _ordered(split_folders(path)) or ("train",)
    return npz_splits(path) if path.suffix == ".npz" and path.exists() else ("train",)


def _ordered(names: Iterable[str]) -> tuple[str, ...]:
    order = ("train", "validation", "test")
    return tuple(sorted(names, key=lambda name: order.index(name) if name in order else 9))


def _is_name(source: object) -> bool:
    return isinstance(source, str | os.PathLike)


def _columns(argument: str, names: object) -> tuple[str, ...] | None:
    if names is None:
        return None
    several = names if isinstance(names, Iterable) and not isinstance(names, str) else [names]
    return tuple(_column(argument, name) for name in several)


def _check_no_files(features: Sequence[str]) -> None:
    """Raise for a file that is no `.npy`: it would pass for the name of a column."""
    if files := [name for name in features if Path(name).suffix and Path(name).is_file()]:
        raise DataError(
            f"must be columns or one .npy with a row of numbers per sample, got {files[0]}"
            "; save the numbers with numpy.save",
            argument="features",
        )


def _column(argument: str, name: object) -> str:
    """The name of a column; those of a DataFrame may be numbers."""
    if isinstance(name, str | int | np.integer):
        return str(name)
    raise DataError(
        f"must name a column, got a {type(name).__name__}; labels in memory are given "
        "with their inputs, as (X, y)",
        argument=argument,
    )


def _read_named(source: object, options: ReadOptions) -> LabeledData:
    if isinstance(source, str):
        if source.startswith("hf:"):
            from abstain.data.readers.hub import read_hub

            return read_hub(source.removeprefix("hf:"), options)
        if source in BUILTIN:
            return read_builtin(BUILTIN[source], options)
    path = Path(os.fspath(source)).expanduser()  # type: ignore[call-overload]
    if not os.fspath(source) or not path.exists():  # type: ignore[call-overload]
        raise _not_found(os.fspath(source))  # type: ignore[call-overload]
    if path.is_dir():
        return _read_directory(path, options)
    return _read_file(path, options)


def _read_directory(path: Path, options: ReadOptions) -> LabeledData:
    tables = table_files(path)
    if tables and not split_folders(path):
        files = tables[pick(options.split, tables, path)]
        return read_files(files, options, name=path.resolve().name)
    return read_folder(path, options)


def _read_file(path: Path, options: ReadOptions) -> LabeledData:
    suffix = path.suffix.lower()
    if suffix == ".npz":
        from abstain.data.readers.arrays import read_npz

        return read_npz(path, options)
    if suffix not in TABLE_SUFFIXES:
        is_image = suffix in IMAGE_SUFFIXES
        then = "give the folder that it lies in" if is_image else "convert it to one of these"
        raise DataError(
            f"must be a folder or a file of type {', '.join(TABLE_SUFFIXES)} or .npz, "
            f"got {path}; {then}",
            argument="source",
        )
    pick(options.split, ["train"], path)
    return read_files([path], options, name=source_name(path))


def _read_object(source: object, options: ReadOptions) -> LabeledData:
    """Data that are already in memory, by their type."""
    from abstain.data.readers.arrays import read_arrays, read_frame, read_pair

    family = type(source).__module__.partition(".")[0]
    if family == "datasets":
        from abstain.data.readers.hub import read_dataset

        return read_dataset(source, options)
    pick(options.split, ["train"], "data in memory")
    if isinstance(source, LabeledData):
        return source
    if isinstance(source, tuple) and len(source) == 2:
        return read_pair(*source, options)
    is_series = family == "pandas" and not hasattr(source, "columns")
    if family == "pandas" and not is_series:
        return read_frame(source, options)
    if isinstance(source, torch.utils.data.Dataset):
        from abstain.data.readers.torch_datasets import read_torch

        return read_torch(source, options)
    is_inputs = is_series or isinstance(source, torch.Tensor | np.ndarray | list)
    if is_inputs and not options.labelled:
        return read_arrays(source, None)
    raise DataError(
        "must be a name, a path, (X, y), a DataFrame, a torch or a Hugging Face dataset, "
        f"got {type(source).__name__}",
        argument="source",
        remedy="give what its to_pandas() makes of it"
        if hasattr(source, "to_pandas")
        else "X alone needs {labelled}",
        labelled=False,
    )


def _not_found(source: str) -> DataError:
    if os.sep in source or Path(source).suffix:
        parent = Path(source).expanduser().parent
        near = [str(p) for p in parent.iterdir()] if parent.is_dir() else []
        return DataError(
            f"must be a file or folder that exists, got {source}{did_you_mean(source, near)}",
            argument="source",
        )
    near = [*BUILTIN, *(path.name for path in Path().iterdir())]
    return DataError(
        f"must be a built-in set ({some(list(BUILTIN), 10)}), a file, a folder or "
        f"hf:OWNER/NAME, got {source!r}{did_you_mean(source, near)}",
        argument="source",
    )
