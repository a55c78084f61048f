"""Decisions of the page as the rest of abstain knows them: `reviewed.parquet` of the audit.

The log is what holds; the file is made from it. Answers that others put into the file meanwhile
(`abstain audit --reviewed`) become entries of the log first, so that neither loses what the other
has.
"""

from pathlib import Path

from abstain.auditing.reviewed import Kept, keep_answers, kept_answers
from abstain.review.decisions import VERIFYING, Answer
from abstain.review.store import FILE, Store


def share_decisions(folder: Path) -> None:
    """Bring the answers of an audit up to date with its review, if there is one."""
    if (folder / FILE).exists():
        with Store(folder / FILE) as store:
            share(store, folder)


def share(store: Store, folder: Path) -> None:
    """Take in what others answered, then write what holds."""
    store.check_in_place()  # what is written would make a folder that was removed anew
    kept, shared = kept_answers(folder), store.shared()
    new = {
        id_: Answer("label", label)
        for id_, label in kept.answers.items()
        if shared.get(id_) != label and store.decisions.answer(id_) != Answer("label", label)
    }
    if new:
        store.decide(new, who="file", mode="file", request=f"file-{store.decisions.last}")
    store.refresh()
    answers = answered(store)
    if answers == kept.answers and answers == shared:
        return
    if answers or kept.answers:
        drawn = drawn_in(store) | (kept.drawn & answers.keys())
        keep_answers(folder, Kept(answers=answers, drawn=frozenset(drawn & answers.keys())))
    store.keep_shared(answers)


def answered(store: Store) -> dict[str, str]:
    """The class that was given to each label that has one, by id."""
    found = {}
    for id_ in store.decisions.ids:
        answer = store.decisions.answer(id_)
        if answer is not None and answer.label is not None:
            found[id_] = answer.label
    return found


def drawn_in(store: Store) -> set[str]:
    """Labels that were answered for the random sample."""
    entries = store.decisions.in_order()
    undone = store.decisions.undone
    return {x.id for x in entries if x.mode in VERIFYING and x.seq not in undone}
