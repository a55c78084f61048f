"""Labels that somebody checked: read from a table, and kept in the folder of an audit.

reviewed.parquet   id and checked_label of every label that was reviewed; `drawn`, whether it was
                   answered in a table that held nothing but labels drawn at random
sample.parquet     labels to check at random, in the order to check them, with their strata; its
                   metadata hold how many were handed out
"""

import os
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from abstain.arguments import typed
from abstain.data import LabeledData
from abstain.errors import AbstainError
from abstain.scores.sampling import Sample, draw
from abstain.support.files import publish
from abstain.support.optional import require
from abstain.support.spreadsheets import as_written
from abstain.support.wording import many, some

if TYPE_CHECKING:
    import pyarrow as pa

ID, ANSWER = "id", "checked_label"
LARGEST_SAMPLE = 10_000
"""Labels that a sample holds at most: nobody checks more."""
OWN_FILES = _REVIEWED, _SAMPLE = "reviewed.parquet", "sample.parquet"
_DRAWN, _HANDED_OUT = "drawn", "handed_out"


@typed()
def read_answers(path: str | os.PathLike[str]) -> dict[str, str]:
    """Checked labels by id, from a CSV or Parquet file, or an error if it holds none.

    Args:
        path: A table with the columns `id` and `checked_label`, such as `abstain sample` writes.
    """
    answers = answers_in(Path(path))
    if not answers:
        raise AbstainError(
            f"must hold answers in {ANSWER}, got none in {path}", argument="reviewed"
        )
    return answers


def answers_in(path: Path) -> dict[str, str]:
    """Checked labels by id, from a CSV or Parquet file; rows without an answer are left out."""
    try:
        table = _read(path)
    except (OSError, ValueError) as error:  # Arrow's own errors are of these kinds
        raise AbstainError(
            f"must be a CSV or Parquet file, got {path}: {error}",
            argument="reviewed",
            remedy="save it as UTF-8" if "UTF" in str(error) else "",
        ) from error
    if any(table.column_names.count(name) != 1 for name in (ID, ANSWER)):
        raise AbstainError(
            f"must have one column {ID} and one {ANSWER}, got {path} with "
            f"{some(table.column_names, 10)}",
            argument="reviewed",
        )
    answers: dict[str, str] = {}
    pairs = zip(*(table.column(name).to_pylist() for name in (ID, ANSWER)), strict=True)
    for id_, answer in pairs:
        name, text = str(id_), "" if answer is None else str(answer).strip()
        if not text:
            continue
        if answers.setdefault(name, text) != text:
            raise AbstainError(
                f"must have one {ANSWER} for each id, got {answers[name]!r} and "
                f"{text!r} for {name!r} in {path}",
                argument="reviewed",
            )
    return answers


def checked_answers(answers: Mapping[str, str], data: LabeledData) -> dict[str, str]:
    """Answers by ids and names of classes that the data have, or what is wrong with them.

    Args:
        answers: Names of classes by id, as people write them.
        data: What was audited.
    """
    known, classes = set(data.ids), set(data.classes)
    named = {}
    for id_, label in answers.items():
        exact = str(id_)
        forms = (exact, exact.strip(), as_written(exact.strip()))
        named[next((x for x in forms if x in known), forms[1])] = _class_of(label, classes)
    if unknown := [id_ for id_ in named if id_ not in known]:
        raise AbstainError(
            f"must name samples that were audited, got {many(len(unknown), 'other id')}: "
            f"{some(unknown, 5)}",
            argument="reviewed",
            remedy="ids are compared as text (7 is not 007)",
        )
    if odd := sorted(set(named.values()) - classes):
        raise AbstainError(
            f"{ANSWER} must be one of the classes {some(data.classes, 10)}, got {some(odd, 5)}"
        )
    return named


def rows_of(answers: Mapping[str, str], data: LabeledData) -> dict[int, int]:
    """Answers by row and class number.

    Args:
        answers: What `checked_answers` gave.
        data: What was audited.
    """
    number = {name: k for k, name in enumerate(data.classes)}
    row = {id_: k for k, id_ in enumerate(data.ids) if id_ in answers} if answers else {}
    return {row[id_]: number[label] for id_, label in answers.items()}


def _class_of(label: object, classes: Container[str]) -> str:
    """The name of a class; 2.0 is class 2, as programs write whole numbers in columns with gaps."""
    name = str(label).strip()
    forms = (name, name.removesuffix(".0"), as_written(name))
    return next((form for form in forms if form in classes), name)


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What was reviewed of an audit so far."""

    answers: Mapping[str, str] = field(default_factory=dict)
    """Checked labels by id."""
    drawn: frozenset[str] = frozenset()
    """Those of them that count as checked at random."""

    def with_more(self, answers: Mapping[str, str], handed_out: Container[str]) -> "Kept":
        """These and others, which take the place of earlier ones.

        Answers count as checked for the sample if they are new, and come in a table of nothing but
        handed-out labels: one that holds others too may hold those of the sample for the same
        reason, and what was known before was filled in when the sample was written.

        Args:
            answers: What `checked_answers` gave.
            handed_out: The ids of the random sample.
        """
        new = {id_ for id_, label in answers.items() if self.answers.get(id_) != label}
        of_sample = all(id_ in handed_out for id_ in answers)
        drawn = self.drawn | new if of_sample else self.drawn
        return Kept(answers={**self.answers, **answers}, drawn=frozenset(drawn))


def kept_answers(folder: Path) -> Kept:
    """What was reviewed of an audit so far."""
    path = folder / _REVIEWED
    if not path.exists():
        return Kept()
    table = _own_table(path, (ID, ANSWER, _DRAWN))
    ids = table.column(ID).to_pylist()
    answers = dict(zip(ids, table.column(ANSWER).to_pylist(), strict=True))
    drawn = table.column(_DRAWN).to_pylist()
    return Kept(
        answers=answers, drawn=frozenset(id_ for id_, x in zip(ids, drawn, strict=True) if x)
    )


def keep_answers(folder: Path, kept: Kept) -> None:
    """Keep what was reviewed of an audit, in place of what was kept before."""
    pa = require("pyarrow", "keeping reviewed labels")
    ids = list(kept.answers)
    table = pa.table(
        {ID: ids, ANSWER: list(kept.answers.values()), _DRAWN: [x in kept.drawn for x in ids]}
    )
    _publish(folder / _REVIEWED, table)


def hand_out(folder: Path, ids: "pa.Array", wrong_probability: Any, size: int) -> Sample:  # noqa: ANN401
    """The first labels of the random sample of an audit, which is drawn once.

    So a larger size goes on where a smaller one ended.

    Args:
        folder: Of the audit.
        ids: (N,) of all samples, in the order of the source.
        wrong_probability: (N,) P(wrong).
        size: How many labels.
    """
    sample, before = _whole_sample(folder, ids)
    if sample is None:
        most = min(LARGEST_SAMPLE, len(ids))
        sample = draw(wrong_probability, most, np.random.default_rng(0))
    if size > len(sample.rows):
        raise AbstainError(
            f"must be at most {len(sample.rows)}, all that was drawn, got {size}", argument="size"
        )
    keep_sample(folder, sample, ids, max(size, before))
    return _first(sample, size)


def keep_sample(folder: Path, sample: Sample, ids: "pa.Array", handed_out: int) -> None:
    """Keep a sample in the folder of an audit, and how many of it were handed out."""
    pa = require("pyarrow", "keeping a sample")
    about = {f"size{k}": str(n) for k, n in enumerate(sample.sizes.tolist())}
    about[_HANDED_OUT] = str(handed_out)
    table = pa.table({ID: ids.take(pa.array(sample.rows)), "stratum": sample.stratum})
    _publish(folder / _SAMPLE, table.replace_schema_metadata(about))


def kept_sample(folder: Path, ids: Any) -> Sample | None:  # noqa: ANN401
    """The labels of an audit that were handed out to be checked at random, if any were."""
    sample, handed_out = _whole_sample(folder, ids)
    return None if sample is None else _first(sample, handed_out)


def _first(sample: Sample, size: int) -> Sample:
    return Sample(rows=sample.rows[:size], stratum=sample.stratum[:size], sizes=sample.sizes)


def _whole_sample(folder: Path, ids: Any) -> tuple[Sample | None, int]:  # noqa: ANN401
    """All that was drawn, in its order, and how many of it were handed out."""
    path = folder / _SAMPLE
    if not path.exists():
        return None, 0
    table = _own_table(path, (ID, "stratum"))
    drawn = table.column(ID).to_pylist()
    wanted = set(drawn)
    listed = ids.to_pylist() if hasattr(ids, "to_pylist") else ids
    row = {id_: k for k, id_ in enumerate(listed) if id_ in wanted}
    about = {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}
    try:
        strata = sum(name.startswith("size") for name in about)
        sample = Sample(
            rows=np.array([row[id_] for id_ in drawn], dtype=np.int64),
            stratum=table.column("stratum").to_numpy(),
            sizes=np.array([about[f"size{k}"] for k in range(strata)], dtype=np.int64),
        )
        return sample, int(about[_HANDED_OUT])
    except (KeyError, ValueError) as error:
        raise _damaged(path, f"no entry {error}") from error


def _own_table(path: Path, columns: tuple[str, ...]) -> "pa.Table":
    parquet = require("pyarrow.parquet", "reading an audit")
    try:
        return parquet.read_table(path, columns=list(columns))
    except (OSError, ValueError, KeyError) as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, why: str) -> AbstainError:
    return AbstainError(
        f"{path} must be as abstain wrote it, got a damaged file ({why}): put it back from a copy, "
        "or remove it and review anew"
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
    with place.open(encoding="utf-8-sig", errors="replace") as stream:
        head = stream.readline()
    # Spreadsheets separate by what their country does.
    delimiter = max(",;\t", key=head.count)
    parse = csv.ParseOptions(newlines_in_values=True, delimiter=delimiter)
    return csv.read_csv(place, convert_options=options, parse_options=parse)


def _publish(path: Path, table: "pa.Table") -> None:
    parquet = require("pyarrow.parquet", "keeping reviewed labels")
    try:
        publish(path, lambda temporary: parquet.write_table(table, temporary))
    except OSError as error:
        raise AbstainError(f"{path.parent} must be a folder to write to, got: {error}") from error
