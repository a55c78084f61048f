"""The report as one file that opens anywhere: no script, no font, no picture from elsewhere."""

import base64
import hashlib
import os
from datetime import date
from importlib import resources
from pathlib import Path

from abstain import __version__
from abstain.arguments import typed
from abstain.auditing.result import Audit
from abstain.errors import AbstainError
from abstain.report.about import how, how_to_go_on
from abstain.report.curves import scores, training
from abstain.report.flagged import duplicates, worst_labels
from abstain.report.headline import headline
from abstain.report.markup import Markup, element, foreign, verbatim
from abstain.report.numbers import rough
from abstain.report.tables import class_pairs, per_class, review
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
        raise AbstainError(f"the report must be writable, got {path}: {error}") from error


def render(audit: Audit) -> str:
    """The page as text."""
    style = resources.files("abstain.report").joinpath("style.css").read_text(encoding="utf-8")
    parts = [
        part(audit)
        for part in (
            headline,
            worst_labels,
            review,
            class_pairs,
            per_class,
            scores,
            training,
            duplicates,
            how,
            how_to_go_on,
        )
    ]
    page = element(
        "html", _head(audit, style), element("body", element("main", parts), _footer()), lang="en"
    )
    return f"<!doctype html>\n{page}\n"


def _head(audit: Audit, style: str) -> Markup:
    # The page runs no code and loads nothing; even of styles, only this one sheet.
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    rate = rough(audit.noise_rate)
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"abstain {__version__}"),
        element("title", f"{audit.data.name}: {rate} wrong labels"),
        element("style", verbatim(style)),
    )


def _footer() -> Markup:
    return element(
        "footer", f"Made by abstain {__version__} on ", foreign(date.today().isoformat())
    )
