"""The evidence on every label, kept in the folder of an audit: what a verdict is judged from.

With it, labels that were reviewed give a new verdict without the training, and in no time.
"""

from pathlib import Path
from shlex import quote

import numpy as np
import numpy.typing as npt

from abstain.errors import AbstainError
from abstain.scores.evidence import Evidence
from abstain.support.files import publish
from abstain.support.optional import require

_FILE = "evidence.parquet"
_COLUMNS = ("log_odds", "rival", "rival_share", "abstention")


def keep_evidence(folder: Path, evidence: Evidence, given: npt.NDArray[np.int64]) -> None:
    """Keep the evidence on each label, with its class, in the order of the source."""
    pa = require("pyarrow", "keeping evidence")
    parquet = require("pyarrow.parquet", "keeping evidence")
    columns = {name: getattr(evidence, name) for name in _COLUMNS}
    table = pa.table({"given": given, **columns})
    table = table.replace_schema_metadata({"memorised": repr(evidence.memorised)})
    publish(folder / _FILE, lambda path: parquet.write_table(table, path))


def kept_evidence(folder: Path) -> tuple[Evidence, npt.NDArray[np.int64]]:
    """The evidence on each label, and its class, or an error if the folder has none."""
    parquet = require("pyarrow.parquet", "reading an audit")
    try:
        table = parquet.read_table(folder / _FILE)
        memorised = float(table.schema.metadata[b"memorised"])
        columns = {name: np.array(table.column(name)) for name in ("given", *_COLUMNS)}
    except FileNotFoundError:
        raise AbstainError(
            f"{folder} must hold {_FILE}, got an audit of an earlier version; add it with: "
            f"abstain audit --resume {quote(str(folder))}"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AbstainError(f"{folder / _FILE} must be as abstain wrote it: {error}") from error
    given = columns.pop("given")
    return Evidence(memorised=memorised, **columns), given
