"""Hugging Face datasets: `hf:NAME` from the hub, and dataset objects."""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from abstain.data.cache import cached, fingerprint, publish
from abstain.data.contract import LabeledData
from abstain.data.layout import canonical, pick
from abstain.data.options import Options
from abstain.data.require import require
from abstain.data.rows import ArrowRows
from abstain.data.tabular import read_arrow
from abstain.data.wording import some
from abstain.errors import DataError

if TYPE_CHECKING:
    import datasets


def read_hub(name: str, options: Options, *, keep: bool = True) -> LabeledData:
    """A set of the hub; `NAME:CONFIG` chooses a configuration; `keep` caches decoded images."""
    datasets = require("datasets", f"{name} on the hub")
    path, _, config = name.partition(":")
    try:
        found = datasets.load_dataset(path, config or None)
    except Exception as error:  # the library raises dozens of kinds, for one reason each
        raise _not_fetched(name, error) from error
    return read_dataset(found, options, name=path.rsplit("/", 1)[-1], keep=keep)


def read_dataset(
    dataset: "datasets.Dataset | datasets.DatasetDict",
    options: Options,
    *,
    name: str = "dataset",
    keep: bool = False,
) -> LabeledData:
    """A `datasets.Dataset`, or one split of a `DatasetDict`.

    Its Arrow table is read as a file's would be: features and class names are the data set's own.
    """
    import datasets

    if isinstance(dataset, datasets.DatasetDict):
        names = {canonical(split): split for split in dataset}
        dataset = dataset[names[pick(options.split, names, name)]]
    elif isinstance(dataset, datasets.Dataset):
        pick(options.split, ["train"], "a Dataset")
    else:
        raise DataError(
            f"source must be a Dataset or DatasetDict, got {type(dataset).__name__}; "
            "a streamed set has no length: load it without streaming"
        )
    label = options.label or _only_class_label(dataset)
    feature = dataset.features.get(label)
    names_of = tuple(feature.names) if isinstance(feature, datasets.ClassLabel) else ()
    options = replace(options, label=label)

    def build() -> LabeledData:
        return read_arrow(
            _rows(dataset, options),
            options,
            name=name,
            where=f"the dataset {name}",
            folder=Path(),
            names=names_of,
        )

    has_images = any(isinstance(f, datasets.Image) for f in dataset.features.values())
    if not keep or not has_images:
        return build()
    key = fingerprint([], dataset._fingerprint, *options.key())
    return cached(f"hub-{name}", key, options.cache, build)


def object_splits(source: object) -> tuple[str, ...]:
    """The splits of a source that is not a name."""
    if type(source).__name__ == "DatasetDict" and isinstance(source, dict):
        return tuple(canonical(str(split)) for split in source)
    return ("train",)


def _only_class_label(dataset: "datasets.Dataset") -> str | None:
    """The one column that is declared as a label, when none is called `label`."""
    import datasets

    declared = [n for n, f in dataset.features.items() if isinstance(f, datasets.ClassLabel)]
    return declared[0] if len(declared) == 1 and "label" not in dataset.features else None


def _rows(dataset: "datasets.Dataset", options: Options) -> ArrowRows:
    """The rows as one table; a large set is written once to the cache and mapped from there."""
    import pyarrow as pa

    arrow = dataset.with_format("arrow")
    if (dataset.size_in_bytes or dataset.data.nbytes) <= options.memory_budget:
        return ArrowRows(arrow[:])
    path = options.cache / f"rows-{dataset._fingerprint}.arrow"

    def write(temporary: Path) -> None:
        with pa.ipc.new_file(str(temporary), arrow[:1].schema) as writer:
            for table in arrow.iter(batch_size=1024):
                writer.write_table(table)

    if not path.exists():
        publish(path, write)
    return ArrowRows(path=path)


def _not_fetched(name: str, error: Exception) -> DataError:
    first = some(str(error).splitlines()[:1] or [type(error).__name__])
    offline = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("HF_DATASETS_OFFLINE")
    why = "HF_HUB_OFFLINE or HF_DATASETS_OFFLINE is set" if offline else f"{first}"
    return DataError(
        f"{name} cannot be fetched from the hub ({why}); connect to the network, or fetch it on "
        "another machine and give its Parquet files as the source"
    )
