"""Answers of reviewers: a class, unsure, or drop; read from tables, checked, and merged.

A table of answers has the columns `id` and `checked_label`. It may have `unsure_or_drop`, which
holds one of these two words where no class can be given: a column of its own, as any word may be
the name of a class.
"""

import csv
import io
import os
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from abstain.arguments import typed
from abstain.errors import AbstainError
from abstain.support.optional import require
from abstain.support.spreadsheets import as_written
from abstain.support.wording import did_you_mean, many, some

if TYPE_CHECKING:
    import pyarrow as pa

ID, ANSWER, NO_CLASS = "id", "checked_label", "unsure_or_drop"


class Answer(NamedTuple):
    """The decision on a label: its class, or why there is none.

    >>> Answer.read("=drop"), Answer.read("drop")
    (Answer(kind='label', label='drop'), Answer(kind='drop', label=None))
    """

    kind: Literal["label", "unsure", "drop", "skip"]
    label: str | None = None

    @property
    def text(self) -> str:
        """As the log has it: a class may be called `drop`."""
        return f"={self.label}" if self.kind == "label" else self.kind

    @classmethod
    def read(cls, text: str) -> "Answer":
        """The answer that `text` stands for."""
        if text.startswith("="):
            return cls("label", text[1:])
        assert text in ("unsure", "drop", "skip"), text
        return cls(text)  # type: ignore[arg-type]

    @property
    def is_decision(self) -> bool:
        """Whether it says something of the label."""
        return self.kind in ("label", "drop")


UNSURE, DROP = Answer("unsure"), Answer("drop")
_WORDS = {"unsure": UNSURE, "drop": DROP}


@dataclass(frozen=True, kw_only=True)
class Answers:
    """All answers to an audit so far."""

    by_id: Mapping[str, Answer] = field(default_factory=dict)
    drawn: frozenset[str] = frozenset()
    """Ids whose answers count as given for the random sample."""

    @property
    def labels(self) -> dict[str, str]:
        """The class of each label that was given one, by id."""
        return {id_: x.label for id_, x in self.by_id.items() if x.label is not None}

    def of_kind(self, kind: str) -> list[str]:
        """The ids with answers of a kind."""
        return [id_ for id_, answer in self.by_id.items() if answer.kind == kind]

    def by_row(self, ids: Sequence[str]) -> dict[int, Answer]:
        """The answers by row.

        Args:
            ids: (N,) of all samples.
        """
        by_id = self.by_id
        return {k: by_id[id_] for k, id_ in enumerate(ids) if id_ in by_id} if by_id else {}

    def with_more(self, answers: Mapping[str, Answer], handed_out: Container[str]) -> "Answers":
        """These and others, which take the place of earlier ones.

        Answers count as given for the sample if they are new, and come in a table of nothing but
        handed-out labels: one that holds others too may hold those of the sample for the same
        reason, and what was known before was filled in when the sample was written.

        Args:
            answers: From `checked_answers`.
            handed_out: The ids of the random sample.
        """
        new = {id_ for id_, answer in answers.items() if self.by_id.get(id_) != answer}
        of_sample = all(id_ in handed_out for id_ in answers)
        drawn = self.drawn | new if of_sample else self.drawn
        return Answers(by_id={**self.by_id, **answers}, drawn=frozenset(drawn))


@typed()
def read_answers(path: str | os.PathLike[str]) -> dict[str, Answer]:
    """Read the answers of a CSV or Parquet file, or raise an error if it holds none.

    Args:
        path: A table with the columns `id` and `checked_label`, such as `abstain sample` writes.
    """
    answers = answers_in(Path(path))
    if not answers:
        raise AbstainError(
            f"must hold answers in {ANSWER}, got none in {path}", argument="reviewed"
        )
    return answers


def answers_in(path: Path) -> dict[str, Answer]:
    """Read the answers of a CSV or Parquet file; rows without an answer are left out."""
    try:
        table = _read(path)
    except (OSError, ValueError) as error:  # Arrow's own errors are of these kinds
        raise AbstainError(
            f"must be a CSV or Parquet file, got {path}: {error}",
            argument="reviewed",
            remedy="save it as UTF-8" if "UTF" in str(error) else "",
        ) from error
    names = table.column_names
    if any(names.count(name) != 1 for name in (ID, ANSWER)) or names.count(NO_CLASS) > 1:
        raise AbstainError(
            f"must have one column {ID} and one {ANSWER}, got {path} with {some(names, 10)}",
            argument="reviewed",
        )
    answers: dict[str, Answer] = {}
    ids, labels = (table.column(name).to_pylist() for name in (ID, ANSWER))
    words = table.column(NO_CLASS).to_pylist() if NO_CLASS in names else [None] * len(ids)
    for id_, label, word in zip(map(str, ids), labels, words, strict=True):
        answer = _answer_of(_text(label), _text(word), id_, path)
        if answer is not None and answers.setdefault(id_, answer) != answer:
            raise AbstainError(
                f"must have one {ANSWER} for each id, got {_said(answers[id_])!r} and "
                f"{_said(answer)!r} for {id_!r} in {path}",
                argument="reviewed",
            )
    return answers


def _text(value: object) -> str:
    return "" if value is None else str(value).strip()


def _said(answer: Answer) -> str:
    return answer.kind if answer.label is None else answer.label


def _answer_of(label: str, word: str, id_: str, path: Path) -> Answer | None:
    """The answer of a row; None where both cells are empty."""
    if not word:
        return Answer("label", label) if label else None
    if word.lower() not in _WORDS:
        raise AbstainError(
            f"{NO_CLASS} must be empty, unsure or drop, got {word!r} for {id_!r} in {path}",
            argument="reviewed",
        )
    if label:
        raise AbstainError(
            f"must have a {ANSWER} or {NO_CLASS} for each id, got {label!r} and {word!r} for "
            f"{id_!r} in {path}",
            argument="reviewed",
        )
    return _WORDS[word.lower()]


def checked_answers(
    answers: Mapping[str, str | Answer], ids: Sequence[str], classes: Sequence[str]
) -> dict[str, Answer]:
    """Find the sample and the class that each answer names, or raise what is wrong with them.

    Args:
        answers: By id: a class as people write it, or an `Answer`.
        ids: Of all samples that were audited.
        classes: Their names.
    """
    known, names = set(ids), set(classes)
    named = {}
    for id_, answer in answers.items():
        exact = str(id_)
        forms = (exact, exact.strip(), as_written(exact.strip()))
        if not isinstance(answer, Answer) or answer.kind == "label":
            label = answer.label if isinstance(answer, Answer) else answer
            answer = Answer("label", _class_of(label, names))
        named[next((x for x in forms if x in known), forms[1])] = answer
    if unknown := [id_ for id_ in named if id_ not in known]:
        raise AbstainError(
            f"must name samples that were audited, got {many(len(unknown), 'other id')}: "
            f"{some(unknown, 5)}",
            argument="reviewed",
            remedy="ids are compared as text (7 is not 007)",
        )
    if odd := sorted({x.label for x in named.values() if x.label is not None} - names):
        raise AbstainError(
            f"{ANSWER} must be one of the classes {some(classes, 10)}, got {some(odd, 5)}"
            f"{did_you_mean(odd[0], classes)}",
            remedy=f"unsure and drop go into the column {NO_CLASS}"
            if {x.lower() for x in odd} & _WORDS.keys()
            else "",
        )
    return named


def _class_of(label: object, classes: Container[str]) -> str:
    """The name of a class; 2.0 is class 2, as programs write whole numbers in columns with gaps."""
    name = str(label).strip()
    forms = (str(label), name, name.removesuffix(".0"), as_written(name))
    return next((form for form in forms if form in classes), name)


def _read(place: Path) -> "pa.Table":
    if place.suffix.lower() == ".parquet":
        return require("pyarrow.parquet", "reading reviewed labels").read_table(place)
    pa = require("pyarrow", "reading reviewed labels")
    tables = require("pyarrow.csv", "reading reviewed labels")
    # As text: an id of 007 is not the number 7, and a class may be called NA.
    texts = {name: pa.string() for name in (ID, ANSWER, NO_CLASS)}
    options = tables.ConvertOptions(column_types=texts, strings_can_be_null=False)
    with place.open(encoding="utf-8-sig", errors="replace") as stream:
        head = stream.readline()
    # Spreadsheets separate by what their country does.
    delimiter = max(",;\t", key=head.count)
    if line := _unclosed(place, delimiter):
        raise ValueError(f"the quotation mark in line {line} is never closed")
    parse = tables.ParseOptions(newlines_in_values=True, delimiter=delimiter)
    return tables.read_csv(place, convert_options=options, parse_options=parse)


def _unclosed(place: Path, delimiter: str) -> int | None:
    """The line that begins with a row whose quotation mark is never closed; None without one."""
    text = place.read_text(encoding="utf-8-sig", errors="replace")
    if text.count('"') % 2 == 0:
        return None
    rows, line = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), 1
    try:
        for _ in rows:
            line = rows.line_num + 1
    except csv.Error as error:
        return line if "unexpected end" in str(error) else None
    return None
