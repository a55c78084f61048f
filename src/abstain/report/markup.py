"""The templates of the report. All text is escaped, so that no text of the data can be code."""

import re
from functools import cache

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from abstain.report import numbers
from abstain.support.wording import cut, many

# What HTML forbids in text: controls but tab and line feed, and halves of surrogate pairs, which
# file names that are not UTF-8 bring along and which cannot be written.
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@cache
def environment() -> Environment:
    """Set up the templates, and the functions that they can call.

    >>> text = environment().from_string("<p>{{ text }}</p>")
    >>> text.render(text="</script><img src=x onerror=alert(1)>")
    '<p>&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;</p>'
    """
    made = Environment(
        loader=ChoiceLoader([PackageLoader("abstain.report"), PackageLoader("abstain.showing")]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["cut"] = cut
    made.globals |= {
        "many": many,
        "count": numbers.count,
        "percent": numbers.percent,
        "interval": numbers.interval,
        "rough": numbers.rough,
        "rough_interval": numbers.rough_interval,
        "expectation": numbers.expectation,
        "width": numbers.width,
    }
    return made


def _printable(value: object) -> object:
    """A value that HTML can hold; what a template made already can."""
    return value if isinstance(value, Markup) else _FORBIDDEN.sub("\ufffd", str(value))
