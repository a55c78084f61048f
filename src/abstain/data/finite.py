"""Features must be numbers: no infinity, and NaN only where a value may be missing."""

from collections.abc import Sequence

from torch import Tensor

from abstain.errors import DataError
from abstain.support.wording import many, some


def check_finite(
    features: Tensor,
    columns: Sequence[str] = (),
    *,
    where: object,
    first_row: int = 0,
    may_lack: bool = False,
) -> None:
    """Raise with the first column that holds infinity (or NaN, unless values may be missing)."""
    if not features.is_floating_point() or bool(features.isfinite().all()):
        return
    wrong = ~features.reshape(len(features), -1).isfinite()
    if may_lack:
        wrong &= ~features.isnan()
        if not wrong.any():
            return
    column = int(wrong.any(dim=0).nonzero()[0])
    rows = (wrong[:, column].nonzero().flatten() + first_row).tolist()
    named = repr(columns[column]) if columns else str(column)
    others = int(wrong.any(dim=0).sum()) - 1
    more = f" ({many(others, 'other column')} too)" if others else ""
    what = "infinity, or more than 3.4e38," if may_lack else "NaN or infinity"
    raise DataError(
        f"features of {where} must be finite, got {what} in column {named}, "
        f"{'row' if len(rows) == 1 else 'rows'} {some(rows)}{more}; fill these values in, or leave "
        "out the rows or the column"
    )
