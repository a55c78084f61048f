"""CSV, Parquet and JSONL files, and any Arrow table: rows to inputs, labels and ids."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from abstain.data.cache import read_entry, store
from abstain.data.class_labels import RawLabels, no_labels, with_labels
from abstain.data.contract import Inputs, LabeledData, NumberedIds
from abstain.data.identity import files_digest
from abstain.data.inputs import check_finite
from abstain.data.readers.arrow_files import read_rows
from abstain.data.readers.columns import (
    ChosenColumns,
    check_ignored,
    choose_features,
    choose_to_show,
    class_names,
    label_column,
)
from abstain.data.readers.images import list_images, read_images
from abstain.data.readers.rows import (
    ArrowRows,
    ImageBlobs,
    LazyTable,
    LazyTexts,
    as_numbers,
    categories_of,
    holds_dates,
    holds_free_text,
    unknown_categories,
)
from abstain.data.reading import ReadOptions
from abstain.data.weights import with_weights
from abstain.errors import DataError
from abstain.support.wording import did_you_mean, many, some

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK = 1 << 16


def read_files(files: Sequence[Path], options: ReadOptions, *, name: str) -> LabeledData:
    """One split from its files. Decoded images are cached; text and numbers read fast enough."""
    folder = files[0].parent
    where = files[0] if len(files) == 1 else folder
    # The cache keeps neither weights nor images of their own size.
    if files[0].suffix.lower() != ".parquet" or options.weights or options.own_size:
        return read_arrow(read_rows(files, options), options, name=name, where=where, folder=folder)
    entry = options.cache / f"table-{name}-{files_digest(files, *options.key())}.safetensors"
    data = read_entry(entry)
    if data is None:
        rows = read_rows(files, options)
        data = read_arrow(rows, options, name=name, where=where, folder=folder)
        if data.kind == "image" and _embedded(rows.table.column(data.columns[0])):
            store(entry, data)
    return data


def read_arrow(
    rows: ArrowRows,
    options: ReadOptions,
    *,
    name: str,
    where: object,
    folder: Path,
    names: Sequence[str] = (),
    ids: Sequence[str] | None = None,
) -> LabeledData:
    """One split from an Arrow table.

    Args:
        rows: the table.
        options: how to read it.
        name: what to call the data.
        where: what errors call it.
        folder: where relative image paths start.
        names: class names, where the table's own metadata do not give them.
        ids: one per row; else the `id` column, else row numbers.
    """
    table = rows.table
    if table.num_rows == 0:
        raise DataError(f"{where} must hold rows, got none; check that the file is the right one")
    label = label_column(table, options.label, where) if options.labelled else None
    choice = _choice(table, label, options, where)
    columns = choice.columns
    texts: tuple[str, ...] = ()
    categories: dict[str, tuple[str, ...]] = {}
    dates: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    if choice.kind == "table":
        texts = _free_texts(table, columns, options)
        columns = tuple(name for name in columns if name not in texts)
        categories = categories_of(table, columns, options.categories)
        dates = tuple(
            name for name in columns if name not in categories and holds_dates(table.column(name))
        )
        unknown = tuple(unknown_categories(table, columns, options.categories or {}))
    labels = None if label is None else _values(table, label)
    row_ids = ids if ids is not None else _ids(table)
    label_names = tuple(names) or (class_names(table, label) if label else ())

    def labelled(
        inputs: Inputs,
        keep: Sequence[int] | None = None,
        skipped: tuple[str, ...] = (),
        *,
        scaled: bool = False,
    ) -> LabeledData:
        unlabelled = LabeledData(
            inputs=inputs,
            given=no_labels(len(inputs)),
            classes=label_names,
            ids=row_ids if keep is None else [row_ids[i] for i in keep],
            kind=choice.kind,
            name=name,
            skipped=skipped,
            scaled=scaled,
            columns=columns,
            categories=categories,
            dates=dates,
            unknown=unknown,
            texts=dict(zip(texts, _texts(rows, texts, options), strict=True)),
        )
        data = with_labels(unlabelled, _take(labels, keep), where=f"column {label!r} of {where}")
        if options.weights is None:
            return data
        values = table.column(options.weights).to_pylist()
        return with_weights(data, values if keep is None else [values[i] for i in keep], where)

    if choice.kind == "text":
        if not options.to_show:
            _check_no_gaps(table, columns[0], where)
        return labelled(_texts(rows, columns, options)[0])
    if choice.kind == "table":
        return labelled(_features(rows, columns, categories, options, where))

    read = list_images if options.to_show else read_images
    images = read(
        ImageBlobs(rows, choice.columns[0], folder),
        row_ids,
        image_size=options.image_size,
        skip_bad=options.skip_bad,
        memory_budget=options.memory_budget,
        own_size=options.own_size,
        where=str(where),
    )
    keep = images.keep if images.skipped else None
    return labelled(images.inputs, keep, images.skipped, scaled=images.scaled)


def _choice(
    table: "pa.Table", label: str | None, options: ReadOptions, where: object
) -> ChosenColumns:
    """The columns to read: neither label, ids and weights nor what is to be ignored."""
    check_ignored(table, options.ignore, where=where)
    apart = [label or options.label or "label", "id", *_weight_column(table, options, where)]
    apart += options.ignore
    if options.to_show and options.features is None:
        return choose_to_show(table, apart=apart, where=where)
    choice = choose_features(table, options.features, apart=apart, where=where)
    is_table = choice.kind == "text" and set(choice.columns) <= set(options.texts or ())
    return replace(choice, kind="table") if is_table else choice


def _weight_column(table: "pa.Table", options: ReadOptions, where: object) -> list[str]:
    if options.weights is None:
        return []
    if options.weights not in table.column_names:
        raise DataError(
            f"must name a column of {where} or a file, got {options.weights!r}"
            f"{did_you_mean(options.weights, table.column_names)}",
            argument="weights",
        )
    return [options.weights]


def _take(labels: RawLabels | None, keep: Sequence[int] | None) -> RawLabels | None:
    return labels if labels is None or keep is None else [labels[i] for i in keep]


def _values(table: "pa.Table", name: str) -> RawLabels:
    import pyarrow.types as types

    column = table.column(name)
    fast = types.is_integer(column.type) and not column.null_count
    values: RawLabels = column.to_numpy() if fast else column.to_pylist()
    return values


def _ids(table: "pa.Table") -> Sequence[str]:
    if "id" not in table.column_names:
        return NumberedIds(table.num_rows)
    return [str(value) for value in table.column("id").to_pylist()]


def _embedded(column: "pa.ChunkedArray") -> bool:
    """Whether the images lie in the table, so that its bytes identify them."""
    import pyarrow.compute as pc
    import pyarrow.types as types

    if types.is_struct(column.type):
        column = pc.struct_field(column, "bytes")
    binary = types.is_binary(column.type) or types.is_large_binary(column.type)
    return bool(binary and not column.null_count)


def _free_texts(table: "pa.Table", columns: Sequence[str], options: ReadOptions) -> tuple[str, ...]:
    """Choose the columns for a backbone: those of the training, or those that hold free text."""
    if options.texts is not None:
        return tuple(name for name in columns if name in options.texts)
    known = options.categories or ()
    return tuple(
        name for name in columns if name not in known and holds_free_text(table.column(name))
    )


def _check_no_gaps(table: "pa.Table", column: str, where: object) -> None:
    if table.column(column).null_count:
        rows = table.column(column).is_null().to_numpy().nonzero()[0].tolist()
        raise DataError(
            f"text column {column!r} of {where} must have a text in every row, got none in "
            f"{many(len(rows), 'row')}: {some(rows)}; fill in what is missing or leave it out"
        )


def _texts(rows: ArrowRows, columns: Sequence[str], options: ReadOptions) -> list[Inputs]:
    """The texts of each column, empty where there is none; lazy above the budget for all."""
    lazy = [LazyTexts(rows, name) for name in columns]
    if rows.table.select(columns).nbytes > options.memory_budget:
        return [*lazy]
    return [
        ["" if x is None else str(x) for x in rows.table.column(n).to_pylist()] for n in columns
    ]


def _features(
    rows: ArrowRows,
    columns: Sequence[str],
    categories: Mapping[str, Sequence[str]],
    options: ReadOptions,
    where: object,
) -> Inputs:
    """float32 (N, columns), or lazy above the budget; either way every value is looked at once."""
    table = rows.table
    if 4 * table.num_rows * len(columns) > options.memory_budget:
        for start, block in _blocks(table, columns, categories):
            check_finite(block, columns, where=where, first_row=start, may_lack=True)
        return LazyTable(rows, columns, categories)
    features = torch.empty((table.num_rows, len(columns)), dtype=torch.float32)
    for start, block in _blocks(table, columns, categories):
        features[start : start + len(block)] = block
    if not options.to_show:
        check_finite(features, columns, where=where, may_lack=True)
    return features


def _blocks(
    table: "pa.Table", columns: Sequence[str], categories: Mapping[str, Sequence[str]]
) -> Iterator[tuple[int, Tensor]]:
    for start in range(0, table.num_rows, _BLOCK):
        part = table.slice(start, _BLOCK)
        yield start, torch.from_numpy(as_numbers(part, columns, categories))


def source_name(path: str | os.PathLike[str]) -> str:
    """A short name for a file or folder.

    >>> source_name("photos/train.csv")
    'train'
    """
    return Path(path).stem or "data"
