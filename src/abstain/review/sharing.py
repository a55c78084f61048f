"""Decisions of the page as the rest of abstain knows them: `reviewed.parquet` of the audit.

The log is what holds; the file is made from it. Answers that others put into the file meanwhile
(`abstain audit --reviewed`) become entries of the log first, so that neither loses what the other
has.
"""

from hashlib import sha256
from pathlib import Path

from abstain.auditing.answers import Answers
from abstain.auditing.folder import AuditFolder
from abstain.review.decisions import VERIFYING
from abstain.review.store import FILE, Store


def share_decisions(folder: Path) -> None:
    """Bring the answers of an audit up to date with its review, if there is one."""
    if (folder / FILE).exists():
        with Store(folder / FILE) as store:
            share(store, folder)


def share(store: Store, folder: Path) -> None:
    """Take in what others answered, then write what holds."""
    store.check_in_place()  # what is written would make a folder that was removed anew
    audit = AuditFolder(folder)
    kept, shared = audit.answers(), store.shared()
    new = {
        id_: answer
        for id_, answer in kept.by_id.items()
        if shared.get(id_) != answer.text and store.decisions.answer(id_) != answer
    }
    if new:
        told = sha256(repr(sorted(new.items())).encode("utf-8", "surrogateescape")).hexdigest()
        name = f"file-{store.decisions.last}-{told[:16]}"
        store.decide(new, who="file", mode="file", request=name)
    store.refresh()
    answers = store.decisions.answers
    texts = {id_: answer.text for id_, answer in answers.items()}
    if answers == kept.by_id and texts == shared:
        return
    if answers or kept.by_id:
        drawn = (drawn_in(store) | kept.drawn) & answers.keys()
        audit.keep_answers(Answers(by_id=answers, drawn=frozenset(drawn)))
    store.keep_shared(texts)


def drawn_in(store: Store) -> set[str]:
    """Labels that were answered for the random sample."""
    entries = store.decisions.in_order()
    undone = store.decisions.undone
    return {x.id for x in entries if x.mode in VERIFYING and x.seq not in undone}
