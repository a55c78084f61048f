"""The errors that a user can cause. Any other exception that reaches a user is a bug of ours."""

from collections.abc import Callable
from typing import Any, Self

Spelling = Callable[[str, object], str]
"""Spelling of a setting and its value: `epochs=3` in Python, `--epochs 3` in a shell."""

NO_VALUE: object = ...
"""In place of a value: the setting is named, not set. Itself again in another process."""


class AbstainError(ValueError):
    """The user asked for something that cannot be done.

    Its text names the argument, the rule and the value, and what to do instead. The command line
    prints it in one line, with its own names of the settings, and exits with 2.

    Args:
        rule: the rule and the value; the whole text where no one argument is at fault.
        argument: the argument at fault, with which the text begins.
        remedy: what to do instead; `{name}` stands for the setting of that name.
        **settings: the settings of the remedy, each with its value.

    >>> raise AbstainError("must lie in (1, 10] for 10 classes, got 0.5", argument="payoff")
    Traceback (most recent call last):
    abstain.errors.AbstainError: payoff must lie in (1, 10] for 10 classes, got 0.5
    >>> raise AbstainError("photo.png is no image", remedy="leave it out with {skip_bad}",
    ...                    skip_bad=True)
    Traceback (most recent call last):
    abstain.errors.AbstainError: photo.png is no image; leave it out with skip_bad=True
    """

    def __init__(
        self, rule: str, *, argument: str | None = None, remedy: str = "", **settings: object
    ) -> None:
        self.rule = rule
        self.argument = argument
        self.remedy = remedy
        self.settings = settings
        super().__init__(self.spelt(_in_python))

    def spelt(self, spelling: Spelling) -> str:
        """The text, with settings spelt as the reader writes them."""
        subject = f"{spelling(self.argument, NO_VALUE)} " if self.argument else ""
        settings = {name: spelling(name, value) for name, value in self.settings.items()}
        return f"{subject}{self.rule}{'; ' * bool(self.remedy)}{self.remedy.format(**settings)}"

    def for_argument(self, argument: str) -> Self:
        """The same error, of another argument: the one that the user knows."""
        return type(self)(self.rule, argument=argument, remedy=self.remedy, **self.settings)


class DivergedError(AbstainError):
    """The numbers of a training have left all bounds."""


class DataError(AbstainError):
    """A data source cannot be used as it is: missing column, unreadable image, one class only."""


class MissingColumnError(DataError):
    """Columns that were asked for are not there. The caller may word it differently."""

    def __init__(self, argument: str, where: object, found: str) -> None:
        super().__init__(f"must name columns of {where}, got {found}", argument=argument)
        self.where = where
        self.found = found

    def for_argument(self, argument: str) -> Self:
        """The same error, of another argument: the one that the user knows."""
        return type(self)(argument, self.where, self.found)

    def __reduce__(self) -> tuple[Any, ...]:
        """Be pickled by its arguments, which are not those of other errors."""
        return type(self), (self.argument, self.where, self.found)


def _in_python(name: str, value: object) -> str:
    if value is NO_VALUE:
        return name
    return f"{name}={'' if value is None else repr(value)}"
