"""Words for people: nearest names, the first few of many, numbers with their nouns."""

import difflib
from collections.abc import Iterable, Sequence

SHOWN = 5
"""Number of items that an error names before it counts the rest."""
_LONGEST = 120
"""Characters of an item that it shows: hardly a path is longer, but texts taken for classes are."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question that names the nearest known word, or nothing.

    >>> did_you_mean("mnits", ["digits", "mnist"])
    '; did you mean mnist?'
    >>> did_you_mean("photos", ["digits", "mnist"])
    ''
    """
    lowered = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), lowered, n=1)
    return f"; did you mean {_visible(lowered[near[0]])}?" if near else ""


def some(items: Sequence[object], shown: int = SHOWN) -> str:
    """The first few items, and how many more there are.

    >>> some(["a", "b", "c"], shown=2)
    'a, b and 1 more'
    >>> some(["a", " b"])
    "a, ' b'"
    """
    words = [_visible(item) for item in items[:shown]]
    text = ", ".join(x if len(x) <= _LONGEST else beginning(x, _LONGEST) for x in words)
    return text if len(items) <= shown else f"{text} and {len(items) - shown} more"


def many(number: int, one: str, more: str | None = None) -> str:
    """A number and its noun.

    >>> many(1, "label"), many(1200, "label"), many(2, "class", "classes")
    ('1 label', '1,200 labels', '2 classes')
    """
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def beginning(error: object, characters: int = 200) -> str:
    r"""The first words of a long text, in one line.

    >>> beginning("a long\nerror", characters=6)
    'a long…'
    """
    text = " ".join(str(error).split())
    return text if len(text) <= characters else f"{text[:characters].rstrip()}…"


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


def _visible(item: object) -> str:
    """Put quotes around a text that is empty, or has spaces around it."""
    text = str(item)
    return text if text and text == text.strip() else repr(text)
