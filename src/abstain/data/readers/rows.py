"""Rows of an Arrow table, in memory or memory-mapped, as picklable lazy inputs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from abstain.data.readers.table_numbers import as_numbers
from abstain.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa


class ArrowRows:
    """A table that is either held or opened from an Arrow file when first needed.

    Pickled to a worker process, a table on disk travels as its path and is mapped again there.
    """

    def __init__(self, table: "pa.Table | None" = None, path: Path | None = None) -> None:
        self._table = table
        self.path = path

    @property
    def table(self) -> "pa.Table":
        """The table, memory-mapped when it lies on disk."""
        if self._table is None:
            import pyarrow as pa

            if self.path is None or not self.path.exists():
                raise DataError(f"the decoded table {self.path} is gone; load the source again")
            self._table = pa.ipc.open_file(pa.memory_map(str(self.path))).read_all()
        return self._table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def value(self, column: str, row: int) -> object:
        """One value as a Python object."""
        return self.table.column(column)[row].as_py()

    def __getstate__(self) -> dict[str, object]:
        return {"_table": None if self.path else self._table, "path": self.path}


class Rows:
    """Some rows of a table: `keep` says which, in which order; None stands for all."""

    def __init__(self, rows: ArrowRows, keep: Sequence[int] | None = None) -> None:
        self.rows = rows
        self.keep = None if keep is None else np.asarray(keep, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.rows) if self.keep is None else len(self.keep)

    def row(self, index: int) -> int:
        """The row of the table that a sample stands in."""
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index %= len(self)
        return index if self.keep is None else int(self.keep[index])


class LazyTexts(Rows):
    """Texts of one column, read when asked for."""

    def __init__(self, rows: ArrowRows, column: str) -> None:
        super().__init__(rows)
        self.column = column

    def __getitem__(self, index: int, /) -> str:
        return str(self.rows.value(self.column, self.row(index)))


class LazyTable(Rows):
    """float32 features of several columns, read when asked for."""

    def __init__(
        self,
        rows: ArrowRows,
        columns: Sequence[str],
        categories: Mapping[str, Sequence[str]],
    ) -> None:
        super().__init__(rows)
        self.columns = tuple(columns)
        self.categories = categories

    def __getitem__(self, index: int, /) -> Tensor:
        return self.many([index])[0]

    def __getitems__(self, indices: Sequence[int], /) -> list[Tensor]:
        """Many rows at once, which a torch DataLoader asks for when it can."""
        return list(self.many(indices))

    def many(self, indices: Sequence[int]) -> Tensor:
        """Many rows as one tensor."""
        part = self.rows.table.select(self.columns).take([self.row(i) for i in indices])
        return torch.from_numpy(as_numbers(part, self.columns, self.categories))


class ImageBlobs(Rows):
    """Encoded images of one column: bytes, paths, or the Hugging Face struct of both."""

    def __init__(
        self, rows: ArrowRows, column: str, folder: Path, keep: Sequence[int] | None = None
    ) -> None:
        super().__init__(rows, keep)
        self.column = column
        self.folder = folder

    def __getitem__(self, index: int, /) -> bytes:
        value = self.rows.value(self.column, self.row(index))
        if isinstance(value, dict):
            value = value.get("bytes") or value.get("path")
        if isinstance(value, bytes):
            return value
        if not value:
            raise OSError("no image in this row")
        return (self.folder / str(value)).read_bytes()

    def subset(self, keep: Sequence[int]) -> "ImageBlobs":
        """The same images, fewer of them."""
        return ImageBlobs(self.rows, self.column, self.folder, [self.row(i) for i in keep])
