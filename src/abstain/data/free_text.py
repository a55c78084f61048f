"""Categories or free text: what a column of texts holds, by how often they repeat."""

from collections.abc import Collection
from unicodedata import east_asian_width

_MOST_CATEGORIES = 256
"""Most categories of one column: each becomes an input of the network."""
_SENTENCE = 3
"""Words of a free text, at least. A name or a code has fewer."""


def most_categories(rows: int) -> int:
    """The most texts that count as categories: 256, or as many as can stand in two rows each.

    >>> most_categories(100), most_categories(100_000)
    (50, 256)
    """
    return min(_MOST_CATEGORIES, rows // 2)


def is_free_text(different: Collection[str], rows: int) -> bool:
    """Whether texts are too many for categories, and half of them have three words or more.

    Args:
        different: the different texts of a column, or the first of them, but more than 256.
        rows: how many rows they stand in.

    >>> is_free_text(["it does not start", "the screen is black"], 2)
    True
    >>> is_free_text(["AB-1", "AB-2"], 2), is_free_text(["very high", "not so high"], 100)
    (False, False)
    """
    if len(different) <= most_categories(rows):
        return False
    return 2 * sum(_words(text) >= _SENTENCE for text in different) >= len(different)


def _words(text: str) -> int:
    """Words with a letter in them; what is written without spaces counts by its characters.

    >>> _words("28/02/2023 10:30 PM"), _words("画面が暗い")
    (1, 5)
    """
    wide = sum(east_asian_width(character) in "WF" for character in text)
    return wide or sum(any(map(str.isalpha, word)) for word in text.split())
