"""A new training on the corrected labels, in the background, and what the review has gained."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np

from abstain.errors import AbstainError
from abstain.review.export import corrected
from abstain.review.session import Session

_TRUE = "true"


class Retraining:
    """The audit of the corrected labels, beside the audit that was reviewed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._step = ""
        self._trouble = ""
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        """Whether it is under way."""
        return self._thread is not None and self._thread.is_alive()

    def status(self) -> dict[str, Any]:
        """Where it stands."""
        return {"running": self.running, "step": self._step, "trouble": self._trouble}

    def start(self) -> None:
        """Begin, unless it is under way."""
        if not self.running:
            self._trouble = ""
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def _run(self) -> None:
        session = self._session
        try:
            session.again()
        except AbstainError as error:
            self._trouble = str(error)
            return
        place = next_folder(session.folder)
        self._step = f"into {place}"
        command = [sys.executable, "-m", "abstain.review.retrain", str(session.folder), str(place)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = done.stderr.strip().splitlines()
        self._trouble = lines[-1] if done.returncode and lines else ""
        self._step = ""

    def gain(self) -> dict[str, Any]:
        """The figures before and after."""
        return {**self.status(), **gained(self._session)}


def again_folders(folder: Path) -> list[Path]:
    """Audits of corrected labels that have ended, in their order."""
    found = [path for path in folder.glob("again-*") if (path / "audit" / "summary.json").exists()]
    return sorted(found, key=lambda path: int(path.name.removeprefix("again-")))


def next_folder(folder: Path) -> Path:
    """Where the next one goes."""
    taken = [int(path.name.removeprefix("again-")) for path in folder.glob("again-*")]
    return folder / f"again-{max(taken, default=0) + 1}"


def gained(session: Session) -> dict[str, Any]:
    """Noise rate, labels that are right where that is known, and accuracy, before and after."""
    first = json.loads(session.store.about("before") or "{}")
    status = session.status()
    total = len(session.ids)
    left = status["left_wrong"]["value"] / total
    rows: list[dict[str, Any]] = [
        {"what": "decided labels", "before": 0, "after": status["decided"], "is_count": True},
        {"what": "found wrong", "before": 0, "after": status["wrong"], "is_count": True},
        {"what": "noise rate of the labels", "before": first["rate"]["value"], "after": left},
    ]
    true = _true_labels(session)
    if true is not None:
        found = corrected(session.audit, session.store.decisions)
        given, keep = found.given, found.keep
        rows.append(
            {
                "what": "labels that are right, by the truth",
                "before": float((given == true).mean()),
                "after": float((found.labels[keep] == true[keep]).mean()),
            }
        )
    done = again_folders(session.folder)
    note = "Train on the corrected labels to see what the model gains."
    if done:
        after = json.loads((done[-1] / "audit" / "summary.json").read_text(encoding="utf-8"))
        before = session.audit.summary.get("training", {})
        pairs = {"accuracy on the test labels": "test_accuracy"}
        rows += [
            {"what": what, "before": before.get(name), "after": after["training"].get(name)}
            for what, name in pairs.items()
            if before.get(name) is not None or after["training"].get(name) is not None
        ]
        rows.append(
            {
                "what": "noise rate that an audit of them estimates",
                "before": first["rate"]["value"],
                "after": after["noise_rate"]["value"],
            }
        )
        note = f"The audit of the corrected labels lies in {done[-1] / 'audit'}."
    return {"rows": rows, "note": note, "agreements": status["agreements"]}


def _true_labels(session: Session) -> "np.ndarray[Any, np.dtype[np.int64]] | None":
    """Where errors were planted, the labels before."""
    import pyarrow.parquet as parquet

    path = session.folder / "ledger.parquet"
    if "detection" not in session.audit.summary or not path.exists():
        return None
    table = parquet.read_table(path)
    return np.asarray(table.column(_TRUE)) if _TRUE in table.column_names else None
