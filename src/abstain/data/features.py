"""Features that the user has already, such as embeddings: what the model sees of a source."""

import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import torch

from abstain.data.contract import LabeledData
from abstain.data.inputs import check_finite
from abstain.errors import DataError
from abstain.support.wording import many

SUFFIX = ".npy"


def is_feature_file(features: object) -> TypeGuard[str | os.PathLike[str]]:
    """Whether `features` names an array on disk rather than columns of the source.

    >>> is_feature_file("embeddings.npy"), is_feature_file("height"), is_feature_file(["a", "b"])
    (True, False, False)
    """
    return isinstance(features, str | os.PathLike) and os.fspath(features).endswith(SUFFIX)


def are_numbers(features: object) -> bool:
    """Whether `features` are numbers, an array or an `.npy`, rather than columns of the source.

    >>> are_numbers("embeddings.npy"), are_numbers([[0.5, 1.0], [2.0, 3.0]])
    (True, True)
    >>> are_numbers(None), are_numbers("height"), are_numbers(["height", "age"])
    (False, False, False)
    """
    if isinstance(features, str | os.PathLike) or not isinstance(features, Collection):
        return is_feature_file(features)
    if getattr(features, "ndim", 1) != 1:  # a DataFrame has the names of its columns as its items
        return True
    return not all(isinstance(name, str | int | np.integer) for name in features)


def name_of(features: object) -> str:
    """Name features that are numbers for an error: by their file, or as "in memory"."""
    return os.fspath(features) if is_feature_file(features) else "in memory"


def with_features(data: LabeledData, features: object) -> LabeledData:
    """Replace the inputs by a row of numbers for each sample; samples are shown as before.

    Args:
        data: what the features are of, in its order.
        features: (N, columns), an array or the name of an `.npy`.

    >>> data = LabeledData(inputs=["a text", "another"], given=torch.tensor([0, 1]), kind="text",
    ...                    classes=("cat", "dog"), ids=("a", "b"))
    >>> numbers = with_features(data, [[0.5, 1.0], [2.0, 3.0]])
    >>> numbers.inputs.shape, numbers.as_shown.inputs
    (torch.Size([2, 2]), ['a text', 'another'])
    """
    where = os.fspath(features) if is_feature_file(features) else "features"
    array = _read(Path(where)) if is_feature_file(features) else _as_array(features)
    if array.dtype.kind not in "biuf" or array.ndim != 2 or array.shape[1] == 0:
        raise DataError(
            f"{where} must hold numbers of the shape (samples, columns), got {array.dtype} of "
            f"the shape {array.shape}"
        )
    if len(array) != len(data):
        raise DataError(
            f"{where} must have one row for each of {many(len(data), 'sample')} of {data.name}, "
            f"got {len(array)}"
        )
    inputs = torch.from_numpy(array.astype(np.float32))
    check_finite(inputs, where=where)
    no_columns: dict[str, Any] = {"columns": (), "categories": {}, "dates": (), "texts": {}}
    return replace(data, inputs=inputs, kind="table", shown=data.as_shown, **no_columns)


def _as_array(features: object) -> np.ndarray[Any, Any]:
    try:
        # A tensor may lie on a GPU, or want its gradient.
        return np.asarray(
            features.detach().cpu() if isinstance(features, torch.Tensor) else features
        )
    except ValueError as error:
        raise DataError(f"must be rectangular, got: {error}", argument="features") from error


def _read(path: Path) -> np.ndarray[Any, Any]:
    try:
        # Not np.load, which takes what is no .npy for a pickle, and advises to load that unsafely.
        array = np.lib.format.open_memmap(path.expanduser(), mode="r")
    except FileNotFoundError:
        raise DataError(f"must name a file that exists, got {path}", argument="features") from None
    except Exception as error:  # a damaged file makes NumPy raise anything
        raise DataError(f"{path} must be an {SUFFIX} of plain numbers, got: {error}") from error
    return np.asarray(array)
