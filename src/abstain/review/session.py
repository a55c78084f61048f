"""A review of one audit: its labels, its log of decisions, and what these say."""

import hashlib
import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from abstain.auditing.folder import LARGEST_SAMPLE, AuditFolder
from abstain.data import LabeledData
from abstain.errors import AbstainError, DataError
from abstain.review.decisions import Answer, Entry, Mode
from abstain.review.faults import WORDS
from abstain.review.instructions import read_instructions
from abstain.review.items import PROPOSALS, Items
from abstain.review.queue import DECIDED, OPEN, SKIPPED, STATES, Filter
from abstain.review.sharing import share
from abstain.review.unchanged import check_unchanged
from abstain.scores.sampling import Sample
from abstain.showing.fingerprint import Mark

_HANDED_OUT = 100  # labels of the random sample at a time
_REST = 0.2  # seconds between two looks at all labels, in which several decisions gather
_LIKE = 5_000  # labels among which those most like one are sought


class UndecidedError(AbstainError):
    """Some decisions of a request cannot be taken; none of it was.

    Args:
        reasons: Why, by row.
    """

    def __init__(self, reasons: Mapping[int, str]) -> None:
        super().__init__("; ".join(dict.fromkeys(reasons.values())))
        self.reasons = reasons


class Session(Items):
    """Everything that the page asks for."""

    def __init__(self, folder: Path, data: LabeledData | None = None) -> None:
        """Open the review of an audit.

        Args:
            folder: Of the audit.
            data: What was audited, where that lay in memory.
        """
        audit = AuditFolder.open(folder)
        self._held = _only_one(audit.folder)
        super().__init__(audit, data)
        try:
            self.store.keep_value("samples", self.check_unchanged())
        except AbstainError:
            self.store.close()
            raise
        self.shown.prefer(self._likely())
        self.identity = self._identity()
        self._changed = threading.Event()
        self._ends = False
        self._trouble = ""
        self._worker = threading.Thread(target=self._keep_up, daemon=True)
        self._worker.start()

    def close(self) -> None:
        """Write what is left to write, and let others open the review."""
        self._ends = True
        self._changed.set()
        self._worker.join()
        super().close()
        if self._held is not None:
            self._held.close()

    def _identity(self) -> str:
        """A name that no other review has, nor a copy of this one in another folder."""
        text = f"{self.store.identity} {self.folder.resolve()}"
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]

    def check_unchanged(self) -> str:
        """The samples must be those that decisions were made on; their fingerprint."""
        return check_unchanged(self.audit, self.store, self.shown)

    def _likely(self) -> npt.NDArray[np.bool_]:
        wrong = self.queue.verdict.wrong_probability
        return np.asarray(wrong <= np.median(wrong))

    def _keep_up(self) -> None:
        """In the background: figures, and the file of answers, follow the decisions."""
        while True:
            self._changed.wait()
            self._changed.clear()
            if self._ends:
                return
            time.sleep(_REST)
            self._compute()
            self._trouble = ""
            try:
                share(self.store, self.folder)
            except (AbstainError, OSError, sqlite3.Error) as error:  # the log holds all the same
                self._trouble = str(error)
            self._take_in()

    def description(self) -> dict[str, Any]:
        """Describe the audit: all that does not change during a review."""
        return {
            "review": self.identity,
            "name": self.audit.summary["name"],
            "folder": str(self.folder),
            "kind": self.shown.kind,
            "classes": self.classes,
            "labels": len(self.ids),
            "keys": _class_keys(self.classes),
            "by_frequency": self.queue.by_frequency,
            "faults": [
                {"name": name, "words": WORDS[name], "count": len(rows)}
                for name, rows in self.queue.faults.items()
            ],
            "instructions": read_instructions(self.folder),
            "trains": self.audit.summary["sources"]["train"] is not None,
        }

    def status(self, who: str = "") -> dict[str, Any]:
        """The figures that are always in sight of a person."""
        more, counted = self._figures["halved_by"], self._figures["verified"]["counted"]
        can_halve = more is not None and counted + more <= min(LARGEST_SAMPLE, len(self.ids))
        return {
            **self._figures,
            **self._of_sample(who),
            "halved_by": more if can_halve else None,
            **vars(self._ahead),
            "pays": self._ahead.pays,
            "decided": int(np.isin(self.queue.state, (DECIDED, STATES["drop"])).sum()),
            "skipped": int((self.queue.state == STATES["skip"]).sum()),
            "to_drop": int((self.queue.state == STATES["drop"]).sum()),
            "trouble": self._trouble,
            **self._people,
            "up_to_date": self._computed == self.store.decisions.last,
        }

    def next_items(
        self,
        wanted: Filter,
        who: str,
        count: int,
        without: Sequence[int] = (),
        unseen_by: str | None = None,
    ) -> dict[str, Any]:
        """The next labels to look at, worst first.

        Args:
            wanted: Which labels.
            who: The person who looks.
            count: How many.
            without: Rows that the person has already.
            unseen_by: As in `item`.
        """
        with self._lock:
            rows, left = self.queue.next(wanted, who, count, without)
            held = 0 if rows else self.queue.held(wanted, who)
        items = [self.item(row, unseen_by=unseen_by) for row in rows]
        return {"items": items, "left": left, "held": held}

    def rows_of(self, kind: str, who: str) -> tuple[int, ...]:
        """Labels by who answered them: `disputes`, `second` (by others only), or `person:NAME`."""
        decisions = self.store.decisions
        if kind == "disputes":
            ids = decisions.disputes()
        elif kind == "second":
            ids = [
                id_
                for id_ in decisions.ids
                if decisions.by_person(id_) and not decisions.has_answered(id_, who)
            ]
        else:
            person = kind.removeprefix("person:")
            ids = [id_ for id_ in decisions.ids if person in decisions.by_person(id_)]
        return tuple(self.row[id_] for id_ in ids if id_ in self.row)

    def to_verify(
        self, who: str, count: int, without: Sequence[int], *, skipped: bool = False
    ) -> dict[str, Any]:
        """The next labels of the random sample, in its order; or those of it that were skipped."""
        state = SKIPPED if skipped else OPEN
        with self._lock:
            most = min(LARGEST_SAMPLE, len(self.ids))
            size = 0 if self._sample is None else len(self._sample.rows)
            while True:
                rows = self._unanswered(who, count, without, state)
                if skipped or len(rows) == count or size == most:
                    break
                size = min(size + _HANDED_OUT, most)
                self._sample = self._drawn(size)
            self.queue.leases.take(rows, who)
            sample = self._sample
            held = 0 if sample is None else self._held_by_others(sample.rows, who, state)
        items = [self.item(row, blind=True) for row in rows]
        return {"items": items, "left": most, "held": 0 if items else held}

    def _drawn(self, size: int) -> Sample:
        self.store.check_in_place()  # what is written would make a folder that was removed anew
        wrong = 1 - np.asarray(self.audit.weights.column("weight"))
        return self.audit.hand_out(self.ids, wrong, size)

    def _unanswered(self, who: str, count: int, without: Sequence[int], state: int) -> list[int]:
        if self._sample is None:
            return []
        free = (
            row
            for row in self._sample.rows.tolist()
            if self.queue.state[row] == state
            and row not in without
            and not self.queue.leases.taken(row, who)
        )
        return list(islice(free, count))

    def like(self, row: int, who: str, count: int, given: int | None = None) -> dict[str, Any]:
        """Open labels most like one: of its given and proposed class, or of a class as given."""
        wanted = Filter(given=given)
        if given is None:
            wanted = Filter(given=int(self.queue.given[row]), proposed=self.queue.proposed(row))
        with self._lock:
            rows, left = self.queue.next(wanted, who, min(_LIKE, 10 * count), ())
            chosen = self.shown.like(row, rows)[:count]
            for other in set(rows) - set(chosen):
                self.queue.leases.release(other)
        return {"items": [self.item(r) for r in chosen], "left": left}

    def decide(
        self,
        answers: Mapping[int, Answer],
        *,
        who: str,
        mode: Mode,
        request: str,
        note: str = "",
        seconds: Mapping[int, float] | None = None,
        versions: Mapping[int, str] | None = None,
    ) -> list[dict[str, Any]]:
        """Take decisions; they are on disk when this returns.

        Args:
            answers: By row.
            who: The person.
            mode: How they came about.
            request: As in `Store.decide`.
            note: To go with it.
            seconds: By row, for how long a sample was looked at.
            versions: By row, which version of a sample was looked at, as `item` named it.
        """
        unseen_by = who if mode in ("second", "verify") else None
        by_id = {self.ids[row]: answer for row, answer in answers.items()}
        if before := self.store.taken(request, by_id):  # its file may be another by now
            return self._after(before, unseen_by)
        marks = self._marks(answers, versions or {})
        entries = self.store.decide(
            by_id,
            who=who,
            mode=mode,
            request=request,
            note=note,
            seen={self.ids[row]: mark for row, mark in marks.items()},
            seconds={self.ids[row]: value for row, value in (seconds or {}).items()},
        )
        return self._after(entries, unseen_by)

    def _marks(self, answers: Mapping[int, Answer], versions: Mapping[int, str]) -> dict[int, Mark]:
        """Fingerprint each sample, by row; raise an error that names what cannot be decided.

        Whoever skips a sample has decided nothing of it.
        """
        marks, reasons = {}, {}
        for row, answer in answers.items():
            if answer.kind == "label" and answer.label not in self.number:
                reasons[row] = f"label must be one of the classes, got {answer.label!r}"
            elif answer.kind != "skip":
                try:
                    marks[row] = self.shown.same.mark(row)
                except DataError as error:
                    reasons[row] = str(error)
                    continue
                if versions.get(row, "") not in ("", self.shown.same.version(row)):
                    reasons[row] = "the file changed since it was shown: look at it again"
        if reasons:
            raise UndecidedError(reasons)
        return marks

    def take_note(
        self, row: int, note: str, *, who: str, request: str, unseen_by: str | None = None
    ) -> list[dict[str, Any]]:
        """Take a note on a label."""
        entries = self.store.take_note(self.ids[row], note, who=who, request=request)
        return self._after(entries, unseen_by)

    def undo(
        self, *seqs: int, who: str, request: str, unseen_by: str | None = None
    ) -> list[dict[str, Any]]:
        """Undo any entries of the log."""
        return self._after(self.store.undo(*seqs, who=who, request=request), unseen_by)

    def guest(self) -> str:
        """A name for whoever gives none: everybody another."""
        return f"guest {self.store.next_number('guests')}"

    def show(self, items: Sequence[Mapping[str, Any]], visit: str) -> None:
        """Keep on which page labels are shown that were given to somebody."""
        with self._lock:
            self.queue.leases.show([item["row"] for item in items], visit)

    def leave(self, who: str, visit: str) -> None:
        """Let others have the labels that a person was given on one page."""
        with self._lock:
            self.queue.leases.leave(who, visit)

    def _after(self, entries: list[Entry], unseen_by: str | None) -> list[dict[str, Any]]:
        self._take_in()
        self._changed.set()
        return [self._line(entry, unseen_by) for entry in entries]

    def share(self) -> None:
        """Bring the audit's own file of answers up to date with the log."""
        share(self.store, self.folder)

    def again(self) -> dict[str, Any]:
        """Judge all labels by the decisions so far, and go by that."""
        with self._lock:
            self._compute()
            self.queue.rank(self.findings.verdict)
            self.shown.prefer(self._likely())
        share(self.store, self.folder)
        return self.status()


def _class_keys(classes: Sequence[str]) -> list[str] | None:
    """The digit that chooses each class; None where there are more classes than digits.

    >>> _class_keys(["cat", "dog"]), _class_keys(["0", "7"])
    (['1', '2'], ['0', '7'])
    """
    if len(classes) > PROPOSALS:
        return None
    if all(len(name) == 1 and name in "0123456789" for name in classes):
        return list(classes)
    return [str((k + 1) % 10) for k in range(len(classes))]


def _only_one(folder: Path) -> Any:  # noqa: ANN401
    """Hold the review of an audit: two servers would give the same labels to two people."""
    try:
        import fcntl
    except ImportError:  # not everywhere; there it is left to people
        return None
    path = folder / "review.lock"
    try:
        stream = path.open("w")
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise AbstainError(
            f"{folder} is being reviewed already",
            remedy="open its page, or end the server that runs",
        ) from None
    except OSError as error:
        raise AbstainError(f"{folder} must be a folder to write to, got: {error}") from error
    return stream
