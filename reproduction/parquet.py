"""Results as they are committed: a Parquet file per target, a row per run.

Recipe, versions and machine are JSON, the history is a list per column, and from the whole every
page and figure can be made again without any training.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from abstain.errors import AbstainError
from abstain.support.files import publish
from reproduction.record import Record

HISTORY = (
    "epoch",
    "loss",
    "train_accuracy",
    "stake",
    "payoff",
    "clean_loss",
    "corrupt_loss",
    "validation_loss",
    "validation_accuracy",
    "test_accuracy",
    "test_accuracy_without_last",
)
"""The columns of a history that are kept."""


def write_results(path: Path, records: Iterable[Record]) -> None:
    """Write the rows of a target; the same records give the same bytes."""
    pa, pq = _arrow()
    rows = [_row(record) for record in sorted(records, key=lambda record: record.name)]
    numbers = pa.list_(pa.float32())
    schema = pa.schema(
        [
            *((name, pa.string()) for name in ("name", "data", "network", "method", "kind")),
            ("rate", pa.float64()),
            *((name, pa.string()) for name in ("recipe", "versions", "machine")),
            *((name, pa.int64()) for name in ("seed_noise", "seed_init", "seed_order")),
            *((name, pa.float64()) for name in ("test_accuracy", "stop_epoch", "seconds")),
            ("outcome", pa.string()),
            ("separation", pa.string()),
            ("by_class", numbers),
            *((f"history_{name}", numbers) for name in HISTORY),
        ]
    )
    table = pa.Table.from_pylist(rows, schema)
    publish(path, lambda temporary: pq.write_table(table, temporary, compression="zstd"))


def read_results(folder: Path) -> dict[str, Record]:
    """The records of all targets in a folder, by name."""
    files = sorted(folder.glob("*.parquet"))
    if not files:
        return {}
    _, pq = _arrow()
    found = {}
    for path in files:
        try:
            rows = pq.read_table(path).to_pylist()
            records = [_record(row) for row in rows]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise AbstainError(
                f"{path} must be a results file of `python -m reproduction`, got: {error}"
            ) from error
        found.update({record.name: record for record in records})
    return found


def _row(record: Record) -> dict[str, Any]:
    recipe = record.run.recipe
    separation = None if record.separation is None else asdict(record.separation)
    return {
        "name": record.name,
        "data": record.run.data,
        "network": record.run.network,
        "method": recipe.method,
        "kind": recipe.flip_kind,
        "rate": recipe.flip,
        "recipe": _json(recipe.as_json()),
        "versions": _json(record.versions),
        "machine": _json(record.machine),
        "seed_noise": recipe.seed_noise,
        "seed_init": recipe.seed_init,
        "seed_order": recipe.seed_order,
        "test_accuracy": record.test_accuracy,
        "stop_epoch": record.stop_epoch,
        "seconds": round(record.seconds, 3),
        "outcome": record.outcome,
        "separation": None if separation is None else _json(separation),
        "by_class": _shown(record.by_class),
        **{f"history_{name}": _shown(record.history.get(name)) for name in HISTORY},
    }


def _record(row: dict[str, Any]) -> Record:
    # A column that a later version added is not in the files of an earlier one.
    columns = {name: row.get(f"history_{name}") for name in HISTORY}
    history = {name: column for name, column in columns.items() if column is not None}
    values = {name: row[name] for name in ("stop_epoch", "outcome", "test_accuracy", "seconds")}
    return Record.from_json(
        {
            **values,
            "run": {
                "data": row["data"],
                "network": row["network"],
                "recipe": json.loads(row["recipe"]),
            },
            "history": history,
            "separation": None if row["separation"] is None else json.loads(row["separation"]),
            "by_class": row.get("by_class"),
            "versions": json.loads(row["versions"]),
            "machine": json.loads(row["machine"]),
        }
    )


def _json(values: dict[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, ensure_ascii=False)


def _shown(column: Sequence[float] | None) -> list[float] | None:
    """Six digits are enough for every figure, and compress well."""
    if column is None:
        return None
    return [x if math.isnan(x) else float(f"{x:.6g}") for x in column]


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise AbstainError(
            "results are kept as Parquet, and that needs pyarrow: pip install 'abstain[data]'; "
            "or give --out a folder without results, and make them elsewhere from the store"
        ) from None
    return pa, pq
