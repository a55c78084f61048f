"""Errors in the spelling of the command line: `--image-size 64` instead of image_size=64."""

import re
from collections.abc import Mapping
from shlex import quote
from typing import Any

from typer.core import TyperCommand

from abstain.errors import NO_VALUE, AbstainError


class Command(TyperCommand):
    """A command whose errors name its options."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401
        """Run it; an error names options instead of arguments."""
        try:
            return super().invoke(ctx)
        except AbstainError as error:
            options = {str(one.name): one.opts[0] for one in self.params if one.opts[0][0] == "-"}
            # What functions call the folder of a run may be that of several options.
            for name in ("run", "resume", "from_", "out"):
                path = re.escape(str(ctx.params.get(name) or ""))
                if path and re.search(rf"got {path}($|[,:;])", error.rule):
                    options.setdefault("folder", options.get(name, name))
            if ctx.params.get("seed") is not None:  # it stands for each that was not given
                for name in ("seed_noise", "seed_init", "seed_order"):
                    if ctx.params.get(name) is None:
                        options[name] = options["seed"]
            raise AbstainError(in_options(error, options)) from error


def in_options(error: AbstainError, options: Mapping[str, str]) -> str:
    """The text of an error for a command with these options, by argument.

    >>> error = AbstainError("must be a text, got 5", argument="flip_kind", skip_bad=True, size=64,
    ...                      label="first name", classes=None,
    ...                      remedy="use {skip_bad}, {size}, {label} or {classes}")
    >>> options = {"flip_kind": "--flip-kind", "skip_bad": "--skip-bad", "label": "--label"}
    >>> in_options(error, options)
    "--flip-kind must be a text, got 5; use --skip-bad, size=64, --label 'first name' or classes="
    """

    def spelling(name: str, value: object) -> str:
        if name not in options:
            return name if value is NO_VALUE else f"{name}={'' if value is None else repr(value)}"
        alone = value in (NO_VALUE, None, True)
        return options[name] if alone else f"{options[name]} {quote(str(value))}"

    return error.spelt(spelling)
