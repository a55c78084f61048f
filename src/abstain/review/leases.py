"""Labels that people have before them, so that nobody else is given the same.

A person may have the page open twice, and is then given the same labels twice: a page that is
closed leaves only what no other page of theirs shows.
"""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

LEASE = 600.0
"""Seconds for which a label that one person was given is kept from others."""


@dataclass
class _Held:
    who: str
    until: float
    visits: set[str]


@dataclass
class Leases:
    """Who has which labels before them, and on which of their pages."""

    seconds: float = LEASE
    _held: dict[int, _Held] = field(default_factory=dict)

    def taken(self, row: int, who: str) -> bool:
        """Whether somebody else has a label before them."""
        held = self._held.get(row)
        return held is not None and held.who != who and held.until > time.monotonic()

    def take(self, rows: Sequence[int], who: str) -> None:
        """Give labels to a person, who keeps them for a while."""
        until = time.monotonic() + self.seconds
        for row in rows:
            held = self._held.get(row)
            visits = held.visits if held is not None and held.who == who else set()
            self._held[row] = _Held(who, until, visits)

    def show(self, rows: Sequence[int], visit: str) -> None:
        """Keep on which page labels are shown that were given."""
        for row in rows:
            if row in self._held:
                self._held[row].visits.add(visit)

    def release(self, row: int) -> None:
        """Let others have it: it is decided, or its person went on."""
        self._held.pop(row, None)

    def leave(self, who: str, visit: str) -> None:
        """Let others have what a person was given on one page, and has on no other."""
        for row, held in list(self._held.items()):
            if held.who == who:
                held.visits.discard(visit)
                if not held.visits:
                    del self._held[row]

    @property
    def rows(self) -> Collection[int]:
        """All that were given to somebody; a copy."""
        return list(self._held)

    def __len__(self) -> int:
        return len(self._held)
