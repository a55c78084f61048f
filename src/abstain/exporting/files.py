"""Files that are exported, and those of the source: what was audited is never written over."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from abstain.auditing.folder import OWN_FILES, AuditFolder
from abstain.data import BUILTIN
from abstain.data.readers.splits import TABLE_SUFFIXES, canonical, split_folders, table_files
from abstain.errors import AbstainError
from abstain.support.files import publish
from abstain.support.optional import require
from abstain.support.spreadsheets import for_spreadsheets

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, kw_only=True)
class Exported:
    """The file that was written, and the changes in it."""

    path: Path
    rows: int
    dropped: int = 0
    relabelled: int = 0
    unsure: int = 0
    """Flagged labels that were not replaced: the confidence in what is proposed was too low."""
    reading: Mapping[str, Any] = field(default_factory=dict)
    """The options of `abstain.train` with which it is read."""


class Form(NamedTuple):
    """The form of what was audited: a folder of images, files of a table, or neither."""

    folder: Path | None = None
    files: tuple[Path, ...] = ()

    @classmethod
    def of(cls, sources: Mapping[str, Any]) -> "Form":
        """Find out by the names in the sources of an audit."""
        source = str(sources["train"])
        path = Path(source).expanduser()
        if source in BUILTIN or source.startswith("hf:"):  # also beside a folder of that name
            return cls()
        if path.is_dir():
            tables = table_files(path)
            if not tables or split_folders(path):
                return cls(folder=path)
            return cls(files=tuple(tables[canonical(sources["options"].get("split", "train"))]))
        return cls(files=(path,) if path.suffix.lower() in TABLE_SUFFIXES else ())


def check_own_files(audit: AuditFolder, target: Path) -> None:
    """Refuse to write over the data that were audited, or over files of the audit."""
    sources = audit.summary["sources"]
    own = [Path(str(sources["train"])), *Form.of(sources).files, *audit.folder.iterdir()]
    is_to_be = target.name in OWN_FILES and target.absolute().parent == audit.folder.absolute()
    if is_to_be or (
        target.exists() and any(path.exists() and target.samefile(path) for path in own)
    ):
        raise AbstainError(
            f"must be no file of the source or of the audit, got {target}", argument="out"
        )


def write_table(table: "pa.Table", target: Path, *, for_people: bool = False) -> None:
    """Write a table by the ending of its name, whole or not at all.

    Args:
        table: The table.
        target: The file, a .csv or .parquet.
        for_people: In a .csv, mark what a spreadsheet would take for a formula as text.
    """
    pa = require("pyarrow", "writing a table")
    csv = require("pyarrow.csv", "writing a table")
    parquet = require("pyarrow.parquet", "writing a table")
    suffix = target.suffix.lower()
    if suffix == ".parquet":
        write_file(target, lambda path: parquet.write_table(table, path))
    elif suffix == ".csv":
        table = for_spreadsheets(table) if for_people else table
        types = pa.types
        for one in table.schema:
            if types.is_nested(one.type) or types.is_binary(one.type):
                raise AbstainError(
                    f"must end in .parquet, as CSV cannot hold {one.name!r}", argument="out"
                )
        write_file(target, lambda path: csv.write_csv(table, path))
    else:
        raise AbstainError(f"must end in .csv or .parquet, got {target}", argument="out")


def write_file(target: Path, write: Callable[[Path], Any]) -> None:
    """Write a file whole or not at all, or raise what is wrong with its place."""
    if not target.absolute().parent.is_dir():
        raise AbstainError(f"must lie in a folder that exists, got {target}", argument="out")
    try:
        publish(target, write)
    except OSError as error:
        raise AbstainError(
            f"must be a file that can be written, got {target}: {error}", argument="out"
        ) from error
