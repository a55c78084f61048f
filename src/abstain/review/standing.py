"""What holds in a review: the labels, the log of decisions on them, and what these say together.

It needs no samples, so that whoever compares audits can ask it, too.
"""

import threading
from collections import Counter
from dataclasses import asdict
from itertools import islice

import numpy as np

from abstain.auditing.folder import AuditFolder
from abstain.auditing.kept_evidence import kept_evidence
from abstain.auditing.reviewed import kept_answers, kept_sample
from abstain.errors import AbstainError
from abstain.review.decisions import Entry
from abstain.review.queue import DECIDED, LAST, OPEN, STATES, Figures, Queue
from abstain.review.sharing import drawn_in, share
from abstain.review.store import FILE, Store


class Standing:
    """The labels of an audit and the decisions on them."""

    def __init__(self, audit: AuditFolder, store: Store | None = None) -> None:
        self.audit = audit
        self.folder = audit.folder
        evidence, given = kept_evidence(self.folder)
        self.classes: list[str] = list(audit.summary["classes"])
        self.ids: list[str] = audit.weights.column("id").to_pylist()
        if len(given) != len(self.ids):
            raise AbstainError(f"{self.folder} must be whole, got evidence on other labels")
        self.row = {id_: k for k, id_ in enumerate(self.ids)}
        self.number = {name: k for k, name in enumerate(self.classes)}
        self.store = store or Store(self.folder / FILE)
        self._lock = threading.RLock()
        self._seen = 0
        self._answers: dict[int, int] = {}
        share(self.store, self.folder)
        self.queue = Queue(evidence, given, len(self.classes), self._known_answers())
        self._take_in()
        self._sample = kept_sample(self.folder, self.ids)
        self._figures = self._compute()
        self._computed = self.store.decisions.last

    @property
    def figures(self) -> Figures:
        """What the decisions say."""
        return self._figures

    def close(self) -> None:
        """Write what is left to write."""
        try:
            share(self.store, self.folder)
        finally:
            self.store.close()

    def _known_answers(self) -> dict[int, int]:
        found = {}
        for id_ in self.store.decisions.ids:
            answer = self.store.decisions.answer(id_)
            if answer is not None and answer.label in self.number and id_ in self.row:
                found[self.row[id_]] = self.number[answer.label]
        return found

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
        if answer is not None and answer.label in self.number:
            self._answers[row] = self.number[answer.label]
        else:
            self._answers.pop(row, None)
        self.queue.leases.release(row)

    def _compute(self) -> Figures:
        with self._lock:
            answers = dict(self._answers)
            newest = self._newest()
            drawn = None
            if self._sample is not None:
                of_sample = drawn_in(self.store) | kept_answers(self.folder).drawn
                rows = self._sample.rows.tolist()
                drawn = np.array([self.ids[row] in of_sample for row in rows], bool)
            sample = self._sample
            decisions = self.store.decisions
            self._people = {
                "people": decisions.people,
                "decided_by": self._decided_by(),
                "agreements": [asdict(x) for x in decisions.agreements()],
                "disputes": len(decisions.disputes()),
                "pairs": self.queue.pairs(),
            }
        self._verdict = self.queue.judged(answers)
        return self.queue.figures(self._verdict, newest, sample, drawn)

    def _decided_by(self) -> dict[str, int]:
        """How many labels each person decided, as it holds now."""
        decisions = self.store.decisions
        held = (decisions.standing(id_) for id_ in decisions.ids)
        return Counter(x.who for x in held if x is not None and x.after and x.after.is_judgement)

    def _newest(self) -> list[bool]:
        """Of the newest decisions, worst first, whether they found a wrong label."""
        decisions = self.store.decisions
        found = (
            self._is_wrong(entry)
            for entry in reversed(decisions.in_order())
            if entry.mode == "fix"
            and entry.after is not None
            and entry.after.is_judgement
            and entry.seq not in decisions.undone
        )
        return list(islice(found, LAST))

    def _is_wrong(self, entry: Entry) -> bool:
        assert entry.after is not None
        given = self.classes[int(self.queue.given[self.row[entry.id]])]
        return entry.after.kind == "drop" or entry.after.label != given
