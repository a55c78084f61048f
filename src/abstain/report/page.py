"""The report as one file that opens anywhere: no script, no font, no picture from elsewhere."""

import base64
import hashlib
import os
from datetime import date
from importlib import resources
from pathlib import Path

from markupsafe import Markup

from abstain import __version__
from abstain.arguments import typed
from abstain.auditing.result import Audit
from abstain.errors import AbstainError
from abstain.report.about import next_steps, what_was_done
from abstain.report.curves import scores, training
from abstain.report.data_issues import data_issues, leaked, skipped_checks
from abstain.report.flagged import duplicates, worst_labels
from abstain.report.headline import headline
from abstain.report.markup import environment
from abstain.report.tables import class_pairs, per_class, review
from abstain.scores.verdict import CONFIDENCE
from abstain.support.files import publish_text


@typed()
def write_report(audit: Audit, path: str | os.PathLike[str]) -> None:
    """Write the report of an audit as a single HTML file, whole or not at all.

    >>> from tempfile import TemporaryDirectory
    >>> from abstain import Recipe, audit
    >>> with TemporaryDirectory() as place:
    ...     write_report(audit("digits", Recipe(epochs=2, warm_up=1)), f"{place}/report.html")
    ...     Path(place, "report.html").read_text()[:15]
    '<!doctype html>'
    """
    text = render(audit)
    try:
        publish_text(Path(path), text)
    except OSError as error:
        raise AbstainError(
            f"the report must be a file that can be written, got {path}: {error}"
        ) from error


def render(audit: Audit) -> str:
    """The page as text."""
    style = style_sheet()
    return (
        environment()
        .get_template("page.html")
        .render(
            audit=audit,
            version=__version__,
            today=date.today().isoformat(),
            style=Markup(style),
            policy=policy_of(style),
            confidence=CONFIDENCE,
            headline=headline(audit),
            flagged=worst_labels(audit),
            table_of_issues="issues.csv",
            review=review(audit),
            pairs=class_pairs(audit),
            classes=per_class(audit),
            scores=scores(audit),
            training=training(audit),
            duplicates=duplicates(audit),
            leaked=leaked(audit),
            data_issues=data_issues(audit),
            skipped_checks=skipped_checks(audit),
            facts=what_was_done(audit),
            steps=next_steps(audit),
        )
    )


def style_sheet() -> str:
    """Read the style sheet of all pages."""
    return resources.files("abstain.report").joinpath("style.css").read_text(encoding="utf-8")


def policy_of(style: str) -> str:
    """The page runs no code and loads nothing; even of styles, only this one sheet."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
