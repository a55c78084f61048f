"""Splits of a folder: files or sub-folders named after them."""

import re
from collections.abc import Iterable
from pathlib import Path

from abstain.errors import DataError
from abstain.support.wording import many, some

TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson")
_ALIASES = {
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "dev": "validation",
    "testing": "test",
}
_KNOWN = {"train", "validation", "test", *_ALIASES}
_FILE = re.compile(r"([A-Za-z]+)(?:[-_.]?(\d+)(?:-of-(\d+))?)?")


def canonical(split: str) -> str:
    """One name per split: `val`, `valid` and `dev` are `validation`.

    >>> canonical("val")
    'validation'
    """
    return _ALIASES.get(split.lower(), split.lower())


def split_folders(folder: Path) -> dict[str, Path]:
    """Sub-folders that stand for splits; none when the sub-folders are classes.

    They are splits when one of them is called train and holds sub-folders itself.
    """
    named = [path for path in subfolders(folder) if path.name.lower() in _KNOWN]
    if not any(canonical(path.name) == "train" and subfolders(path) for path in named):
        return {}
    by_split: dict[str, Path] = {}
    for path in named:
        split = canonical(path.name)
        if split in by_split:
            raise _named_twice(folder, split, [by_split[split].name, path.name])
        by_split[split] = path
    return by_split


def table_files(folder: Path) -> dict[str, list[Path]]:
    """Files that stand for splits, parts in order: train.csv, train-00000-of-00002.parquet.

    They lie in the folder itself or, as on the hub, in its `data` folder.
    """
    by_split: dict[str, dict[str, list[tuple[int, Path]]]] = {}
    totals: dict[str, int] = {}
    for path in sorted([*folder.iterdir(), *_inside(folder / "data")]):
        match = _FILE.fullmatch(path.stem)
        if path.suffix.lower() not in TABLE_SUFFIXES or match is None:
            continue
        word, part, total = match.groups()
        if word.lower() not in _KNOWN:
            continue
        split = canonical(word)
        series = f"{path.parent}/{word}{'-*' if part else ''}{path.suffix}"
        by_split.setdefault(split, {}).setdefault(series, []).append((int(part or 0), path))
        if total:
            totals[split] = int(total)
    for split, series_of in by_split.items():
        if len(series_of) > 1:
            raise _named_twice(folder, split, [Path(series).name for series in series_of])
    files = {
        split: [path for _, path in sorted(next(iter(s.values())))] for split, s in by_split.items()
    }
    for split, total_parts in totals.items():
        if len(files[split]) != total_parts:
            raise DataError(
                f"split {split!r} of {folder} must have {many(total_parts, 'part')} as its file "
                f"names say, got {len(files[split])}; fetch the missing ones"
            )
    return files


def pick(split: str, splits: Iterable[str], where: object) -> str:
    """The split asked for, or an error that names those there are."""
    there = list(splits)
    if split not in there:
        raise DataError(
            f"must be one of those in {where}: {some(there)}; got {split!r}; "
            "give the file or folder of the other split as a source of its own",
            argument="split",
        )
    return split


def subfolders(folder: Path) -> list[Path]:
    """The sub-folders in order, without hidden ones."""
    return sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith((".", "__")))


def _inside(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _named_twice(folder: Path, split: str, names: list[str]) -> DataError:
    return DataError(
        f"{folder} must name each split once, got {split!r} as {some(sorted(names))}; "
        "move all but one away"
    )
