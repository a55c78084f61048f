"""Arrays in memory, `.npz` files and DataFrames."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from abstain.data.class_labels import no_labels, with_labels
from abstain.data.contract import Inputs, Kind, LabeledData, NumberedIds
from abstain.data.inputs import check_finite
from abstain.data.readers.images import SUFFIXES
from abstain.data.readers.rows import ArrowRows
from abstain.data.readers.splits import canonical, pick
from abstain.data.readers.tabular import read_arrow
from abstain.data.reading import ReadOptions
from abstain.data.weights import with_weights
from abstain.errors import DataError
from abstain.support.optional import require
from abstain.support.wording import some

_INPUT_KEYS = ("x", "inputs", "features", "images", "data")
_LABEL_KEYS = ("y", "label", "labels", "target", "targets")


def read_arrays(
    inputs: object,
    labels: object,
    *,
    names: Sequence[str] = (),
    ids: Sequence[str] | None = None,
    name: str = "arrays",
) -> LabeledData:
    """Inputs and labels: two axes are a table, three or four images, text is text."""
    kind, decoded = as_inputs(inputs)
    values = None if labels is None else _as_labels(labels)
    if values is not None and len(values) != len(decoded):
        raise DataError(f"X and y must have one length, got {len(decoded)} and {len(values)}")
    if len(decoded) == 0:
        raise DataError("X must hold samples, got none")
    unlabelled = LabeledData(
        inputs=decoded,
        given=no_labels(len(decoded)),
        classes=tuple(names),
        ids=ids if ids is not None else NumberedIds(len(decoded)),
        kind=kind,
        name=name,
    )
    return with_labels(unlabelled, values, where=f"labels of {name}")


def as_inputs(inputs: object) -> tuple[Kind, Inputs]:
    """Texts to a list; numbers to a tensor: float32 tables, uint8 (or float32) images N, C, H, W.

    >>> as_inputs(np.zeros((2, 8, 8, 3), dtype=np.uint8))[1].shape
    torch.Size([2, 3, 8, 8])
    """
    if not isinstance(inputs, Tensor):
        array = _as_array(inputs)
        if array.dtype.kind in "UO":
            return "text", _as_texts(array)
        if array.dtype.kind not in "biuf":
            raise DataError(f"X must hold numbers or text, got {array.dtype}")
        inputs = torch.from_numpy(np.ascontiguousarray(array))
    tensor = inputs.detach().cpu()
    if len(tensor) and not tensor.numel():
        raise DataError(f"X must hold numbers for every sample, got shape {tuple(tensor.shape)}")
    if tensor.ndim == 2:
        features = tensor.float()
        check_finite(features, where="X")
        return "table", features
    if tensor.ndim not in (3, 4):
        raise DataError(
            "X must have two axes (samples, columns), or three or four for images "
            f"(samples[, channels], height, width), got shape {tuple(tensor.shape)}"
        )
    images = tensor[:, None] if tensor.ndim == 3 else tensor
    first, last = images.shape[1], images.shape[-1]
    if first not in (1, 3) and (last in (1, 3) or (last in (2, 4) and first not in (2, 4))):
        images = images.permute(0, 3, 1, 2)  # channels were last
    if images.dtype != torch.uint8:
        images = images.float()
        check_finite(images, where="X")
    return "image", images.contiguous()


def read_npz(path: Path, options: ReadOptions) -> LabeledData:
    """Arrays of an `.npz`: x and y, or x_train, y_train, x_test, …; optionally ids and classes."""
    arrays = _open_npz(path)
    split = pick(options.split, npz_splits(path), path)
    chosen = options.features[0] if options.features else None
    inputs = _key(arrays, chosen, _INPUT_KEYS, split, path, "features")
    labels = (
        _key(arrays, options.label, _LABEL_KEYS, split, path, "label") if options.labelled else None
    )
    ids = arrays.get(f"ids_{split}", arrays.get("ids"))
    data = read_arrays(
        arrays[inputs],
        None if labels is None else arrays[labels],
        names=[str(name) for name in arrays.get("classes", ())],
        ids=None if ids is None else [str(id_) for id_ in ids],
        name=path.stem,
    )
    if options.weights is None:
        return data
    key = _key(arrays, options.weights, (), split, path, "weights")
    return with_weights(data, arrays[key], path)


def npz_splits(path: Path) -> tuple[str, ...]:
    """The splits that the keys of an `.npz` name; train alone when they name none."""
    ends = [key.rpartition("_") for key in _open_npz(path)]
    named = dict.fromkeys(canonical(end) for key, _, end in ends if key.lower() in _INPUT_KEYS)
    return tuple(named) or ("train",)


def _open_npz(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    if path.stat().st_size == 0:
        raise DataError(f"{path} must hold arrays, got an empty file; write it again")
    try:
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except Exception as error:  # a zip can be broken in many ways
        raise DataError(f"{path} must be an .npz of plain arrays, got: {error}") from error


def _key(
    arrays: dict[str, Any],
    chosen: str | None,
    known: Sequence[str],
    split: str,
    path: Path,
    argument: str,
) -> str:
    """The key asked for, or the one that carries a usual name."""
    if chosen is not None and chosen in arrays:
        return chosen
    if chosen is None:
        for key in arrays:
            stem, _, end = key.rpartition("_")
            if key.lower() in known or (stem.lower() in known and canonical(end) == split):
                return key
    raise DataError(
        f"must name an array of {path}, got {chosen or ' or '.join(known)!r}; "
        f"its arrays are {some(list(arrays), 20)}",
        argument=argument,
    )


def read_frame(source: object, options: ReadOptions) -> LabeledData:
    """A DataFrame; ids are its `id` column, else its index, else row numbers."""
    pd = require("pandas", "a DataFrame")
    pa = require("pyarrow", "a DataFrame")
    if not isinstance(source, pd.DataFrame):
        raise DataError(
            f"must be a DataFrame, got a {type(source).__name__}; give (X, y) instead",
            argument="source",
        )
    frame = source.rename(columns=str)
    twice = frame.columns[frame.columns.duplicated()].tolist()
    if twice:
        raise DataError(f"columns of the DataFrame must have different names, got {twice} twice")
    # As get_dummies(sparse=True) makes them; Arrow takes none.
    sparse = {x: t.subtype for x, t in frame.dtypes.items() if isinstance(t, pd.SparseDtype)}
    frame = frame.astype(sparse)
    counted = isinstance(frame.index, pd.RangeIndex) and frame.index.start == 0
    ids = None if counted or "id" in frame.columns else [str(value) for value in frame.index]
    again = frame.index[frame.index.duplicated()]
    if ids is not None and len(again):
        raise DataError(
            f"the index of the DataFrame must name every row once, got {some(list(again))} again; "
            "number the rows with reset_index(drop=True), or give a column id"
        )
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except pa.ArrowException as error:
        reason = " ".join(map(str, error.args))
        raise DataError(f"columns of the DataFrame must be of one type each, got: {reason}") from (
            error
        )
    except UnicodeEncodeError as error:
        shown = error.object.encode("utf-8", "backslashreplace").decode()
        raise DataError(f"texts of the DataFrame must be UTF-8, got {shown!r}") from error
    return read_arrow(
        ArrowRows(table.replace_schema_metadata(None)),
        options,
        name="frame",
        where="the DataFrame",
        folder=Path(),
        ids=ids,
    )


def read_pair(inputs: object, labels: object, options: ReadOptions) -> LabeledData:
    """Inputs and their labels, `(X, y)`; X may be a DataFrame."""
    if type(inputs).__module__.partition(".")[0] == "pandas" and hasattr(inputs, "columns"):
        column = "label" if "label" not in inputs.columns else "__label__"
        frame = inputs.assign(**{column: _as_labels(labels)})  # type: ignore[attr-defined]
        return read_frame(frame, replace(options, label=column))
    return read_arrays(inputs, labels if options.labelled else None)


def _as_labels(labels: object) -> np.ndarray[Any, Any]:
    return _plain(labels.detach().cpu() if isinstance(labels, Tensor) else labels)


def _as_array(inputs: object) -> np.ndarray[Any, Any]:
    try:
        return _plain(inputs)
    except ValueError as error:
        raise DataError(
            "X must be rectangular, got samples of several shapes; bring them to one shape, or "
            f"give a folder of images, which are scaled when read ({error})"
        ) from error


def _plain(values: object) -> np.ndarray[Any, Any]:
    """Make an array; NumPy would make all texts as long as the longest, and a NaN a text."""
    texts = isinstance(values, list | tuple) and any(isinstance(value, str) for value in values)
    return np.asarray(values, dtype=object if texts else None)


def _as_texts(array: np.ndarray[Any, Any]) -> list[str]:
    texts = array.tolist()
    wrong = [row for row, text in enumerate(texts) if not isinstance(text, str)]
    if array.ndim != 1 or wrong:
        raise DataError(
            "X must be a list of texts or an array of numbers, got objects of other kinds"
            + (f" in rows {some(wrong)}" if wrong else "")
        )
    if texts and all(text.lower().endswith(SUFFIXES) for text in texts):
        raise DataError(  # their paths may well hold the classes
            f"X must hold images or texts, got the names of image files, such as {texts[0]!r}; "
            "give a DataFrame that has them as a column"
        )
    # json.loads leaves half of a surrogate pair of a cut emoji: no tokenizer and no file takes it.
    return [text.encode("utf-8", "replace").decode() for text in texts]
