"""What all parts of the report are built from."""

from collections.abc import Sequence

from abstain.auditing.result import Audit
from abstain.report.markup import Child, Markup, cut, element, foreign

_LONGEST_ID = 32


def section(title: str, note: str, *content: Child, columns: bool = False) -> Markup:
    """A part of the report: what it is on the left, what there is to see on the right."""
    return element(
        "section",
        element("div", element("h2", title), element("p", note), class_="about"),
        element("div", *content, class_="content two" if columns else "content"),
    )


def chart(title: str, legend: Sequence[tuple[str, str]], drawing: Markup) -> Markup:
    """A plot under its title, and which colour is which."""
    keys = [element("li", name, class_=f"key {style}") for style, name in legend]
    return element(
        "figure", element("figcaption", element("h3", title), element("ul", keys)), drawing
    )


def wide(table: Markup) -> Markup:
    """A table that can be moved under a narrow window, by keyboard too."""
    return element("div", table, class_="scroll", tabindex=0)


def class_name(audit: Audit, index: int) -> Markup:
    """The name of a class, cut where it is a whole sentence."""
    return foreign(cut(audit.data.classes[index], 40))


def sample_id(audit: Audit, index: int) -> Markup:
    """The id of a sample; of an image the name of its file, as folders are classes."""
    text = audit.data.ids[index]
    name = text.rpartition("/")[2] if audit.data.kind == "image" else text
    shown = name if len(name) <= _LONGEST_ID else f"…{name[1 - _LONGEST_ID :]}"
    return foreign(shown, class_="id", title=text)


def number(text: str) -> Markup:
    """A cell that stands to the right."""
    return element("td", text, class_="number")
