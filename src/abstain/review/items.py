"""A label and an entry of the log, as the page is told of them."""

from dataclasses import replace
from itertools import islice
from typing import Any

from abstain.auditing.folder import AuditFolder
from abstain.data import LabeledData
from abstain.review.decisions import Entry, whose
from abstain.review.faults import WORDS, Faults
from abstain.review.standing import Standing
from abstain.showing.as_json import AuditedSamples

PROPOSALS = 10
"""Classes that are proposed: as many as there are digits to choose them by."""


class Items(Standing):
    """The state of a review, with the samples to look at."""

    def __init__(self, audit: AuditFolder, data: LabeledData | None = None) -> None:
        self.shown = AuditedSamples(audit, data)
        super().__init__(audit)
        self._faults = Faults(audit, self.row)
        self.queue.faults = self._faults.rows

    def item(
        self,
        row: int,
        *,
        blind: bool = False,
        unseen_by: str | None = None,
        revealed: bool = False,
    ) -> dict[str, Any]:
        """A label as the page shows it.

        Args:
            row: Of the label.
            blind: Without what is given, proposed and decided, for the random sample.
            unseen_by: Without what others decided and noted, for whoever gives a second opinion;
                until this person has given it. Of a label of the random sample, whose second
                answer may measure the rate, nothing at all.
            revealed: Whether this person asked to be shown what is given and proposed.
        """
        id_, given = self.ids[row], int(self.queue.given[row])
        version = self.shown.same.version(row) if self.shown.kind == "image" else ""
        is_second = unseen_by is not None and self.is_blind(row, unseen_by)
        if blind or (is_second and not revealed):
            shown = self.shown.content(row, given, None)
            # Not its id: the path of an image names its class. Nor its row: sources are sorted.
            name = f"sample {self.place(row)}"
            note = self.store.decisions.note(id_, unseen_by) if unseen_by else ""
            about = {"row": row, "id": name, "version": version, "blind": True, "note": note}
            return {**about, **shown}
        decisions = self.store.decisions
        proposed, standing = self.queue.proposed(row), decisions.standing(id_)
        proposals = self.queue.proposals(row, PROPOSALS)
        other = next((k for k, _ in proposals if k != given), given)
        is_unseen = unseen_by is not None and not decisions.has_answered(id_, unseen_by)
        if is_unseen and standing is not None and standing.who != unseen_by:
            standing = None
        return {
            "row": row,
            "id": id_,
            "version": version,
            "given": given,
            "proposed": proposed,
            "other": other if proposed == given else proposed,
            "proposals": proposals,
            "wrong": self.queue.doubt(row),
            "note": decisions.note(id_, unseen_by if is_unseen else None),
            "decided": None if standing is None else _decided(standing),
            "said": [] if is_unseen else self._said(id_),
            "faults": [WORDS[name] for name in self._faults.of(row)],
            **self.shown.content(row, given, other if proposed == given else proposed),
        }

    def _said(self, id_: str) -> list[dict[str, Any]]:
        """List what each person answered for a disputed label; nothing for any other."""
        answered, notes = (
            self.store.decisions.by_person(id_),
            self.store.decisions.notes_by(id_),
        )
        if len({entry.after for entry in answered.values()}) < 2:
            return []
        return [{**_decided(x), "note": notes.get(who, "")} for who, x in answered.items()]

    def near(self, row: int, count: int) -> list[dict[str, Any]]:
        """Samples most like one, of its class as given and as proposed."""
        given = int(self.queue.given[row])
        proposals = self.queue.proposals(row, PROPOSALS)
        other = next((k for k, _ in proposals if k != given), given)
        classes = [given] if other == given else [given, other]
        found = self.shown.near(row, classes, self.queue.given, count)
        groups: list[tuple[int | None, list[int]]] = [(k, found[k]) for k in classes]
        if twins := self._faults.twins(row):
            groups.insert(0, (None, twins))
        return [
            {"class": k, "samples": [self._small(other) for other in rows]} for k, rows in groups
        ]

    def _small(self, row: int) -> dict[str, Any]:
        given = int(self.queue.given[row])
        return {"row": row, "id": self.ids[row], "given": given, **self.shown.brief(row, given)}

    def log(
        self, count: int, before: int | None, who: str | None, unseen_by: str | None = None
    ) -> list[dict[str, Any]]:
        """Lines of the log, the newest first.

        Args:
            count: How many at most.
            before: Only entries with a smaller number.
            who: Only of this person.
            unseen_by: As in `item`.
        """
        entries = (
            entry
            for entry in reversed(self.store.decisions.in_order())
            if (before is None or entry.seq < before) and (who is None or entry.who == who)
        )
        return [self._line(entry, unseen_by) for entry in islice(entries, count)]

    def _line(self, entry: Entry, unseen_by: str | None) -> dict[str, Any]:
        standing = self.store.decisions.standing(entry.id)
        if unseen_by is not None and not self.store.decisions.has_answered(entry.id, unseen_by):
            mine = entry.who == unseen_by and entry.mode not in ("note", "undo")
            entry = replace(
                entry,
                before=None,
                after=entry.after if mine else None,
                note=entry.note if entry.who == unseen_by else "",
            )
            if standing is not None and standing.who != unseen_by:
                standing = None
        row = self.row.get(entry.id)
        return {
            **vars(entry),
            "row": row,
            "given": None if row is None else self.classes[int(self.queue.given[row])],
            "before": entry.before and entry.before._asdict(),
            "after": entry.after and entry.after._asdict(),
            "holds": self.store.decisions.can_undo(entry.seq),
            "whose": whose(self.store.decisions, entry),
            "standing": standing and _decided(standing),
        }


def _decided(entry: Entry) -> dict[str, Any]:
    assert entry.after is not None
    return {**entry.after._asdict(), "seq": entry.seq, "who": entry.who, "at": entry.at}
