"""Raw label values, of any type, to class indices and class names, checked and aligned."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from abstain.data.contract import LabeledData, check_unique, is_utf8
from abstain.errors import DataError
from abstain.support.wording import did_you_mean, many, some

RawLabels: TypeAlias = Sequence[object] | NDArray[Any]
"""Labels as a source has them: numbers, texts, anything that names a class."""


@dataclass(frozen=True)
class Labels:
    """Class indices and the names they stand for."""

    given: Tensor
    classes: tuple[str, ...]


def no_labels(count: int) -> Tensor:
    """The `given` of a source that was read without labels: −1 for each sample."""
    return torch.full((count,), -1)


def with_labels(data: LabeledData, values: RawLabels | None, *, where: str) -> LabeledData:
    """Add labels to data; None leaves them without.

    Args:
        data: without labels; its classes are those that the source names itself, or ().
        values: the label of each sample as the source has it.
        where: what errors call the labels.

    >>> data = LabeledData(inputs=["good", "bad"], given=no_labels(2), classes=(), ids=("a", "b"),
    ...                    kind="text")
    >>> with_labels(data, ["+", "-"], where="label").classes
    ('+', '-')
    """
    if values is None:
        return data
    labels = encode_labels(values, where=where, names=data.classes)
    return replace(data, given=labels.given, classes=labels.classes)


def settle(data: LabeledData, *, classes: Sequence[str] | None, labelled: bool) -> LabeledData:
    """Align the labels to the classes of another split, or check that they can train."""
    check_unique(data.ids, data.name)
    if not labelled:
        return replace(data, given=no_labels(len(data)), classes=tuple(classes or data.classes))
    labels = Labels(data.given, data.classes)
    where = f"labels of {data.name}"
    if classes is None:
        check_counts(labels, where=where)
        return data
    aligned = align_labels(labels, classes, where=where, ids=data.ids)
    return replace(data, given=aligned.given, classes=aligned.classes)


def encode_labels(values: RawLabels, *, where: str, names: Sequence[str] = ()) -> Labels:
    """Number the classes: in the order of `names` where the source has names, else sorted.

    Numbers that are whole (1, "1", 1.0) are classes and sort as numbers; other text sorts as text.

    >>> encode_labels(["dog", "cat", "dog"], where="label").classes
    ('cat', 'dog')
    >>> encode_labels([10.0, 2.0], where="label").classes
    ('2', '10')
    """
    if names:
        return _named(values, tuple(names), where)
    seen: dict[str, int] = {}
    codes = [seen.setdefault(text, len(seen)) for text in _as_texts(values, where)]
    if foreign := [text for text in seen if not is_utf8(text)]:
        shown = [text.encode("utf-8", "backslashreplace").decode() for text in foreign]
        raise DataError(f"{where} must be UTF-8, got {some(shown)}; rename these classes")
    classes = _sorted_names(list(seen))
    rank = torch.empty(len(seen), dtype=torch.int64)
    for position, name in enumerate(classes):
        rank[seen[name]] = position
    return Labels(rank[torch.tensor(codes, dtype=torch.int64)], classes)


def align_labels(
    labels: Labels, classes: Sequence[str], *, where: str, ids: Sequence[str] = ()
) -> Labels:
    """Renumber labels to the class order of another split, usually the training split's.

    Args:
        labels: to be renumbered.
        classes: in the order wanted.
        where: what errors call the labels.
        ids: of the samples, where `classes` are those of the training data.
    """
    if len(set(classes)) < len(classes):
        raise DataError(
            f"must name every class once, got {some(list(classes), 20)}", argument="classes"
        )
    index = {name: i for i, name in enumerate(classes)}
    present = set(np.unique(labels.given.numpy()).tolist())
    unknown = [name for i, name in enumerate(labels.classes) if i in present and name not in index]
    if unknown:
        near = did_you_mean(unknown[0], classes)
        if not ids:
            raise DataError(
                f"{where} must hold only the classes {some(list(classes), 10)}, "
                f"got {some(unknown)}{near}"
            )
        strange = torch.tensor([name in unknown for name in labels.classes])[labels.given]
        foreign = [ids[row] for row in strange.nonzero().flatten().tolist()]
        raise DataError(
            f"{where} must hold only classes of the training data ({some(list(classes), 10)}), got "
            f"{some(unknown)}, which these do not have, for {many(len(foreign), 'sample')}: "
            f"{some(foreign)}; leave out what is of no class that can be predicted{near}"
        )
    table = torch.tensor([index.get(name, -1) for name in labels.classes], dtype=torch.int64)
    return Labels(table[labels.given], tuple(classes))


def spelt_alike(classes: Sequence[str]) -> list[tuple[str, ...]]:
    """Classes whose names differ only in case, in spaces or in how their letters are encoded.

    Single letters are left alone: an a and an A may well be two classes.

    >>> spelt_alike(["New York", "new  york", "Oslo", "a", "A"])
    [('New York', 'new  york')]
    """
    groups: dict[str, list[str]] = {}
    for name in classes:
        plain = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
        groups.setdefault(plain, []).append(name)
    return [tuple(names) for plain, names in groups.items() if len(names) > 1 and len(plain) > 1]


def check_counts(labels: Labels, *, where: str) -> None:
    """Raise when labels cannot train a classifier: none, one class, or one sample of a class."""
    if len(labels.given) == 0:
        raise DataError(
            f"{where} must hold samples, got none; check that the file is the right one"
        )
    counts = torch.bincount(labels.given, minlength=len(labels.classes)).tolist()
    held = [name for name, count in zip(labels.classes, counts, strict=True) if count]
    if len(held) < 2:
        raise DataError(
            f"{where} must hold two classes or more, got only {held[0]!r}",
            remedy="check that {label} names the right column, or that every class has its "
            "sub-folder",
            label=None,
        )
    single = [name for name, count in zip(labels.classes, counts, strict=True) if count == 1]
    if single:
        others = [name for name in held if name not in single]
        raise DataError(
            f"{where} must hold two samples or more of a class, got one of {some(single)}; "
            "add samples, merge the class into another or leave it out"
            f"{did_you_mean(single[0], others)}"
        )


def _named(values: RawLabels, names: tuple[str, ...], where: str) -> Labels:
    """Labels of a source that lists its class names: indices into the names, or the names."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        return align_labels(encode_labels(values, where=where), names, where=where)
    wrong = np.flatnonzero((array < 0) | (array >= len(names)))
    if len(wrong):
        raise DataError(
            f"{where} must lie in 0 to {len(names) - 1} for {len(names)} named classes, "
            f"got {array[wrong[0]]} in row {wrong[0]} ({many(len(wrong), 'such row')})",
            remedy="−1 stands for no label: use {labelled} for a split without labels",
            labelled=False,
        )
    return Labels(torch.from_numpy(array.astype(np.int64)), names)


def _as_texts(values: RawLabels, where: str) -> list[str]:
    array = np.asarray(values)
    if array.ndim != 1:
        raise DataError(
            f"{where} must be one label per sample, got an array of shape {array.shape}"
        )
    if array.dtype.kind in "iub":
        return [str(value) for value in array.tolist()]
    items = np.asarray(values, dtype=object)
    missing = [row for row, item in enumerate(items) if _is_missing(item)]
    if missing:
        raise DataError(
            f"{where} must give every row a label, got none in "
            f"{many(len(missing), 'row')}: {some(missing)}; fill in what is missing or leave it out"
        )
    return _whole_numbers([_text(item).strip() for item in items], where)


def _text(label: object) -> str:
    """Decode a text that HDF5 or NumPy holds as bytes."""
    return label.decode("utf-8", "backslashreplace") if isinstance(label, bytes) else str(label)


def _is_missing(value: object) -> bool:
    """Whether a label is None, NaN, pandas' NA or empty; the text "None" is a name as others."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or str(value) in {"nan", "<NA>", "NaT"}


def _whole_numbers(texts: list[str], where: str) -> list[str]:
    """Write 1.0 as 1; refuse numbers that are measurements rather than classes."""
    unique = set(texts)
    try:
        numbers = {text: float(text) for text in unique}
    except ValueError:
        return texts
    broken = [text for text in unique if not numbers[text].is_integer()]
    if broken:
        raise DataError(
            f"{where} must be classes, got numbers that look like measurements: "
            f"{some(sorted(broken))}; name another column, or cut the numbers into classes"
        )
    plain = {
        text: text if "." not in text and "e" not in text.lower() else str(int(numbers[text]))
        for text in unique
    }
    return [plain[text] for text in texts]


def _sorted_names(names: list[str]) -> tuple[str, ...]:
    """Numbers as numbers, 2 before 10; anything else as text."""
    try:
        return tuple(sorted(names, key=lambda name: (float(name), name)))
    except ValueError:
        return tuple(sorted(names))
