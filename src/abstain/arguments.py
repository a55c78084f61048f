"""Refuse arguments of the wrong type, as every other mistake: the argument, the rule, the value."""

import collections.abc
import inspect
import os
import types
from collections.abc import Callable
from functools import wraps
from numbers import Integral, Real
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from abstain.errors import AbstainError

_P = ParamSpec("_P")
_R = TypeVar("_R")

_WORDS = {
    str: "a text",
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    type(None): "None",
    os.PathLike: "a path",
    collections.abc.Sequence: "a sequence",
    collections.abc.Mapping: "a mapping",
    tuple: "a tuple",
}


def typed(*but: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Let a function refuse arguments that its annotations do not allow.

    Args:
        *but: Arguments that the function checks itself.

    >>> @typed()
    ... def wait(seconds: float, *, where: str | None = None) -> None: ...
    >>> wait("long")
    Traceback (most recent call last):
    abstain.errors.AbstainError: seconds must be a number, got 'long'
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        signature = inspect.signature(function)
        checked_names = [
            name
            for name, about in signature.parameters.items()
            if about.kind is not about.VAR_KEYWORD and name not in but
        ]

        @wraps(function)
        def checked(*arguments: _P.args, **named: _P.kwargs) -> _R:
            hints = get_type_hints(function)
            given = signature.bind(*arguments, **named).arguments
            for name in checked_names:
                if name in given and not _fits(given[name], hints.get(name, Any)):
                    raise AbstainError(
                        f"must be {_described(hints[name])}, got {given[name]!r}", argument=name
                    )
            return function(*arguments, **named)

        return checked

    return decorate


def _fits(value: object, hint: Any) -> bool:  # noqa: ANN401
    """Whether a value is of a type. The function checks what a type hint cannot express."""
    origin = get_origin(hint) or hint
    if origin in (Union, types.UnionType):
        return any(_fits(value, one) for one in get_args(hint))
    if origin is Literal:
        return any(isinstance(value, type(one)) for one in get_args(hint))
    is_truth = type(value).__name__ in ("bool", "bool_")  # of Python and of NumPy
    if origin is bool:
        return is_truth
    if origin in (int, float):
        return isinstance(value, Integral if origin is int else Real) and not is_truth
    if origin is collections.abc.Sequence:
        return isinstance(value, collections.abc.Iterable)
    return origin is Any or not isinstance(origin, type) or isinstance(value, origin)


def _described(hint: Any) -> str:  # noqa: ANN401
    several = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    words = dict.fromkeys(_word(get_origin(one) or one, one) for one in several)
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def _word(origin: Any, hint: Any) -> str:  # noqa: ANN401
    if origin is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    return _WORDS.get(origin) or f"of the class {getattr(origin, '__name__', origin)}"
