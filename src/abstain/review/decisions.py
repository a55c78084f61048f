"""The meaning of a log of decisions: the answer to each label, agreement, disputes."""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal, TypeAlias

from abstain.auditing.answers import Answer as Answer

Mode: TypeAlias = Literal[
    "fix", "verify", "verify-seen", "second", "settle", "file", "note", "undo"
]
"""Mode of a decision: worst first; for the random sample, blind or after a look at what the audit
says; as a second opinion; to settle a dispute; from a file; a note alone; an undo."""
VERIFYING = ("verify", "verify-seen")


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
    seconds: float | None = None
    """For how long the sample had been looked at; None where that is not known."""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """The agreement of two people on the labels that both answered."""

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
    """The decisions in force, by the log."""

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

    @property
    def people(self) -> list[str]:
        """Everybody who is in the log."""
        return sorted({entry.who for entry in self.in_order()} - {"file"})

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
        """The answer in force for a label."""
        entry = self.standing(id_)
        return None if entry is None else entry.after

    @property
    def answers(self) -> dict[str, Answer]:
        """Answers in force, by id of the label; to skip a label is none."""
        held = {id_: self.answer(id_) for id_ in self.ids}
        return {id_: x for id_, x in held.items() if x is not None and x.kind != "skip"}

    def note(self, id_: str, by: str | None = None) -> str:
        """The last note on a label, of anybody or of one person."""
        for entry in reversed(self._by_id.get(id_, ())):
            is_note = entry.seq not in self.undone and (entry.note or entry.mode == "note")
            if is_note and by in (None, entry.who):
                return entry.note
        return ""

    def notes_by(self, id_: str) -> dict[str, str]:
        """The last note on a label by each person who wrote one."""
        noted = (x for x in self._by_id.get(id_, ()) if x.note and x.seq not in self.undone)
        return {entry.who: entry.note for entry in noted}

    def by_person(self, id_: str) -> dict[str, Entry]:
        """The last answer to a label by each person who gave one."""
        found: dict[str, Entry] = {}
        for entry in self._by_id.get(id_, ()):
            answered = entry.after is not None and entry.after.is_decision
            if answered and entry.mode not in ("note", "file") and entry.seq not in self.undone:
                found[entry.who] = entry
        return found

    def has_answered(self, id_: str, who: str) -> bool:
        """Whether a person decided of a label, if only that they are unsure."""
        return any(
            entry.who == who
            and entry.mode not in ("note", "file")
            and entry.after is not None
            and entry.after.kind != "skip"
            and entry.seq not in self.undone
            for entry in self._by_id.get(id_, ())
        )

    def can_undo(self, seq: int) -> bool:
        """Whether an entry still holds."""
        return seq in self.entries and seq not in self.undone

    def disputes(self) -> list[str]:
        """Labels that people answered differently, and nobody has settled since."""
        found = []
        for id_ in self.ids:
            answered = self.by_person(id_)
            if len({entry.after for entry in answered.values()}) > 1:
                last = self.standing(id_)
                if last is None or last.mode != "settle":
                    found.append(id_)
        return found

    def agreements(self) -> list[Agreement]:
        """Measure each pair of people on labels that both answered, without settled disputes."""
        pairs: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
        for id_ in self.ids:
            answered = {
                who: entry.after.text
                for who, entry in self.by_person(id_).items()
                if entry.after is not None and entry.mode != "settle"
            }
            for one, other in combinations(sorted(answered), 2):
                pairs[one, other].append((answered[one], answered[other]))
        return [
            Agreement(
                people=people,
                both=len(both),
                alike=sum(a == b for a, b in both),
                kappa=cohens_kappa(both),
            )
            for people, both in sorted(pairs.items())
        ]


def whose(decisions: Decisions, entry: Entry) -> str | None:
    """Who made the entry that an undo takes back; None for all other entries."""
    return None if entry.undoes is None else decisions.entries[entry.undoes].who
