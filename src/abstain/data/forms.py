"""Options that apply to each form of source; the others are refused rather than ignored."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abstain.data.contract import LabeledData
from abstain.data.features import are_numbers, is_feature_file
from abstain.data.readers.builtin import BUILTIN
from abstain.data.readers.splits import split_folders, table_files
from abstain.data.weights import is_weight_file
from abstain.errors import DataError

_IMAGE_OPTIONS = ("image_size", "skip_bad")
_OPTIONS = ("label", "features", "ignore", "data_dir", *_IMAGE_OPTIONS)
"""Options of `load` that apply only to some sources."""


@dataclass(frozen=True)
class _Form:
    """A form that sources have."""

    description: str
    takes: tuple[str, ...]


_BUILT_IN = _Form("a built-in set, which has no such options", ("data_dir",))
_FOLDER = _Form("a folder of images, whose classes are its sub-folders", _IMAGE_OPTIONS)
_TABLE = _Form("a table", ("label", "features", "ignore", *_IMAGE_OPTIONS))
_NPZ = _Form("arrays under their keys", ("label", "features"))
_LABELLED_FRAME = _Form(
    "a DataFrame with labels beside it", ("features", "ignore", *_IMAGE_OPTIONS)
)
_IN_MEMORY = _Form("data in memory without columns", ())
_LOADED = _Form("which are read already", ())
_INPUTS = {"text": "texts", "table": "numbers", "image": "images"}


def check_fitting(source: object, options: Mapping[str, Any]) -> None:
    """Raise for an option that does not apply to a source of this form.

    >>> check_fitting("digits", {"label": "stars"})
    Traceback (most recent call last):
    abstain.errors.DataError: label must be left out for digits, a built-in set, which has no \
such options, got 'stars'
    """
    form = _form(source)
    for name in _given(options):
        if name not in form.takes:
            raise DataError(
                f"must be left out for {_name(source)}, {form.description}, "
                f"got {_shown(options[name])}",
                argument=name,
            )


def check_images(data: LabeledData, options: Mapping[str, Any]) -> None:
    """Raise for an option of images where there are none."""
    for name in _given(options):
        if name in _IMAGE_OPTIONS and data.kind != "image":
            raise DataError(
                f"must be left out for {data.name}, which holds {_INPUTS[data.kind]} and no "
                f"images, got {_shown(options[name])}",
                argument=name,
            )


def fitting(source: object, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options without those that do not apply to a source of this form.

    >>> fitting("digits", {"label": "stars", "split": "test"})
    {'split': 'test'}
    """
    takes = _form(source).takes
    return {
        name: x
        for name, x in options.items()
        if name in takes
        or name not in _OPTIONS
        or (name == "features" and are_numbers(x))  # which any source may have
    }


def divided(
    options: Mapping[str, Any], first: object, second: object
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options that were given for two sources at once: for each those that apply to it.

    What applies to neither stays with the first, to be refused there.

    >>> divided({"label": "stars", "split": "test"}, "digits", "reviews.csv")
    ({'split': 'test'}, {'label': 'stars', 'split': 'test'})
    """
    of_first, of_second = fitting(first, options), fitting(second, options)
    refused = {name: x for name, x in options.items() if name not in of_second}
    return {**refused, **of_first}, of_second


def with_absolute_paths(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options whose files and folders are found from any folder.

    >>> found = with_absolute_paths({"label": "stars", "features": "clip.npy", "data_dir": "sets"})
    >>> found["label"], [os.path.isabs(found[name]) for name in ("features", "data_dir")]
    ('stars', [True, True])
    """
    is_path: dict[str, Callable[[Any], bool]] = {
        "data_dir": bool,
        "cache_dir": bool,
        "features": is_feature_file,
        "weights": is_weight_file,
    }
    return {
        name: os.path.abspath(x) if name in is_path and is_path[name](x) else x  # noqa: PTH100
        for name, x in options.items()
    }


def _given(options: Mapping[str, Any]) -> list[str]:
    return [name for name in _OPTIONS if options.get(name) not in (None, False, ())]


def _shown(value: object) -> str:
    return str(value) if isinstance(value, Path) else repr(value)


def _name(source: object) -> str:
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    return "LabeledData" if isinstance(source, LabeledData) else "the source"


def _form(source: object) -> _Form:
    if not isinstance(source, str | os.PathLike):
        return _form_in_memory(source)
    name = os.fspath(source)
    if name in BUILTIN and isinstance(source, str):
        return _BUILT_IN
    path = Path(name).expanduser()
    if not name.startswith("hf:") and path.is_dir():
        return _TABLE if table_files(path) and not split_folders(path) else _FOLDER
    return _NPZ if path.suffix.lower() == ".npz" else _TABLE


def _form_in_memory(source: object) -> _Form:
    if isinstance(source, LabeledData):
        return _LOADED
    has_labels = isinstance(source, tuple) and len(source) == 2
    inputs = source[0] if isinstance(source, tuple) and has_labels else source
    family = type(inputs).__module__.partition(".")[0]
    if hasattr(source, "__arrow_c_stream__") or isinstance(source, dict):
        return _TABLE  # of polars, of Arrow: where no reader takes it, that is what is wrong
    if family not in ("pandas", "datasets"):
        return _IN_MEMORY
    return _LABELLED_FRAME if has_labels else _TABLE
