"""Weights of samples in training: a column of the source, or a file beside it."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from abstain.data.contract import LabeledData
from abstain.errors import DataError
from abstain.support.optional import require
from abstain.support.wording import many, some

_SUFFIXES = (".csv", ".parquet", ".npy")
COLUMN = "weight"


def is_weight_file(weights: str | os.PathLike[str]) -> bool:
    """Whether `weights` names a file rather than a column.

    >>> is_weight_file("audits/photos/weights.parquet"), is_weight_file("weight")
    (True, False)
    """
    return os.fspath(weights).lower().endswith(_SUFFIXES)


def with_weights(data: LabeledData, values: object, where: object) -> LabeledData:
    """Add a weight for each sample, checked."""
    try:
        weights = np.asarray(values, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"weights of {where} must be numbers, got: {error}") from error
    if weights.shape != (len(data),):
        raise DataError(
            f"weights of {where} must be one for each of {many(len(data), 'sample')}, got the "
            f"shape {weights.shape}"
        )
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        raise DataError(
            f"weights of {where} must be 0 or more, got {weights[wrong[0]]:g} in row {wrong[0]} "
            f"({many(len(wrong), 'such row')})"
        )
    if not weights.any():
        raise DataError(f"weights of {where} must not all be 0: nothing would be learnt")
    return replace(data, weights=torch.from_numpy(weights))


def read_weights(data: LabeledData, path: Path) -> LabeledData:
    """Weights from a file: a table with the columns id and weight, or an `.npy` in order."""
    path = path.expanduser()
    if not path.exists():
        raise DataError(f"must name a column or a file that exists, got {path}", argument="weights")
    if path.suffix.lower() == ".npy":
        try:
            return with_weights(data, np.load(path, allow_pickle=False), path)
        except (OSError, ValueError, EOFError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{path} must be an .npy of plain numbers, got: {error}") from error
    known = _by_id(path)
    missing = [id_ for id_ in data.ids if id_ not in known]
    if missing:
        raise DataError(
            f"{path} must have a weight for every sample, got none for {some(missing)}; is it of "
            "another data set?"
        )
    return with_weights(data, [known[id_] for id_ in data.ids], path)


def _by_id(path: Path) -> dict[str, Any]:
    pa = require("pyarrow", "weights")
    csv, parquet = require("pyarrow.csv", "weights"), require("pyarrow.parquet", "weights")
    try:
        if path.suffix.lower() == ".csv":
            as_text = csv.ConvertOptions(column_types={"id": pa.string()})
            table = csv.read_csv(path, convert_options=as_text)
        else:
            table = parquet.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} must be a table of weights, got: {error}") from error
    absent = [name for name in ("id", COLUMN) if name not in table.column_names]
    if absent:
        raise DataError(
            f"{path} must have the columns id and {COLUMN}, got {some(table.column_names)}"
        )
    ids = [str(value) for value in table.column("id").to_pylist()]
    return dict(zip(ids, table.column(COLUMN).to_pylist(), strict=True))
