"""CSV, Parquet and JSONL files to Arrow tables: in memory, or mapped from disk when too large."""

import codecs
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from abstain.data.identity import files_digest
from abstain.data.readers.rows import ArrowRows
from abstain.data.readers.splits import TABLE_SUFFIXES
from abstain.data.reading import ReadOptions
from abstain.errors import DataError
from abstain.support.files import publish
from abstain.support.optional import require
from abstain.support.wording import some

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK = 1 << 24
"""Bytes that Arrow reads at once: a row must fit in, and a text may be a whole book."""


def read_rows(files: Sequence[Path], options: ReadOptions) -> ArrowRows:
    """All rows of the files, as one table.

    Files above the memory budget are streamed once into an Arrow file in the cache, which is then
    memory-mapped: any row can be had at once, and workers share its pages.
    """
    require("pyarrow", "a table")
    for path in files:
        if path.stat().st_size == 0:
            raise DataError(f"{path} must hold rows, got an empty file; write it again")
    # New categories may all look like numbers (007), which those of the training did not.
    known = (*(options.categories or ()), *(options.texts or ()))
    kept_as_text = [options.label or "label", "id", *known]
    if sum(_table_bytes(path) for path in files) <= options.memory_budget:
        tables = [_checked(path, kept_as_text) for path in files]
        return ArrowRows(tables[0] if len(tables) == 1 else _together(files, tables))
    path = options.cache / f"rows-{files_digest(files, kept_as_text)}.arrow"
    if not path.exists():
        publish(path, lambda temporary: _stream(files, kept_as_text, temporary))
    return ArrowRows(path=path)


def _table_bytes(path: Path) -> int:
    """Estimate the memory of a table, from the metadata of the file where it has any."""
    if path.suffix.lower() != ".parquet":
        return path.stat().st_size
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error
    return sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))


def _checked(path: Path, kept_as_text: Sequence[str]) -> "pa.Table":
    import pyarrow as pa

    try:
        table = _read(path, kept_as_text)
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        raise _unreadable(path, error) from error
    _check_columns(table.column_names, path)
    _check_utf8(table, path)
    return table


def _read(path: Path, kept_as_text: Sequence[str]) -> "pa.Table":
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        import pyarrow.parquet as pq

        return pq.read_table(path)
    if suffix in (".csv", ".tsv"):
        import pyarrow.csv as csv

        return csv.read_csv(path, **_csv_options(path, kept_as_text))
    import pyarrow.json as json

    return json.read_json(path, json.ReadOptions(block_size=_BLOCK))


def _stream(files: Sequence[Path], kept_as_text: Sequence[str], target: Path) -> None:
    """Write the batches of all files to one Arrow file; one batch at a time is in memory."""
    import pyarrow as pa

    writer = None
    try:
        for path in files:
            for batch in _batches(path, kept_as_text):
                if writer is None:
                    _check_columns(batch.schema.names, path)
                    writer = pa.ipc.new_file(str(target), batch.schema)
                _check_utf8(batch, path)
                writer.write_batch(batch)
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        raise _unreadable(path, error) from error
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        raise DataError(
            f"{files[0]} must hold rows, got none; check that the file is the right one"
        )


def _batches(path: Path, kept_as_text: Sequence[str]) -> "Iterator[pa.RecordBatch]":
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        import pyarrow.parquet as pq

        yield from pq.ParquetFile(path).iter_batches(batch_size=1024)
    elif suffix in (".csv", ".tsv"):
        import pyarrow.csv as csv

        yield from csv.open_csv(path, **_csv_options(path, kept_as_text))
    else:
        import pyarrow.json as json

        yield from json.open_json(path, json.ReadOptions(block_size=_BLOCK))


def _csv_options(path: Path, kept_as_text: Sequence[str]) -> dict[str, object]:
    import pyarrow as pa
    import pyarrow.csv as csv

    delimiter, point = _punctuation(path)
    return {
        # Texts hold line ends; labels such as 007 and ids must not become numbers.
        "read_options": csv.ReadOptions(block_size=_BLOCK),
        "parse_options": csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        "convert_options": csv.ConvertOptions(
            column_types={name: pa.string() for name in kept_as_text}, decimal_point=point
        ),
    }


def _punctuation(path: Path) -> tuple[str, str]:
    """Find what separates the columns of a CSV, and the decimals of its numbers.

    Where a comma is the decimal point, spreadsheets write semicolons between columns, or tabs.
    """
    with path.open("rb") as stream:
        head, rest = stream.readline(), stream.read(1 << 16)
    between = b";" if b";" in head else b"\t"
    if path.suffix.lower() == ".tsv":
        between = b"\t"
    elif between not in head or b"," in head:
        return ",", "."
    has_commas = re.search(rb"%b-?\d+,\d+(%b|\r|\n)" % (between, between), rest) is not None
    return between.decode(), "," if has_commas else "."


def _check_columns(names: Sequence[str], path: Path) -> None:
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise DataError(f"columns of {path} must have different names, got {some(twice)} twice")


def _check_utf8(table: "pa.Table | pa.RecordBatch", path: Path) -> None:
    """Arrow does not check texts of JSONL and Parquet, and reads odd columns of a CSV as binary."""
    import pyarrow as pa
    import pyarrow.types as types

    for name in table.schema.names:
        column = table.column(name)
        if types.is_binary(column.type) and path.suffix.lower() != ".parquet":
            raise _unreadable(path, ValueError(f"column {name!r} is not text"))
        if not types.is_string(column.type) and not types.is_large_string(column.type):
            continue
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            if path.suffix.lower() != ".parquet":
                raise _unreadable(path, error) from error
            raise DataError(
                f"text column {name!r} of {path} must be UTF-8, got other bytes; convert it"
            ) from error


def _together(files: Sequence[Path], tables: "Sequence[pa.Table]") -> "pa.Table":
    """The rows of all parts; a column may be whole numbers, or empty, in some of them only."""
    import pyarrow as pa

    rule = f"the parts of {files[0].parent} must have the same columns"
    for path, table in zip(files, tables, strict=True):
        names, first = table.column_names, tables[0].column_names
        if odd := [*(set(first) - set(names)), *(set(names) - set(first))]:
            raise DataError(
                f"{rule}, got {some(sorted(odd))} in one of {files[0].name} and {path.name} only"
            )
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(f"{rule}, got: {' '.join(str(error).split())}") from error


def _unreadable(path: Path, error: Exception) -> DataError:
    """Name the fault of a file: a line that is not UTF-8, or the error of the reader."""
    has_bytes = not isinstance(error, OSError)
    if has_bytes and path.suffix.lower() in TABLE_SUFFIXES and path.suffix.lower() != ".parquet":
        with path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError as bad:
                    wide = line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
                    return DataError(
                        f"{path} must be UTF-8, got byte 0x{line[bad.start]:02x} in line {number}; "
                        "convert it, for example with: "
                        f"iconv -f {'UTF-16' if wide else 'LATIN1'} -t UTF-8"
                    )
    reason = " ".join(str(error).split())
    return DataError(f"{path} must be a readable {path.suffix[1:]} file, got: {reason}")
