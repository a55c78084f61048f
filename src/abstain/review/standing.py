"""The state of a review: the labels, the log of decisions on them, and the findings from both.

It needs no samples, so that whoever compares audits can ask it, too.
"""

import threading
from collections import Counter
from dataclasses import asdict
from itertools import islice

import numpy as np
import numpy.typing as npt

from abstain.auditing.answers import Answer
from abstain.auditing.findings import Findings
from abstain.auditing.folder import AuditFolder
from abstain.review.decisions import Entry
from abstain.review.queue import DECIDED, LAST, OPEN, SKIPPED, STATES, Ahead, Queue
from abstain.review.sharing import drawn_in, share
from abstain.review.store import FILE, Store


class Standing:
    """The labels of an audit and the decisions on them."""

    def __init__(self, audit: AuditFolder, store: Store | None = None) -> None:
        self.audit = audit
        self.folder = audit.folder
        self.classes: list[str] = audit.classes
        self.ids: list[str] = audit.ids
        self.row = {id_: k for k, id_ in enumerate(self.ids)}
        self.number = {name: k for k, name in enumerate(self.classes)}
        self.store = store or Store(self.folder / FILE)
        self._lock = threading.RLock()
        share(self.store, self.folder)
        self._answers: dict[int, Answer] = {}
        self._findings = audit.findings()
        self._sample = self._findings.sample
        self.queue = Queue(self._findings.verdict)
        self._seen = 0
        self._take_in()
        self._compute(self._findings)

    def place(self, row: int) -> int | None:
        """The place of a label in the random sample, from 1; None for one that is not in it."""
        if self._sample is None:
            return None
        found = np.flatnonzero(self._sample.rows == row)
        return int(found[0]) + 1 if len(found) else None

    def is_blind(self, row: int, who: str) -> bool:
        """Whether a person must not be told of a label: it is of the sample, and not answered."""
        answered = self.store.decisions.has_answered(self.ids[row], who)
        return not answered and self.place(row) is not None

    def _of_sample(self, who: str) -> dict[str, int]:
        """Count the labels of the sample that were skipped, and those that answers wait for."""
        if self._sample is None:
            return {"sample_skipped": 0, "sample_held": 0}
        with self._lock:
            rows = self._sample.rows
            state = self.queue.state[rows]
            answered = np.flatnonzero(~np.isin(state, (OPEN, SKIPPED)))
            before = rows[: answered[-1] if len(answered) else 0]
            return {
                "sample_skipped": int((state == SKIPPED).sum()),
                "sample_held": self._held_by_others(before, who, OPEN),
            }

    def _held_by_others(self, rows: npt.NDArray[np.int64], who: str, state: int) -> int:
        waiting = rows[self.queue.state[rows] == state].tolist()
        return sum(self.queue.leases.taken(row, who) for row in waiting)

    @property
    def findings(self) -> Findings:
        """The findings with all decisions applied."""
        return self._findings

    def close(self) -> None:
        """Write what is left to write."""
        try:
            share(self.store, self.folder)
        finally:
            self.store.close()

    def _take_in(self) -> None:
        """Let the queue know of what was decided since."""
        with self._lock:
            last = self.store.decisions.last
            for seq in range(self._seen + 1, last + 1):
                entry = self.store.decisions.entries.get(seq)
                if entry is not None and entry.id in self.row:
                    self._settle(self.row[entry.id], entry.id)
            self._seen = last

    def _settle(self, row: int, id_: str) -> None:
        answer = self.store.decisions.answer(id_)
        if answer is None:
            self.queue.state[row] = OPEN
        else:
            self.queue.state[row] = DECIDED if answer.kind == "label" else STATES[answer.kind]
        if answer is None or (answer.kind == "label" and answer.label not in self.number):
            self._answers.pop(row, None)
        else:
            self._answers[row] = answer
        self.queue.leases.release(row)

    def _compute(self, known: Findings | None = None) -> None:
        """Find again what the decisions say, unless it is known."""
        with self._lock:
            answers, newest, sample = dict(self._answers), self._newest(), self._sample
            decisions, seen = self.store.decisions, self.store.decisions.last
            drawn: set[int] = set()
            if sample is not None:
                ids = drawn_in(self.store) | self.audit.answers().drawn
                drawn = {self.row[id_] for id_ in ids if id_ in self.row}
            self._people = {
                "people": decisions.people,
                **self._done_by(),
                "agreements": [asdict(x) for x in decisions.agreements()],
                "disputes": len(decisions.disputes()),
                "pairs": self.queue.pairs(),
            }
        of_labels = self.queue.evidence, self.queue.given, self.classes
        self._findings = known or Findings.of(*of_labels, answers, sample, drawn)
        self._figures = self._findings.as_json()
        self._ahead: Ahead = self.queue.ahead(self._findings.verdict, newest)
        self._computed = seen

    def _done_by(self) -> dict[str, dict[str, int]]:
        """Count the labels that each person decided, and could not, by the decisions in force."""
        decisions = self.store.decisions
        held = [x for id_ in decisions.ids if (x := decisions.standing(id_)) and x.after]
        return {
            "decided_by": Counter(x.who for x in held if x.after and x.after.is_decision),
            "unsure_by": Counter(x.who for x in held if x.after and x.after.kind == "unsure"),
        }

    def _newest(self) -> list[bool]:
        """Whether each of the newest classes, worst first, found a wrong label.

        Of a dropped sample nobody said that its label is wrong.
        """
        decisions = self.store.decisions
        found = (
            self._is_wrong(entry)
            for entry in reversed(decisions.in_order())
            if entry.mode == "fix"
            and entry.after is not None
            and entry.after.kind == "label"
            and entry.seq not in decisions.undone
        )
        return list(islice(found, LAST))

    def _is_wrong(self, entry: Entry) -> bool:
        assert entry.after is not None
        given = self.classes[int(self.queue.given[self.row[entry.id]])]
        return entry.after.label != given
