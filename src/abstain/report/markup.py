"""HTML by construction: whatever is not already markup is escaped, so that no text can be code."""

import html
import re
from collections.abc import Iterable
from typing import TypeAlias


class Markup(str):
    """Text that is HTML already; only this module makes it."""

    __slots__ = ()


Child: TypeAlias = "str | int | Markup | Iterable[Child] | None"

# What HTML forbids in text: controls but tab and line feed, and halves of surrogate pairs, which
# file names that are not UTF-8 bring along and which cannot be written.
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_EMPTY = frozenset({"meta", "img", "br", "line", "rect", "circle", "path", "col"})


def element(tag: str, *children: Child, **attributes: str | float | None) -> Markup:
    """An element with its children, all escaped; an attribute of None is left out.

    A trailing underscore is dropped (`class_`), others become hyphens.

    >>> element("p", "1 < 2", class_="sum")
    '<p class="sum">1 &lt; 2</p>'
    """
    said = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in _EMPTY:
        return Markup(
            f"<{tag}{said}>" if tag in ("meta", "img", "br", "col") else f"<{tag}{said}/>"
        )
    return Markup(f"<{tag}{said}>{joined(children)}</{tag}>")


def joined(children: Iterable[Child]) -> Markup:
    """Children one after the other.

    >>> joined(["a & b", element("b", "c"), None])
    'a &amp; b<b>c</b>'
    """
    return Markup("".join(_flat(children)))


def foreign(text: object, **attributes: str | float | None) -> Markup:
    """Text from the data: escaped, and kept from turning the direction of what stands around it.

    >>> foreign("</script><img src=x onerror=alert(1)>")
    '<bdi>&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;</bdi>'
    """
    return element("bdi", str(text), **attributes)


def escaped(value: object) -> str:
    """A value as text that HTML takes as nothing but text.

    >>> escaped('"<')
    '&quot;&lt;'
    """
    return html.escape(_FORBIDDEN.sub("\ufffd", str(value)))


def cut(text: str, length: int) -> str:
    """The beginning of a text, to the end of a word where there is one near.

    >>> cut("a long winded sentence", 12)
    'a long …'
    """
    text = " ".join(text.split())
    if len(text) <= length:
        return text
    head = text[: length - 1]
    word = head.rpartition(" ")[0]
    return f"{word} …" if len(word) > length // 2 - 1 else f"{head}…"


def verbatim(text: str) -> Markup:
    """Markup of our own that is to stand as it is: the style sheet."""
    return Markup(text)


def _flat(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, Markup):
            yield child
        elif isinstance(child, str | int):
            yield escaped(child)
        else:
            yield from _flat(child)
