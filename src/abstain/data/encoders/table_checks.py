"""Checks that the columns of a new table hold what they held in training: numbers, or dates."""

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import NoReturn

import torch

from abstain.data.contract import LabeledData
from abstain.data.inputs import blocks
from abstain.errors import DataError
from abstain.support.wording import some

_DAY = re.compile(r"\d{4}-\d\d-\d\d")  # Python reads more of ISO 8601 than Arrow does


def check_no_texts(
    data: LabeledData,
    columns: Sequence[str],
    categories: Mapping[str, Sequence[str]],
    dates: Sequence[str],
) -> None:
    """Raise where a column of numbers or dates now holds texts; one text is enough.

    Args:
        data: the new table.
        columns: those of the training; () where it had arrays.
        categories: of those columns that held texts.
        dates: those of the columns that held dates.
    """
    if data.kind == "text" and data.columns == columns:  # a table of one column
        _check_texts(data, columns[0], [str(data.inputs[k]) for k in range(len(data))], dates)
    # Of arrays no names are known, but that they held no texts.
    used = columns or tuple(data.categories)
    for name in data.categories:
        if name in used and name not in categories:
            _check_texts(data, name, _category_of_each(data, name), dates)


def check_dates(data: LabeledData, columns: Sequence[str], dates: Sequence[str]) -> None:
    """Raise for numbers in a column of dates, or dates in one of numbers: both pass for numbers.

    A column without a value is neither.
    """
    for name in data.columns:
        is_used = name in (columns or data.columns) and name not in data.categories
        if is_used and (name in dates) != (name in data.dates):
            values = _values(data, name)
            if rows := [k for k, value in enumerate(values) if not math.isnan(value)]:
                read = [data.read(name, values[k]) for k in rows]
                shown = [f"{x:.7g}" if isinstance(x, float) else str(x) for x in read]
                _refuse(data, name, dates, shown, rows)


def is_number(text: str) -> bool:
    """Whether a text by itself is a number.

    >>> is_number("1e3"), is_number("soon")
    (True, False)
    """
    with suppress(ValueError):
        float(text)
        return True
    return False


def is_date(text: str) -> bool:
    """Whether a text by itself is a date, with or without a time, that exists.

    >>> [is_date(text) for text in ("2023-02-28", "2023-02-30", "20230228", "28/02/2023")]
    [True, False, False, False]
    """
    with suppress(ValueError):
        return _DAY.match(text) is not None and datetime.fromisoformat(text) is not None
    return False


def _check_texts(
    data: LabeledData, column: str, texts: Sequence[str], dates: Sequence[str]
) -> None:
    """Raise with the texts that do not fit, and with their rows."""
    filled = [k for k, text in enumerate(texts) if text.strip()]
    if not filled:
        return  # all are missing, as in a column without texts
    fits = is_date if column in dates else is_number
    wrong = [k for k in filled if not fits(texts[k].strip())]
    rows = wrong or filled
    _refuse(data, column, dates, [texts[k] for k in rows], rows)


def _refuse(
    data: LabeledData,
    column: str,
    dates: Sequence[str],
    values: Sequence[str],
    rows: Sequence[int],
) -> NoReturn:
    rule = "dates (ISO 8601, 2024-02-29) of one form" if column in dates else "numbers"
    raise DataError(
        f"column {column!r} of {data.name} must hold {rule}, as in the training data, got "
        f"{some(list(dict.fromkeys(values)))} in {'row' if len(rows) == 1 else 'rows'} "
        f"{some(rows)}; correct such values, or leave out their rows"
    )


def _category_of_each(data: LabeledData, column: str) -> list[str]:
    """The text that each row has in a column of categories, empty where it has none."""
    known = data.categories[column]
    return ["" if math.isnan(x) else known[int(x)] for x in _values(data, column)]


def _values(data: LabeledData, column: str) -> list[float]:
    at = data.columns.index(column)
    values: list[float] = torch.cat([rows[:, at] for rows in blocks(data.inputs)]).tolist()
    return values
