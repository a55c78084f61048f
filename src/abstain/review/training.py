"""A new training on the corrected labels, in the background, and what the review has gained."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from abstain.auditing.folder import AuditFolder
from abstain.errors import AbstainError
from abstain.review.before_after import PAGE, lines_of
from abstain.review.session import Session
from abstain.scores.interval import Interval


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
        """The state of the training."""
        return {"running": self.running, "step": self._step, "trouble": self._trouble}

    def start(self) -> None:
        """Begin, unless it is under way."""
        if self._session.audit.summary["sources"]["train"] is None:
            raise AbstainError(
                "data in memory cannot be trained on from the page: audit them in Python, with the "
                "labels that review_labels gives"
            )
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
    """Name the folder of the next training."""
    taken = [int(path.name.removeprefix("again-")) for path in folder.glob("again-*")]
    return folder / f"again-{max(taken, default=0) + 1}"


def gained(session: Session) -> dict[str, Any]:
    """Noise rate, labels that are right where that is known, and accuracy, before and after."""
    findings, done = session.findings, again_folders(session.folder)
    after = AuditFolder.open(done[-1] / "audit") if done else None
    counts = [
        {
            "what": "decided labels",
            "before": 0,
            "after": findings.reviewed + findings.dropped,
            "is_count": True,
        },
        {"what": "found wrong", "before": 0, "after": findings.found_wrong, "is_count": True},
    ]
    lines = [
        {
            "what": line.what,
            "before": _value(line.before),
            "after": _value(line.after),
            "is_count": line.is_count,
        }
        for line in lines_of(session, after)
    ]
    note = "Train on the corrected labels to see what the model gains."
    if done:
        note = f"The audit of the corrected labels lies in {done[-1] / 'audit'}."
    return {"rows": [*counts, *lines], "note": note, "page": page_of(session.folder) is not None}


def page_of(folder: Path) -> Path | None:
    """The newest page that shows before and after, if there is one."""
    found = [path / "audit" / PAGE for path in again_folders(folder)]
    return found[-1] if found and found[-1].exists() else None


def _value(figure: Interval | float | None) -> float | None:
    return figure.value if isinstance(figure, Interval) else figure
