"""Ids: one stable, unique name per sample."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

from abstain.errors import DataError
from abstain.support.wording import some


@dataclass(frozen=True)
class NumberedIds(Sequence[str]):
    """Row numbers as ids, made when asked for: a hundred million of them take no memory.

    >>> NumberedIds(3, prefix="train-", width=6)[-1]
    'train-000002'
    """

    total: int
    prefix: str = ""
    width: int = 0

    def __len__(self) -> int:
        return self.total

    @overload
    def __getitem__(self, index: int, /) -> str: ...
    @overload
    def __getitem__(self, index: slice, /) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice, /) -> str | tuple[str, ...]:
        rows = range(self.total)[index]
        if isinstance(rows, range):
            return tuple(self._name(row) for row in rows)
        return self._name(rows)

    def _name(self, row: int) -> str:
        return f"{self.prefix}{row:0{self.width}d}"


def check_unique(ids: Sequence[str], name: str) -> None:
    """Raise when two samples share an id, or when one cannot be written down."""
    if isinstance(ids, NumberedIds):
        return
    foreign = [id_ for id_ in ids if not id_.isascii() and not _is_text(id_)]
    if foreign:
        shown = [id_.encode("utf-8", "backslashreplace").decode() for id_ in foreign]
        raise DataError(f"ids of {name} must be UTF-8, got {some(shown)}; rename these files")
    if len(set(ids)) == len(ids):
        return
    twice = [id_ for id_, count in Counter(ids).items() if count > 1]
    raise DataError(
        f"ids of {name} must be unique, got {some(twice)} at least twice; "
        "give every sample its own id, or drop the id column so that row numbers are used"
    )


def _is_text(id_: str) -> bool:
    """Names of files that are not UTF-8 come with halves of surrogate pairs in them."""
    try:
        id_.encode()
    except UnicodeEncodeError:
        return False
    return True
