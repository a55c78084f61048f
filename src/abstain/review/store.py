"""Every decision of a review: an append-only log in SQLite, durable before it is acknowledged.

Nothing is ever changed or removed: an undo is an entry of its own. What holds now is read off the
log (`abstain.review.decisions`): the last entry on a label that was not undone.
"""

import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from abstain.errors import AbstainError
from abstain.review.decisions import Answer, Decisions, Entry, Mode
from abstain.showing.fingerprint import Mark

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
# Logs of earlier versions get it when they are opened.
_SEEN = "CREATE TABLE IF NOT EXISTS seen (id TEXT PRIMARY KEY, stamp TEXT, digest TEXT)"
_SECONDS = "ALTER TABLE log ADD COLUMN seconds REAL"


class NotKeptError(AbstainError):
    """A decision was not taken, as it could not be kept; nothing is wrong with it."""


class Store:
    """The log of a review, open for more."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._places: list[tuple[int, int] | None] | None = None
        try:
            self._connection = sqlite3.connect(
                path, timeout=_BUSY, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")
            self._begin()
        except (sqlite3.Error, NotKeptError) as error:
            raise AbstainError(
                f"{path} must be a log of decisions that can be written, got: {error}"
            ) from error
        self._places = self._found()
        self.decisions = Decisions()
        self.refresh()

    def _begin(self) -> None:
        with self._writing():
            tables = self._connection.execute("SELECT name FROM sqlite_master").fetchall()
            if not tables:
                for statement in _statements(_SCHEMA):
                    self._connection.execute(statement)
                self._connection.execute("INSERT INTO about VALUES ('format', ?)", (_FORMAT,))
            self._connection.execute(_SEEN)
            columns = {x[1] for x in self._connection.execute("PRAGMA table_info(log)")}
            if columns and "seconds" not in columns:
                self._connection.execute(_SECONDS)
        if self.value("format") != _FORMAT:
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
        """A transaction: on disk, and found there, when it ends; or undone by what was raised."""
        self.check_in_place()
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise self._not_kept(error) from error
        self.check_in_place()

    def _not_kept(self, error: sqlite3.Error) -> NotKeptError:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            return NotKeptError(f"the disk is full: {self.path} cannot grow", remedy="make room")
        return NotKeptError(f"{self.path} cannot be written to: {error}")

    def check_in_place(self) -> None:
        """Raise if the open log is not the one at its place: what is written would be lost."""
        if self._places is not None and self._found() != self._places:
            raise NotKeptError(
                f"{self.path} was moved, deleted or replaced while it was open: put it back, or "
                "download the log from the page, put that there and start abstain review anew"
            )

    def _found(self) -> list[tuple[int, int] | None]:
        """Device and inode of the files that lie where the log is."""
        found: list[tuple[int, int] | None] = []
        for name in (str(self.path), f"{self.path}-wal"):
            try:
                about = os.stat(name)  # noqa: PTH116 - as fast as can be, before every answer
            except OSError:
                found.append(None)
            else:
                found.append((about.st_dev, about.st_ino))
        return found

    def copy(self) -> bytes:
        """The whole log as a file, also where its own is gone."""
        with self._lock:
            return self._connection.serialize()

    @property
    def identity(self) -> str:
        """A name that no other log has, made when it is first asked for."""
        if (known := self.value("identity")) is None:
            known = secrets.token_hex(16)
            self.keep_value("identity", known)
        return known

    def value(self, name: str) -> str | None:
        """Read a value that was kept under a name."""
        found = self._connection.execute("SELECT value FROM about WHERE name=?", (name,)).fetchone()
        return None if found is None else str(found[0])

    def keep_value(self, name: str, value: str) -> None:
        """Keep something under a name."""
        with self._lock, self._writing():
            self._connection.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, value))

    def next_number(self, name: str) -> int:
        """1, then 2, …, each given out once."""
        with self._lock, self._writing():
            number = int(self.value(name) or 0) + 1
            self._connection.execute(
                "INSERT OR REPLACE INTO about VALUES (?, ?)", (name, str(number))
            )
        return number

    def refresh(self) -> None:
        """Take in what another process has appended."""
        with self._lock:
            self._refresh()

    def _refresh(self) -> None:
        rows = self._connection.execute(
            "SELECT seq, at, who, mode, id, before, after, note, undoes, seconds FROM log "
            "WHERE seq > ? ORDER BY seq",
            (self.decisions.last,),
        )
        for seq, at, who, mode, id_, before, after, note, undoes, seconds in rows:
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
                    seconds=seconds,
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
        seen: Mapping[str, Mark] | None = None,
        seconds: Mapping[str, float] | None = None,
    ) -> list[Entry]:
        """Append decisions, all or none; on disk when this returns.

        Args:
            answers: By id.
            who: The person.
            mode: How they came about.
            request: A name of its own for this request. To send it again changes nothing.
            note: A note on the decision.
            seen: By id, the fingerprints of the samples that were decided on.
            seconds: By id, for how long a person looked at it, where known.
        """
        with self._lock:
            with self._writing():
                # Nobody else appends now: what is known is what holds.
                if not self._known(request, lambda x: _decide(x, answers)):
                    for id_, answer in answers.items():
                        before = self.decisions.answer(id_)
                        took = (seconds or {}).get(id_)
                        self._append(who, mode, id_, before, answer, note, None, request, took)
                    self._connection.executemany(
                        "INSERT OR REPLACE INTO seen VALUES (?, ?, ?)",
                        [(id_, *mark) for id_, mark in (seen or {}).items()],
                    )
            self._refresh()
            return self._of(request)

    def take_note(self, id_: str, note: str, *, who: str, request: str) -> list[Entry]:
        """Append a note on a label; its decision stays."""
        with self._lock:
            with self._writing():
                # Nobody else appends now: what is known is what holds.
                if not self._known(request, lambda x: _notes(x) == [(id_, note)]):
                    now = self.decisions.answer(id_)
                    self._append(who, "note", id_, now, now, note, None, request)
            self._refresh()
            return self._of(request)

    def undo(self, *seqs: int, who: str, request: str) -> list[Entry]:
        """Append that entries hold no more, whenever and by whom they were made.

        Args:
            seqs: Their numbers, of different labels; those that were undone meanwhile are passed
                over.
            who: The person who undoes them.
            request: As in `decide`.
        """
        with self._lock:
            with self._writing():
                # Nobody else appends now: what is known is what holds.
                if not self._known(request, lambda x: {y.undoes for y in x} <= {*seqs}):
                    held = [self.decisions.entries[x] for x in seqs if self.decisions.can_undo(x)]
                    if not held or len({entry.id for entry in held}) < len(held):
                        raise AbstainError(
                            "must be entries that are not undone, one of a label, got "
                            + ", ".join(map(str, seqs)),
                            argument="seqs",
                        )
                    for entry in held:
                        before, after = self.decisions.answer(entry.id), self._without(entry)
                        self._append(who, "undo", entry.id, before, after, "", entry.seq, request)
            self._refresh()
            return self._of(request)

    def _without(self, entry: Entry) -> Answer | None:
        """The answer for a label once an entry is taken back."""
        undone = (self.decisions.undone | {entry.seq}) - {entry.undoes}
        left = self.decisions.standing(entry.id, undone)
        return None if left is None else left.after

    def taken(self, request: str, answers: Mapping[str, Answer]) -> list[Entry]:
        """The entries of a request that was taken already; none of any other.

        Args:
            request: As in `decide`.
            answers: By id, as in `decide`: an error if others were sent under this name.
        """
        with self._lock:
            self._known(request, lambda x: _decide(x, answers))
            return self._of(request)

    def _known(self, request: str, is_it: Callable[[Sequence[Entry]], bool]) -> bool:
        """Whether a request was taken already; an error if that was another of its name."""
        self._refresh()
        before = self._of(request)
        if before and not is_it(before):
            raise AbstainError(
                "must have a name of its own, got that of another", argument="request"
            )
        return bool(before)

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
        seconds: float | None = None,
    ) -> None:
        self._connection.execute(
            "INSERT INTO log (at, who, mode, id, before, after, note, undoes, request, seconds) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
                seconds,
            ),
        )

    def seen(self) -> dict[str, Mark]:
        """Fingerprints of the samples that were decided on, by id.

        Earlier versions wrote an empty mark for a file that could not be read; that is none.
        """
        rows = self._connection.execute("SELECT id, stamp, digest FROM seen WHERE digest != ''")
        return {id_: Mark(stamp, digest) for id_, stamp, digest in rows}

    def shared(self) -> dict[str, str]:
        """The answers that the audit's own file was given last, by id."""
        return dict(self._connection.execute("SELECT id, label FROM shared").fetchall())

    def keep_shared(self, answers: Mapping[str, str]) -> None:
        """Keep which answers the audit's own file was given."""
        with self._lock, self._writing():
            self._connection.execute("DELETE FROM shared")
            self._connection.executemany("INSERT INTO shared VALUES (?, ?)", answers.items())


def _decide(entries: Sequence[Entry], answers: Mapping[str, Answer]) -> bool:
    """Whether entries are these decisions."""
    are_answers = all(x.mode != "note" and x.undoes is None for x in entries)
    return are_answers and {x.id: x.after for x in entries} == dict(answers)


def _notes(entries: Sequence[Entry]) -> list[tuple[str, str]]:
    return [(x.id, x.note) for x in entries if x.mode == "note"]


def _statements(text: str) -> list[str]:
    """Whole statements, triggers among them."""
    found, part = [], ""
    for line in text.strip().splitlines():
        part += line + "\n"
        if sqlite3.complete_statement(part):
            found.append(part)
            part = ""
    return found
