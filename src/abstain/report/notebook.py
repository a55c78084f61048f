"""An audit as a notebook shows it: the headline, the worst labels, and the noise rate per class."""

import re

from markupsafe import Markup

from abstain.auditing.result import Audit
from abstain.report.flagged import worst_labels
from abstain.report.headline import headline
from abstain.report.markup import environment
from abstain.report.page import style_sheet
from abstain.report.tables import per_class
from abstain.scores.verdict import CONFIDENCE

_WORST = {"image": 12, "text": 6, "table": 4}
_CLASSES = 10
_PICTURES = 100_000
"""Bytes of pictures: notebooks are kept in git, and saved after each cell."""
_SMALLER = """
background: var(--paper); padding: 4px 20px;
.top { padding: 14px 0 20px; }
h1 { font-size: 30px; margin: 6px 0 16px; }
.figures { margin-top: 20px; }
.figures dd { font-size: 24px; }
section { padding: 18px 0 22px; }
"""


def render_notebook(audit: Audit) -> str:
    """Render HTML that stands in a page of others: its styles hold inside, and nothing runs."""
    # "&" is the element itself, as all rules are nested in one on it.
    style = re.sub(r"^( *)(?::root|html|body) {", r"\1& {", style_sheet(), flags=re.MULTILINE)
    return (
        environment()
        .get_template("notebook.html")
        .render(
            audit=audit,
            style=Markup(f".abstain-audit {{\n{style}{_SMALLER}}}"),
            confidence=CONFIDENCE,
            headline=headline(audit),
            flagged=worst_labels(audit, _WORST[audit.labels.kind], 0, picture_bytes=_PICTURES),
            table_of_issues="the table issues",
            review=[],
            pairs=None,
            classes=per_class(audit, _CLASSES),
        )
    )
