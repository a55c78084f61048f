"""Features that the user has already, such as embeddings, in the place of a source's own inputs."""

import os
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


def with_features(data: LabeledData, features: object) -> LabeledData:
    """The same samples and labels with other inputs: a row of numbers for each.

    Args:
        data: what the features are of, in its order.
        features: (N, columns), an array or the name of an `.npy`.

    >>> data = LabeledData(inputs=["a text", "another"], given=torch.tensor([0, 1]), kind="text",
    ...                    classes=("cat", "dog"), ids=("a", "b"))
    >>> with_features(data, [[0.5, 1.0], [2.0, 3.0]]).inputs.shape
    torch.Size([2, 2])
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
    no_columns: dict[str, Any] = {"columns": (), "categories": {}, "dates": ()}
    return replace(data, inputs=inputs, kind="table", word_vectors=None, **no_columns)


def _as_array(features: object) -> np.ndarray[Any, Any]:
    try:
        # A tensor may lie on a GPU, or want its gradient.
        return np.asarray(
            features.detach().cpu() if isinstance(features, torch.Tensor) else features
        )
    except ValueError as error:
        raise DataError(f"features must be rectangular, got: {error}") from error


def _read(path: Path) -> np.ndarray[Any, Any]:
    try:
        # Not np.load, which takes what is no .npy for a pickle, and says how to load that unsafely.
        array = np.lib.format.open_memmap(path.expanduser(), mode="r")
    except FileNotFoundError:
        raise DataError(f"features must name a file that exists, got {path}") from None
    except Exception as error:  # a damaged file makes NumPy raise anything
        raise DataError(f"{path} must be an {SUFFIX} of plain numbers, got: {error}") from error
    return np.asarray(array)
