"""A request of the page, read and checked: rows, names, answers, filters.

Written by hand: a validation library would check the shapes, but not that a row is one of the
audit or a name a person's, and its messages are not in the form of the others.
"""

import json
import unicodedata
from collections.abc import Mapping
from math import isfinite
from typing import Any, NamedTuple

from starlette.requests import ClientDisconnect, Request

from abstain.errors import AbstainError
from abstain.review.decisions import Answer
from abstain.review.faults import WORDS
from abstain.review.queue import STATES, Filter
from abstain.review.session import Session

LONGEST_NAME = 80
LONGEST_NOTE = 4_000
_LONGEST_BODY = 1_000_000
_DIGITS = 12
_DAY = 86_400.0  # seconds
_HIDDEN = ("Cc", "Cf", "Co", "Cn")
"""Characters that steer text, or that no font has: names would look alike, or other than typed."""
_JOINERS = "\u200c\u200d"  # by which Persian, Hindi and others are written
_BLANKS = "\u115f\u1160\u2800\u3164\uffa0"  # letters and symbols that show nothing
_MODES = ("fix", "verify", "verify-seen", "second", "settle")


async def body_of(request: Request) -> dict[str, Any]:
    """The JSON object that was sent."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise AbstainError("what is sent must be JSON")
    content = b""
    try:
        async for part in request.stream():
            content += part
            if len(content) > _LONGEST_BODY:
                raise AbstainError(f"what is sent must be shorter than {_LONGEST_BODY} bytes")
    except ClientDisconnect as error:  # there is nobody left to answer
        raise AbstainError("what is sent must be sent to its end") from error
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        reason = "too deep" if isinstance(error, RecursionError) else str(error)[:200]
        raise AbstainError(f"what is sent must be JSON, got: {reason}") from error
    if not isinstance(body, dict):
        raise AbstainError("what is sent must be an object")
    return body


def row_of(session: Session, value: object) -> int:
    """The row of a label, a number in what is sent."""
    if type(value) is not int or not 0 <= value < len(session.ids):
        raise AbstainError(f"must be the number of a label, got {_brief(value)}", argument="row")
    return value


def row_in(session: Session, asked: Mapping[str, str], name: str = "row") -> int:
    """The row of a label, digits in an address."""
    text = asked.get(name, "")
    number = _whole(text)
    return row_of(session, text if number is None else number)


def number_of(asked: Mapping[str, str], name: str, default: int) -> int:
    """A whole number of an address."""
    if name not in asked:
        return default
    number = _whole(asked[name])
    if number is None:
        raise AbstainError(f"must be a whole number, got {_brief(asked[name])}", argument=name)
    return number


def numbers_of(asked: Mapping[str, str], name: str) -> list[int]:
    """The whole numbers of a list in an address; what is none is left out."""
    found = (_whole(part) for part in asked.get(name, "").split(","))
    return [number for number in found if number is not None]


def class_of(session: Session, asked: Mapping[str, str], name: str) -> int | None:
    """The number of a class in an address; None where none is named."""
    if not asked.get(name):
        return None
    number = number_of(asked, name, 0)
    if number >= len(session.classes):
        raise AbstainError(f"must be that of a class, got {number}", argument=name)
    return number


def text_of(body: Mapping[str, Any], name: str, longest: int) -> str:
    """A text, which may be empty unless it names the request."""
    text = body.get(name, "")
    if not isinstance(text, str) or len(text) > longest:
        raise AbstainError(f"must be a text of at most {longest} characters", argument=name)
    if name == "request" and not text:
        raise AbstainError("must have a name of its own, got none", argument="request")
    return text.encode("utf-8", "replace").decode()


def list_of(body: Mapping[str, Any], name: str, of: type) -> list[Any]:
    """A list of one type; True is no number."""
    values = body.get(name)
    if not isinstance(values, list) or not all(type(value) is of for value in values):
        raise AbstainError("must be a list", argument=name)
    return values


def person_of(value: object) -> str:
    """The name of a person."""
    name = " ".join(value.split()) if isinstance(value, str) else ""
    if not name or len(name) > LONGEST_NAME or name == "file":
        raise AbstainError("must be a name", argument="who", remedy="enter yours")
    name = name.encode("utf-8", "replace").decode()
    kinds = {c: unicodedata.category(c) for c in name}
    if hidden := [c for c, kind in kinds.items() if kind in _HIDDEN and c not in _JOINERS]:
        raise AbstainError(
            f"must be a name without characters that are not seen, got U+{ord(hidden[0]):04X}",
            argument="who",
            remedy="type it anew",
        )
    if not any(kind[0] in "LNPS" and c not in _BLANKS for c, kind in kinds.items()):
        raise AbstainError(
            "must be a name that is seen, got blanks", argument="who", remedy="type it anew"
        )
    return name


def mode_of(body: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Check the mode of decisions."""
    mode = body.get("mode", "fix")
    if mode not in _MODES:
        raise AbstainError(
            f"must be one of {', '.join(_MODES)}, got {_brief(mode)}", argument="mode"
        )
    return mode


class RequestedAnswers(NamedTuple):
    """The decisions of a request, by row."""

    answers: dict[int, Answer]
    seconds: dict[int, float]
    """For how long each sample was looked at, as far as that is known."""
    versions: dict[int, str]
    """Which version of it, by the name that the page was given."""


def answers_of(session: Session, body: Mapping[str, Any]) -> RequestedAnswers:
    """Decisions; at least one."""
    by_row = {row_of(session, one.get("row")): one for one in list_of(body, "answers", dict)}
    if not by_row:
        raise AbstainError("must hold at least one, got none", argument="answers")
    return RequestedAnswers(
        answers={row: _answer(one) for row, one in by_row.items()},
        seconds={row: took for row, one in by_row.items() if (took := _seconds(one)) is not None},
        versions={row: text_of(one, "version", LONGEST_NAME) for row, one in by_row.items()},
    )


def filter_of(session: Session, asked: Mapping[str, str], who: str) -> Filter:
    """Which labels to look at."""
    state = asked.get("state") or "open"
    if state not in (*STATES, "any"):
        raise AbstainError(
            f"must be one of {', '.join(STATES)}, any, got {_brief(state)}", argument="state"
        )
    chosen = asked.get("by")
    fault = asked.get("fault") or None
    if fault is not None and fault not in WORDS:
        raise AbstainError(
            f"must be one of {', '.join(WORDS)}, got {_brief(fault)}", argument="fault"
        )
    return Filter(
        given=class_of(session, asked, "given"),
        proposed=class_of(session, asked, "proposed"),
        least=_share(asked, "least", 0.0),
        most=_share(asked, "most", 1.0),
        state=state,  # type: ignore[arg-type]
        fault=fault,
        rows=session.rows_of(chosen, who) if chosen else None,
    )


def _answer(one: Mapping[str, Any]) -> Answer:
    kind, label = one.get("kind"), one.get("label")
    if kind == "label" and isinstance(label, str):
        return Answer("label", label)
    if kind in ("unsure", "drop", "skip"):
        return Answer(kind)
    raise AbstainError(f"must be label, unsure, drop or skip, got {_brief(kind)}", argument="kind")


def _seconds(one: Mapping[str, Any]) -> float | None:
    """For how long a sample was looked at; None unless a browser can have measured it."""
    value = one.get("seconds")
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return round(float(value), 1) if 0 <= value <= _DAY else None


def _share(asked: Mapping[str, str], name: str, default: float) -> float:
    try:
        share = float(asked.get(name) or default)
    except ValueError:
        share = float("nan")
    if not isfinite(share):
        raise AbstainError(f"must be a number, got {_brief(asked[name])}", argument=name)
    return share


def _whole(text: str) -> int | None:
    is_number = text.isascii() and text.isdecimal() and len(text) <= _DIGITS
    return int(text) if is_number else None


def _brief(value: object) -> str:
    """A value as a message shows it; numbers of thousands of digits cannot even be written."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return "what cannot be written"
    return text if len(text) <= 100 else f"{text[:100]}…"
