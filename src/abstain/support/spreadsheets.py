"""Cells that a spreadsheet would take for a formula, marked as text."""

import re
from typing import Any

from abstain.support.optional import require

_FORMULA = re.compile(r"[=+\-@\t\r].", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
MARK = "'"


def as_text(cell: str) -> str:
    """A cell as spreadsheets should read it: what would be a formula begins with an apostrophe.

    >>> as_text("=1+1"), as_text("@SUM(A1)"), as_text("-3.5"), as_text("+"), as_text("cat")
    ("'=1+1", "'@SUM(A1)", '-3.5', '+', 'cat')
    """
    is_formula = _FORMULA.match(cell) and not _NUMBER.fullmatch(cell)
    return MARK + cell if is_formula else cell


def as_written(cell: str) -> str:
    """Undo `as_text`.

    >>> as_written("'=1+1"), as_written("'tis")
    ('=1+1', "'tis")
    """
    return cell[1:] if cell.startswith(MARK) and as_text(cell[1:]) == cell else cell


def for_spreadsheets(table: Any) -> Any:  # noqa: ANN401
    """An Arrow table whose texts and names of columns no spreadsheet takes for formulas."""
    pa = require("pyarrow", "a table")
    for k, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            texts = table.column(k).to_pylist()
            safe = [None if text is None else as_text(text) for text in texts]
            if safe != texts:
                table = table.set_column(k, field, [pa.array(safe, field.type)])
    return table.rename_columns([as_text(name) for name in table.column_names])
