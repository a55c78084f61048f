"""The other issues of an audit, for the same queue: kept, dropped, or relabelled there.

Faults of a whole class or group are not for a person to settle sample by sample, and are left out.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from abstain.auditing.folder import AuditFolder

Rows = npt.NDArray[np.int64]

WORDS: Mapping[str, str] = {
    "conflicting_duplicate": "near duplicates with other labels",
    "near_duplicate": "near duplicates",
    "test_duplicate": "also in the test set",
    "outlier": "outliers",
    "dark": "dark pictures",
    "blurry": "blurry pictures",
    "low_information": "nearly without content",
    "odd_size": "of an odd size",
    "odd_aspect_ratio": "of an odd shape",
    "null": "empty or missing",
}
_TWINS = 4


class Faults:
    """The samples with each fault, by row, the worst first."""

    def __init__(self, audit: AuditFolder, row: Mapping[str, int]) -> None:
        issues = audit.issues
        self.rows: dict[str, Rows] = {}
        self._twins: Sequence[Sequence[str] | None] = ()
        self._row = row
        place = np.array([row[id_] for id_ in issues.column("id").to_pylist()], np.int64)
        self._place = np.argsort(place)  # where each row stands in the table
        for name in WORDS:
            if f"is_{name}_issue" not in issues.column_names:
                continue
            found = np.flatnonzero(np.asarray(issues.column(f"is_{name}_issue")))
            if len(found):
                score = np.asarray(issues.column(f"{name}_score"), np.float64)[found]
                self.rows[name] = place[found[np.argsort(score, kind="stable")]]
        self._sets = {name: set(rows.tolist()) for name, rows in self.rows.items()}
        if "near_duplicate" in self.rows and "near_duplicate_sets" in issues.column_names:
            self._twins = issues.column("near_duplicate_sets").to_pylist()

    def of(self, row: int) -> list[str]:
        """The faults of a sample."""
        return [name for name, rows in self._sets.items() if row in rows]

    def twins(self, row: int) -> list[int]:
        """A few near duplicates of a sample."""
        if row not in self._sets.get("near_duplicate", ()) or not self._twins:
            return []
        ids = self._twins[int(self._place[row])] or ()
        return [self._row[id_] for id_ in ids if id_ in self._row][:_TWINS]
