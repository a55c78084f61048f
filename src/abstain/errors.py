"""The errors that a user can cause. Anything else that escapes is a bug of ours."""


class AbstainError(ValueError):
    """The user asked for something that cannot be done.

    Its message names the argument, the rule and the value, and what to do instead;
    the command line prints it in one line and exits with 2.

    >>> raise AbstainError("payoff must lie in (1, 10] for 10 classes, got 0.5")
    Traceback (most recent call last):
    abstain.errors.AbstainError: payoff must lie in (1, 10] for 10 classes, got 0.5
    """


class DataError(AbstainError):
    """A data source cannot be used as it is: missing column, unreadable image, one class only."""


class MissingColumnError(DataError):
    """Columns that were asked for are not there; whoever asked may say it in other words."""

    def __init__(self, argument: str, where: object, found: str) -> None:
        super().__init__(f"{argument} must name columns of {where}, got {found}")
        self.argument = argument
        self.where = where
        self.found = found
