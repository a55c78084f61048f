import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from abstain.support.spreadsheets import as_text, as_written, for_spreadsheets


@given(st.text())
def test_every_cell_is_read_back_as_it_was(cell):
    assert as_written(as_text(cell)) == cell


@given(st.text(min_size=1).map(lambda text: "=" + text))
def test_no_formula_stays_one(cell):
    assert not as_text(cell).startswith("=")


def test_only_texts_of_a_table_are_changed():
    table = pa.table({"id": ["=A1", "b"], "score": [-1.0, 2.0], "note": ["fine", None]})
    safe = for_spreadsheets(table)
    assert safe.column("id").to_pylist() == ["'=A1", "b"]
    assert safe.column("score").equals(table.column("score"))
    assert safe.column("note").equals(table.column("note"))


def test_no_column_is_called_like_a_formula():
    safe = for_spreadsheets(pa.table({"=cmd|' /C calc'!A0": [1], "fine": ["a"], "-2": [3]}))
    assert safe.column_names == ["'=cmd|' /C calc'!A0", "fine", "-2"]
