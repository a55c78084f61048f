"""Downloads of the page: the corrected labels, a set to train on, and the log.

Each is written into `exports/` of the audit's folder, where the paths in it are right, and sent
from there.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from abstain.errors import AbstainError
from abstain.exporting.cleaned import default_suffix, export_cleaned
from abstain.exporting.files import write_table
from abstain.review.export import export_corrected, log_table
from abstain.review.session import Session

if TYPE_CHECKING:
    from abstain.auditing.folder import AuditFolder

What: TypeAlias = Literal["corrected", "cleaned", "log"]
FOLDER = "exports"


def write_download(session: Session, what: str, address: str) -> Path:
    """Write what is asked for, as it is now.

    Args:
        session: The review.
        what: The corrected labels, a set to train on, or the log.
        address: Of the page, for links back to a sample.
    """
    if what not in get_args(What):
        raise AbstainError(f"must be one of {', '.join(get_args(What))}, got {what!r}")
    audit = session.audit
    place = audit.folder / FOLDER
    try:
        place.mkdir(exist_ok=True)
    except OSError as error:
        raise AbstainError(f"{place} must be a folder to write to, got: {error}") from error
    name = Path(str(audit.summary["name"])).stem or "audit"
    if what == "log":
        target = place / f"{name}-log.csv"
        write_table(log_table(session.store.decisions, audit, address), target, for_people=True)
    elif what == "corrected":
        target = place / f"{name}-corrected.csv"
        export_corrected(audit, target)
    else:
        source, inputs = str(audit.summary["sources"]["train"]), audit.summary["inputs"]
        target = place / f"{name}-cleaned{default_suffix(source, inputs)}"
        session.share()
        export_cleaned(audit, target, "reviewed")
    return target


def offered(audit: "AuditFolder") -> list[str]:
    """List the downloads of an audit: of data in memory there is no source to correct."""
    in_memory = audit.summary["sources"]["train"] is None
    return [what for what in get_args(What) if not (in_memory and what == "cleaned")]
