"""Samples that were decided on must be those that are there: the page and every export check it."""

from abstain.auditing.folder import AuditFolder
from abstain.errors import AbstainError
from abstain.review.sharing import share
from abstain.review.store import FILE, Store
from abstain.showing.as_json import AuditedSamples, source_of
from abstain.support.wording import some


def check_unchanged(audit: AuditFolder, store: Store, shown: AuditedSamples) -> str:
    """Refuse samples that are others than those that were reviewed, by name where it is known.

    Args:
        audit: What was reviewed.
        store: Its log, with the content of each sample that was decided on.
        shown: The samples as they are now.

    Returns:
        The fingerprint of all samples.
    """
    row = {id_: k for k, id_ in enumerate(audit.ids)}
    answers = store.decisions.answers
    changed = [
        id_
        for id_, mark in store.seen().items()
        if id_ in row and id_ in answers and shown.same.has_changed(row[id_], mark)
    ]
    if changed:
        raise _others(audit, f"{some(changed, 3)} changed since they were decided on")
    now, then = shown.same.fingerprint(), store.value("samples")
    if then not in (None, now):
        raise _others(audit, "others")
    return now


def check_for_export(audit: AuditFolder) -> None:
    """Bring the answers of an audit up to date, and refuse samples that changed since.

    Data in memory are gone, and what was never reviewed has nothing to compare.
    """
    path = audit.folder / FILE
    if not path.exists():
        return
    with Store(path) as store:
        share(store, audit.folder)
        is_known = store.value("samples") is not None or store.seen()
        if is_known and audit.summary["sources"]["train"] is not None:
            check_unchanged(audit, store, AuditedSamples(audit))


def _others(audit: AuditFolder, got: str) -> AbstainError:
    return AbstainError(
        f"{source_of(audit)} must hold the samples that were reviewed, got {got}: put them back, "
        f"or audit what is there; all decisions are kept in {audit.folder}"
    )
