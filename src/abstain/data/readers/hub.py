"""Hugging Face datasets: `hf:OWNER/NAME` from the hub, and dataset objects."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from abstain.data.cache import cached
from abstain.data.contract import LabeledData
from abstain.data.identity import files_digest
from abstain.data.readers.hub_fetch import fetch
from abstain.data.readers.rows import ArrowRows
from abstain.data.readers.splits import canonical, pick
from abstain.data.readers.tabular import read_arrow
from abstain.data.reading import ReadOptions
from abstain.errors import DataError
from abstain.support.files import publish

if TYPE_CHECKING:
    import datasets


def read_hub(name: str, options: ReadOptions, *, keep: bool = True) -> LabeledData:
    """A set of the hub; `NAME:CONFIG` chooses a configuration; `keep` caches decoded images."""
    short = name.partition(":")[0].rsplit("/", 1)[-1]
    return read_dataset(fetch(name), options, name=short, keep=keep)


def hub_splits(name: str) -> tuple[str, ...]:
    """The splits of a set of the hub, which is fetched where it is not here."""
    return object_splits(fetch(name))


def read_dataset(
    dataset: "datasets.Dataset | datasets.DatasetDict",
    options: ReadOptions,
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
        if len(names) == 1:
            names.setdefault("train", *names.values())  # whatever the only part is called
        dataset = dataset[names[pick(options.split, names, name)]]
    elif isinstance(dataset, datasets.Dataset):
        pick(options.split, ["train"], "a Dataset")
    else:
        raise DataError(
            f"must be a Dataset or DatasetDict, got {type(dataset).__name__}; "
            "a streamed set has no length: load it without streaming",
            argument="source",
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
    if not keep or not has_images or options.weights:  # the cache keeps no weights
        return build()
    key = files_digest([], dataset._fingerprint, *options.key())
    return cached(f"hub-{name}", key, options.cache, build)


def object_splits(source: object) -> tuple[str, ...]:
    """The splits of a source that is not a name; of a `DatasetDict` those with labels.

    Many a set of the hub keeps the labels of its test split to itself and gives −1 for each.
    """
    if type(source).__name__ != "DatasetDict" or not isinstance(source, dict) or len(source) == 1:
        return ("train",)
    return tuple(canonical(str(split)) for split in source if _has_labels(source[split]))


def _has_labels(dataset: "datasets.Dataset") -> bool:
    import datasets
    import pyarrow.compute as pc

    label = _only_class_label(dataset) or "label"
    if not isinstance(dataset.features.get(label), datasets.ClassLabel) or not len(dataset):
        return True
    given = dataset.select_columns([label]).with_format("arrow")[:].column(label)
    return bool(pc.min(given).as_py() != -1)


def _only_class_label(dataset: "datasets.Dataset") -> str | None:
    """The one column that is declared as a label, when none is called `label`."""
    import datasets

    declared = [n for n, f in dataset.features.items() if isinstance(f, datasets.ClassLabel)]
    return declared[0] if len(declared) == 1 and "label" not in dataset.features else None


def _rows(dataset: "datasets.Dataset", options: ReadOptions) -> ArrowRows:
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
