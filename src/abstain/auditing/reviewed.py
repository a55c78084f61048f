"""Labels that somebody checked: read from a table, and kept in the folder of an audit.

reviewed.parquet   id and checked_label of every label that was reviewed, however it was chosen
sample.parquet     labels to check at random, in the order to check them, with their strata
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from abstain.arguments import typed
from abstain.data import LabeledData
from abstain.data.cache import publish
from abstain.data.require import require
from abstain.data.wording import many, some
from abstain.errors import AbstainError
from abstain.scores.sampling import Sample, draw

if TYPE_CHECKING:
    import pyarrow as pa

ID, ANSWER = "id", "checked_label"
LARGEST_SAMPLE = 10_000
"""Labels that a sample holds at most: nobody checks more."""
_REVIEWED, _SAMPLE = "reviewed.parquet", "sample.parquet"


@typed()
def read_answers(path: str | os.PathLike[str]) -> dict[str, str]:
    """Checked labels by id, from a CSV or Parquet file; rows without an answer are left out.

    Args:
        path: A table with the columns `id` and `checked_label`, such as `abstain sample` writes.
    """
    place = Path(path)
    try:
        table = _read(place)
    except (OSError, ValueError) as error:  # Arrow's own errors are of these kinds
        raise AbstainError(
            f"reviewed must be a CSV or Parquet file, got {path}: {error}"
        ) from error
    missing = [name for name in (ID, ANSWER) if name not in table.column_names]
    if missing:
        raise AbstainError(
            f"reviewed must have the columns {ID} and {ANSWER}, got {path} with "
            f"{some(table.column_names, 10)}"
        )
    answers: dict[str, str] = {}
    pairs = zip(*(table.column(name).to_pylist() for name in (ID, ANSWER)), strict=True)
    for id_, answer in pairs:
        text = "" if answer is None else str(answer).strip()
        if not text:
            continue
        if answers.setdefault(str(id_), text) != text:
            raise AbstainError(
                f"reviewed must have one {ANSWER} for each id, got {answers[str(id_)]!r} and "
                f"{text!r} for {id_!r} in {path}"
            )
    return answers


def rows_of(answers: Mapping[str, str], data: LabeledData) -> dict[int, int]:
    """Answers by row and class number, or what is wrong with them.

    Args:
        answers: Names of classes by id.
        data: What was audited.
    """
    number = {name: k for k, name in enumerate(data.classes)}
    wanted = set(map(str, answers))
    row = {id_: k for k, id_ in enumerate(data.ids) if id_ in wanted}
    if unknown := [id_ for id_ in map(str, answers) if id_ not in row]:
        raise AbstainError(
            f"reviewed must name samples that were audited, got {many(len(unknown), 'other id')}: "
            f"{some(unknown, 5)}"
        )
    if odd := sorted({str(x) for x in answers.values()} - number.keys()):
        raise AbstainError(
            f"{ANSWER} must be one of the classes {some(data.classes, 10)}, got {some(odd, 5)}"
        )
    return {row[str(id_)]: number[str(label)] for id_, label in answers.items()}


def kept_answers(folder: Path) -> dict[str, str]:
    """What was reviewed of an audit so far."""
    return read_answers(folder / _REVIEWED) if (folder / _REVIEWED).exists() else {}


def keep_answers(folder: Path, answers: Mapping[str, str]) -> None:
    """Keep what was reviewed of an audit, in place of what was kept before."""
    pa = require("pyarrow", "keeping reviewed labels")
    table = pa.table({ID: list(answers), ANSWER: list(answers.values())})
    _publish(folder / _REVIEWED, table)


def sample_of(folder: Path, ids: "pa.Array", wrong_probability: Any) -> Sample:  # noqa: ANN401
    """The random sample of an audit, drawn when it is first asked for.

    It is the same ever after, so that a larger size goes on where a smaller one ended.

    Args:
        folder: Of the audit.
        ids: (N,) of all samples, in the order of the source.
        wrong_probability: (N,) P(wrong).
    """
    if (folder / _SAMPLE).exists():
        return kept_sample(folder, ids)  # type: ignore[return-value]
    pa = require("pyarrow", "drawing a sample")
    size = min(LARGEST_SAMPLE, len(ids))
    sample = draw(wrong_probability, size, np.random.default_rng(0))
    sizes = {f"size{k}": str(n) for k, n in enumerate(sample.sizes.tolist())}
    table = pa.table({ID: ids.take(pa.array(sample.rows)), "stratum": sample.stratum})
    _publish(folder / _SAMPLE, table.replace_schema_metadata(sizes))
    return sample


def kept_sample(folder: Path, ids: Any) -> Sample | None:  # noqa: ANN401
    """The random sample that was drawn of an audit, if one was."""
    if not (folder / _SAMPLE).exists():
        return None
    parquet = require("pyarrow.parquet", "reading a sample")
    table = parquet.read_table(folder / _SAMPLE)
    drawn = table.column(ID).to_pylist()
    wanted = set(drawn)
    listed = ids.to_pylist() if hasattr(ids, "to_pylist") else ids
    row = {id_: k for k, id_ in enumerate(listed) if id_ in wanted}
    sizes = {
        k.decode(): int(v) for k, v in (table.schema.metadata or {}).items() if k[:4] == b"size"
    }
    return Sample(
        rows=np.array([row[id_] for id_ in drawn], dtype=np.int64),
        stratum=table.column("stratum").to_numpy(),
        sizes=np.array([sizes[f"size{k}"] for k in range(len(sizes))], dtype=np.int64),
    )


def _read(place: Path) -> "pa.Table":
    if place.suffix.lower() == ".parquet":
        return require("pyarrow.parquet", "reading reviewed labels").read_table(place)
    pa = require("pyarrow", "reading reviewed labels")
    csv = require("pyarrow.csv", "reading reviewed labels")
    # As text: an id of 007 is not the number 7, and a class may be called NA.
    options = csv.ConvertOptions(
        column_types={ID: pa.string(), ANSWER: pa.string()}, strings_can_be_null=False
    )
    parse = csv.ParseOptions(newlines_in_values=True)
    return csv.read_csv(place, convert_options=options, parse_options=parse)


def _publish(path: Path, table: "pa.Table") -> None:
    parquet = require("pyarrow.parquet", "keeping reviewed labels")
    try:
        publish(path, lambda temporary: parquet.write_table(table, temporary))
    except OSError as error:
        raise AbstainError(f"{path.parent} must be a folder to write to, got: {error}") from error
