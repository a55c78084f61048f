"""The command line: parse, call, print.

Goes in: the words of a command. Comes out: what a person reads, files, and an exit code: 2 where
the user has to change something. Begin with audit.py: there is a file for each command, which
imports its work when it runs; options.py has the options that commands share.
"""

import sys
from collections.abc import Callable
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from abstain import __version__
from abstain.cli import (
    audit,
    compare,
    data,
    embed,
    export,
    predict,
    review,
    sample,
    theory,
    train,
    verify,
)
from abstain.cli.process import (
    end,
    is_main_process,
    leave_others,
    leave_stdout,
    stdout_fails,
    tune_process,
    wait_for_main_process,
)
from abstain.cli.spelling import Command
from abstain.errors import AbstainError

app = typer.Typer(
    name="abstain",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _help(command: Callable[..., None]) -> str:
    """Its docstring, a paragraph a line: typer would keep the line breaks of the source."""
    paragraphs = (command.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


app.command("audit", cls=Command, help=_help(audit.audit), epilog=audit.EXAMPLES)(audit.audit)
app.command("sample", cls=Command, help=_help(sample.sample), epilog=sample.EXAMPLES)(sample.sample)
app.command("verify", cls=Command, help=_help(verify.verify), epilog=verify.EXAMPLES)(verify.verify)
app.command("review", cls=Command, help=_help(review.review), epilog=review.EXAMPLES)(review.review)
app.command("export", cls=Command, help=_help(export.export), epilog=export.EXAMPLES)(export.export)
app.command("compare", cls=Command, help=_help(compare.compare), epilog=compare.EXAMPLES)(
    compare.compare
)
app.command("embed", cls=Command, help=_help(embed.embed), epilog=embed.EXAMPLES)(embed.embed)
app.command("train", cls=Command, help=_help(train.train), epilog=train.EXAMPLES)(train.train)
app.command("predict", cls=Command, help=_help(predict.predict), epilog=predict.EXAMPLES)(
    predict.predict
)
app.add_typer(data.app, name="data")
app.command("theory", cls=Command)(theory.theory)


def _show_version(wanted: bool) -> None:
    if wanted:
        Console().print(f"abstain {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def abstain(
    version: bool = typer.Option(
        False, "--version", help="Show the version and exit.", callback=_show_version, is_eager=True
    ),
) -> None:
    """Find the wrong labels of a data set, and train classifiers that withstand them.

    Begin with abstain audit SOURCE, and see abstain audit --help.
    """


def main(arguments: list[str] | None = None, *, commands: typer.Typer = app) -> None:
    """Run the command line; errors of the user end in one line and exit code 2."""
    tune_process()
    name = str(commands.info.name)
    try:
        code = commands(args=arguments, standalone_mode=False)
    except AbstainError as error:
        _complain(name, str(error))
    except OSError as error:
        if not stdout_fails():
            raise
        leave_stdout()
        if isinstance(error, BrokenPipeError):
            end(1)  # who reads has read enough
        _complain(name, f"standard output cannot be written: {error.strerror}")
    except RuntimeError as error:
        # Another process of the same training has ended, and has printed why itself.
        if "by peer" not in str(error):
            raise
        _complain(name, "another process of the training has ended")
    except Exception as error:
        # A wrong option: typer and its parser have had several classes for that, all with this
        # method, and would draw a box around it. No command at all is answered by its help.
        if not hasattr(error, "format_message"):
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()  # type: ignore[attr-defined]
            sys.exit(2)
        message = f"{error.format_message().rstrip('.')}; see --help"
        _complain(name, _in_our_words(error) or message)
    except KeyboardInterrupt:
        code = 130
    except SystemExit as leaving:
        if isinstance(leaving.code, str):  # a program of the user's explains its exit
            raise
        code = leaving.code
    end(code or 0)


_RULES = {"int_parsing": "a whole number", "float_parsing": "a number"}


def _in_our_words(error: Any) -> str | None:  # noqa: ANN401
    """The value that is no number: where typer parses by pydantic, its own message lacks that."""
    for fault in getattr(error.__cause__, "errors", list)():
        if rule := _RULES.get(fault["type"]):
            return f"{error.param.opts[0]} must be {rule}, got {fault['input']!r}"
    return None


def _complain(name: str, message: str) -> NoReturn:
    leave_others()
    if not is_main_process():
        wait_for_main_process()
        end(2)  # processes that train together all have the same error
    line = " ".join(message.split())  # what libraries report may span several
    Console(stderr=True).print(
        f"[bold red]{name}:[/] {escape(line)}", soft_wrap=True, highlight=False
    )
    end(2)
