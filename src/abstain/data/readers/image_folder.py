"""An image folder: one sub-folder per class, with train/ and test/ above where there are any."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from abstain.data.cache import cached
from abstain.data.class_labels import no_labels, with_labels
from abstain.data.contract import LabeledData
from abstain.data.identity import files_digest
from abstain.data.readers.images import SUFFIXES, list_images, read_images
from abstain.data.readers.splits import TABLE_SUFFIXES, pick, split_folders, subfolders
from abstain.data.reading import ReadOptions
from abstain.errors import DataError
from abstain.support.wording import some


@dataclass(frozen=True)
class FileBlobs:
    """Image files under one folder, read when asked for."""

    root: Path
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int, /) -> bytes:
        # As a Path, which takes longer to make than a small file to read, under Python's lock.
        with open(f"{self.root}/{self.names[index]}", "rb") as file:  # noqa: PTH123
            return file.read()

    def subset(self, keep: Sequence[int]) -> "FileBlobs":
        """The same images, fewer of them."""
        return FileBlobs(self.root, [self.names[i] for i in keep])


def read_folder(root: Path, options: ReadOptions) -> LabeledData:
    """Images of one split; an id is the path of the file relative to the source."""
    parts = split_folders(root)
    split = pick(options.split, parts or ["train"], root)
    base = parts.get(split, root)
    names = image_names(base, root)
    name = root.resolve().name
    classes = _classes(base, root, names) if options.labelled else None
    if not names:
        raise DataError(f"{base} must hold images ({', '.join(SUFFIXES)}), got none")

    def build() -> LabeledData:
        read = list_images if options.to_show else read_images
        images = read(
            FileBlobs(root, names),
            names,
            image_size=options.image_size,
            skip_bad=options.skip_bad,
            memory_budget=options.memory_budget,
            own_size=options.own_size,
            where=str(base),
        )
        unlabelled = LabeledData(
            inputs=images.inputs,
            given=no_labels(len(images.keep)),
            classes=(),
            ids=[names[i] for i in images.keep],
            kind="image",
            name=name,
            skipped=images.skipped,
            scaled=images.scaled,
        )
        labels = None if classes is None else [classes[i] for i in images.keep]
        return with_labels(unlabelled, labels, where=f"sub-folders of {base}")

    if options.to_show or options.own_size:
        return build()
    key = files_digest([root / name for name in names], names, *options.key())
    return cached(f"folder-{name}", key, options.cache, build)


def image_names(base: Path, root: Path) -> list[str]:
    """Image files below `base`, in order, as paths relative to `root`."""
    paths = []
    seen: set[str] = set()
    for where, folders, files in os.walk(base, followlinks=True):
        if os.path.realpath(where) in seen:  # a link that leads back up
            folders.clear()
            continue
        seen.add(os.path.realpath(where))
        folders[:] = [name for name in sorted(folders) if not name.startswith(".")]
        below = Path(where).relative_to(root).as_posix()
        paths += [
            name if below == "." else f"{below}/{name}"
            for name in files
            if name.lower().endswith(SUFFIXES) and not name.startswith(".")
        ]
    return sorted(paths)


def _classes(base: Path, root: Path, names: Sequence[str]) -> list[str]:
    """The class of each image: its sub-folder."""
    folders = [path.name for path in subfolders(base)]
    if not folders:
        tables = sorted(str(p) for p in base.iterdir() if p.suffix.lower() in TABLE_SUFFIXES)
        rule = (
            f"{base} must hold one sub-folder per class (or train.csv, train.parquet, …), "
            "got no sub-folders"
        )
        if tables:
            raise DataError(f"{rule}; give one of its files: {some(tables)}")
        raise DataError(
            rule,
            remedy="sort the images into folders, or give a CSV file with the image paths and "
            "{label} its label column",
            label=None,
        )
    depth = len(base.relative_to(root).parts)
    classes = [name.split("/")[depth] for name in names]
    loose = [name for name, part in zip(names, classes, strict=True) if part not in set(folders)]
    if loose:
        raise DataError(
            f"images of {base} must lie in the sub-folder of their class, got {some(loose)} "
            "outside; move them into one"
        )
    empty = sorted(set(folders) - set(classes))
    if empty and names:
        raise DataError(
            f"sub-folders of {base} must hold images, got none in {some(empty)}; "
            "fill or remove these folders"
        )
    return classes
