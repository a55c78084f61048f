"""pandas DataFrames."""

from pathlib import Path

from abstain.data.contract import LabeledData
from abstain.data.readers.rows import ArrowRows
from abstain.data.readers.tabular import read_arrow
from abstain.data.reading import Options
from abstain.errors import DataError
from abstain.support.optional import require
from abstain.support.wording import some


def read_frame(source: object, options: Options) -> LabeledData:
    """A DataFrame; ids are its `id` column, else its index, else row numbers."""
    pd = require("pandas", "a DataFrame")
    pa = require("pyarrow", "a DataFrame")
    if not isinstance(source, pd.DataFrame):
        raise DataError(
            f"source must be a DataFrame, got a {type(source).__name__}; give (X, y) instead"
        )
    frame = source.rename(columns=str)
    twice = frame.columns[frame.columns.duplicated()].tolist()
    if twice:
        raise DataError(f"columns of the DataFrame must have different names, got {twice} twice")
    # As get_dummies(sparse=True) makes them; Arrow takes none.
    sparse = {x: t.subtype for x, t in frame.dtypes.items() if isinstance(t, pd.SparseDtype)}
    frame = frame.astype(sparse)
    counted = isinstance(frame.index, pd.RangeIndex) and frame.index.start == 0
    ids = None if counted or "id" in frame.columns else [str(value) for value in frame.index]
    again = frame.index[frame.index.duplicated()]
    if ids is not None and len(again):
        raise DataError(
            f"the index of the DataFrame must name every row once, got {some(list(again))} again; "
            "number the rows with reset_index(drop=True), or give a column id"
        )
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except pa.ArrowException as error:
        reason = " ".join(map(str, error.args))
        raise DataError(f"columns of the DataFrame must be of one type each, got: {reason}") from (
            error
        )
    return read_arrow(
        ArrowRows(table.replace_schema_metadata(None)),
        options,
        name="frame",
        where="the DataFrame",
        folder=Path(),
        ids=ids,
    )
