"""Every decision of a review: an append-only log in SQLite, durable before it is acknowledged.

Nothing is ever changed or removed: an undo is an entry of its own. What holds now is read off the
log: the last entry on a label that was not undone.
"""

import sqlite3
import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Literal, NamedTuple, Self, TypeAlias

from abstain.errors import AbstainError

FILE = "review.sqlite"
_FORMAT = "1"
_BUSY = 30.0  # seconds to wait for another process that writes
_SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE log (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  at TEXT NOT NULL,
  who TEXT NOT NULL,
  mode TEXT NOT NULL,
  id TEXT NOT NULL,
  before TEXT,
  after TEXT,
  note TEXT NOT NULL,
  undoes INTEGER REFERENCES log (seq),
  request TEXT NOT NULL,
  UNIQUE (request, id)
);
CREATE TRIGGER log_is_not_changed BEFORE UPDATE ON log
  BEGIN SELECT RAISE(ABORT, 'the log is only appended to'); END;
CREATE TRIGGER log_is_not_shortened BEFORE DELETE ON log
  BEGIN SELECT RAISE(ABORT, 'the log is only appended to'); END;
CREATE TABLE shared (id TEXT PRIMARY KEY, label TEXT NOT NULL);
"""

Mode: TypeAlias = Literal[
    "fix", "verify", "verify-seen", "second", "settle", "file", "note", "undo"
]
"""How a decision came about: worst first; for the random sample, blind or after a look at what the
audit says; as a second opinion; to settle a dispute; from a file; a note alone; an undo."""
VERIFYING = ("verify", "verify-seen")


class Answer(NamedTuple):
    """What somebody decided of a label: its class, or why there is none.

    >>> Answer.read("=drop"), Answer.read("drop")
    (Answer(kind='label', label='drop'), Answer(kind='drop', label=None))
    """

    kind: Literal["label", "unsure", "drop", "skip"]
    label: str | None = None

    @property
    def text(self) -> str:
        """As the log has it: a class may be called `drop`."""
        return f"={self.label}" if self.kind == "label" else self.kind

    @classmethod
    def read(cls, text: str) -> "Answer":
        """What `text` says."""
        if text.startswith("="):
            return cls("label", text[1:])
        assert text in ("unsure", "drop", "skip"), text
        return cls(text)  # type: ignore[arg-type]

    @property
    def is_judgement(self) -> bool:
        """Whether it says something of the label."""
        return self.kind in ("label", "drop")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A line of the log."""

    seq: int
    at: str
    who: str
    mode: Mode
    id: str
    before: Answer | None
    after: Answer | None
    note: str
    undoes: int | None


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How far two people agree where both judged a label."""

    people: tuple[str, str]
    both: int
    alike: int
    kappa: float | None
    """Cohen's; None where chance alone would make them agree."""


def cohens_kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """κ = (p − p_e) / (1 − p_e): agreement beyond what chance gives (Cohen, 1960).

    >>> cohens_kappa([("a", "a"), ("b", "b"), ("a", "b"), ("b", "b")])
    0.5
    """
    if not pairs:
        return None
    n = len(pairs)
    one, other = (Counter(pair[k] for pair in pairs) for k in (0, 1))
    by_chance = sum(one[x] * other[x] for x in one) / n**2
    if by_chance == 1:
        return None
    return (sum(a == b for a, b in pairs) / n - by_chance) / (1 - by_chance)


@dataclass
class Decisions:
    """What holds now, by the log."""

    entries: dict[int, Entry] = field(default_factory=dict)
    undone: set[int] = field(default_factory=set)
    last: int = 0
    """The number of the last entry."""
    _by_id: dict[str, list[Entry]] = field(default_factory=lambda: defaultdict(list))

    def add(self, entry: Entry) -> None:
        """Take in the next entry of the log."""
        self.entries[entry.seq] = entry
        self.last = entry.seq
        if entry.undoes is None:
            self._by_id[entry.id].append(entry)
            return
        self.undone.add(entry.undoes)
        undone = self.entries[entry.undoes]
        if undone.undoes is not None:  # to undo an undo is to do it again
            self.undone.discard(undone.undoes)

    @property
    def ids(self) -> list[str]:
        """Labels of which the log knows something; a copy."""
        return list(self._by_id)

    def in_order(self) -> list[Entry]:
        """All entries; a copy, as others may append meanwhile."""
        return list(self.entries.values())

    def standing(self, id_: str, undone: Collection[int] | None = None) -> Entry | None:
        """The decision on a label, which is the last one.

        Args:
            id_: Of the label.
            undone: Entries that do not count; by default those that were undone.
        """
        without = self.undone if undone is None else undone
        for entry in reversed(self._by_id.get(id_, ())):
            if entry.mode != "note" and entry.seq not in without:
                return entry
        return None

    def answer(self, id_: str) -> Answer | None:
        """What holds of a label."""
        entry = self.standing(id_)
        return None if entry is None else entry.after

    def note(self, id_: str) -> str:
        """The last note on a label."""
        for entry in reversed(self._by_id.get(id_, ())):
            if entry.seq not in self.undone and (entry.note or entry.mode == "note"):
                return entry.note
        return ""

    def by_person(self, id_: str) -> dict[str, Entry]:
        """The last judgement of a label by each person who judged it."""
        found: dict[str, Entry] = {}
        for entry in self._by_id.get(id_, ()):
            judged = entry.after is not None and entry.after.is_judgement
            if judged and entry.mode not in ("note", "file") and entry.seq not in self.undone:
                found[entry.who] = entry
        return found

    def can_undo(self, seq: int) -> bool:
        """Whether an entry still holds."""
        return seq in self.entries and seq not in self.undone

    def disputes(self) -> list[str]:
        """Labels that people judged differently, and nobody has settled since."""
        found = []
        for id_ in self.ids:
            judged = self.by_person(id_)
            if len({entry.after for entry in judged.values()}) > 1:
                last = self.standing(id_)
                if last is None or last.mode != "settle":
                    found.append(id_)
        return found

    def agreements(self) -> list[Agreement]:
        """Of every two people who judged the same labels; not counted is who settled a dispute."""
        pairs: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
        for id_ in self.ids:
            judged = {
                who: entry.after.text
                for who, entry in self.by_person(id_).items()
                if entry.after is not None and entry.mode != "settle"
            }
            for one, other in combinations(sorted(judged), 2):
                pairs[one, other].append((judged[one], judged[other]))
        return [
            Agreement(
                people=people,
                both=len(both),
                alike=sum(a == b for a, b in both),
                kappa=cohens_kappa(both),
            )
            for people, both in sorted(pairs.items())
        ]


class Store:
    """The log of a review, open for more."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        try:
            self._connection = sqlite3.connect(
                path, timeout=_BUSY, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")
            self._begin()
        except sqlite3.Error as error:
            raise AbstainError(
                f"{path} must be a log of decisions that can be written, got: {error}"
            ) from error
        self.decisions = Decisions()
        self.refresh()

    def _begin(self) -> None:
        with self._writing():
            tables = self._connection.execute("SELECT name FROM sqlite_master").fetchall()
            if not tables:
                for statement in _statements(_SCHEMA):
                    self._connection.execute(statement)
                self._connection.execute("INSERT INTO about VALUES ('format', ?)", (_FORMAT,))
        if self.about("format") != _FORMAT:
            raise AbstainError(f"{self.path} must be of format {_FORMAT}; it is of another version")

    def close(self) -> None:
        """Close it; all that was acknowledged is on disk already."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A transaction: on disk when it ends, or undone by what was raised in it."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def about(self, name: str) -> str | None:
        """What was kept under a name."""
        found = self._connection.execute("SELECT value FROM about WHERE name=?", (name,)).fetchone()
        return None if found is None else str(found[0])

    def keep_about(self, name: str, value: str) -> None:
        """Keep something under a name."""
        with self._lock, self._writing():
            self._connection.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, value))

    def refresh(self) -> None:
        """Take in what another process has appended."""
        with self._lock:
            self._refresh()

    def _refresh(self) -> None:
        rows = self._connection.execute(
            "SELECT seq, at, who, mode, id, before, after, note, undoes FROM log WHERE seq > ? "
            "ORDER BY seq",
            (self.decisions.last,),
        )
        for seq, at, who, mode, id_, before, after, note, undoes in rows:
            self.decisions.add(
                Entry(
                    seq=seq,
                    at=at,
                    who=who,
                    mode=mode,
                    id=id_,
                    before=None if before is None else Answer.read(before),
                    after=None if after is None else Answer.read(after),
                    note=note,
                    undoes=undoes,
                )
            )

    def decide(
        self,
        answers: Mapping[str, Answer],
        *,
        who: str,
        mode: Mode,
        request: str,
        note: str = "",
    ) -> list[Entry]:
        """Append decisions, all or none; on disk when this returns.

        Args:
            answers: By id.
            who: The person.
            mode: How they came about.
            request: A name of its own for this request. Sent again, as whoever got no answer will,
                it changes nothing.
            note: To go with it.
        """
        with self._lock:
            with self._writing():
                if not self._known(request):
                    self._refresh()  # nobody else appends now: `before` is what holds
                    for id_, answer in answers.items():
                        before = self.decisions.answer(id_)
                        self._append(who, mode, id_, before, answer, note, None, request)
            self._refresh()
            return self._of(request)

    def take_note(self, id_: str, note: str, *, who: str, request: str) -> list[Entry]:
        """Append a note on a label; its decision stays."""
        with self._lock:
            with self._writing():
                if not self._known(request):
                    self._refresh()  # nobody else appends now: `before` is what holds
                    now = self.decisions.answer(id_)
                    self._append(who, "note", id_, now, now, note, None, request)
            self._refresh()
            return self._of(request)

    def undo(self, seq: int, *, who: str, request: str) -> list[Entry]:
        """Append that an entry holds no more, whenever it was made."""
        with self._lock:
            with self._writing():
                if not self._known(request):
                    self._refresh()  # nobody else appends now: `before` is what holds
                    entry = self.decisions.entries.get(seq)
                    if entry is None or not self.decisions.can_undo(seq):
                        raise AbstainError(
                            f"must be an entry that is not undone, got {seq}", argument="seq"
                        )
                    before = self.decisions.answer(entry.id)
                    after = self._without(entry)
                    self._append(who, "undo", entry.id, before, after, "", seq, request)
            self._refresh()
            return self._of(request)

    def _without(self, entry: Entry) -> Answer | None:
        """What holds of a label once an entry does not."""
        undone = (self.decisions.undone | {entry.seq}) - {entry.undoes}
        left = self.decisions.standing(entry.id, undone)
        return None if left is None else left.after

    def _known(self, request: str) -> bool:
        found = self._connection.execute("SELECT 1 FROM log WHERE request=?", (request,))
        return found.fetchone() is not None

    def _of(self, request: str) -> list[Entry]:
        rows = self._connection.execute(
            "SELECT seq FROM log WHERE request=? ORDER BY seq", (request,)
        )
        return [self.decisions.entries[seq] for (seq,) in rows]

    def _append(
        self,
        who: str,
        mode: Mode,
        id_: str,
        before: Answer | None,
        after: Answer | None,
        note: str,
        undoes: int | None,
        request: str,
    ) -> None:
        self._connection.execute(
            "INSERT INTO log (at, who, mode, id, before, after, note, undoes, request) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                datetime.now(UTC).isoformat(timespec="milliseconds"),
                who,
                mode,
                id_,
                before and before.text,
                after and after.text,
                note,
                undoes,
                request,
            ),
        )

    def shared(self) -> dict[str, str]:
        """The answers that the audit's own file was given last, by id."""
        return dict(self._connection.execute("SELECT id, label FROM shared").fetchall())

    def keep_shared(self, answers: Mapping[str, str]) -> None:
        """Keep which answers the audit's own file was given."""
        with self._lock, self._writing():
            self._connection.execute("DELETE FROM shared")
            self._connection.executemany("INSERT INTO shared VALUES (?, ?)", answers.items())


def _statements(text: str) -> list[str]:
    """Whole statements, triggers among them."""
    found, part = [], ""
    for line in text.strip().splitlines():
        part += line + "\n"
        if sqlite3.complete_statement(part):
            found.append(part)
            part = ""
    return found
