"""Commands as a user types them."""

import pytest
from typer.testing import CliRunner

from abstain.cli import app, main


def run(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "80"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def error_of(capsys, *arguments):
    """The one line that a wrong argument ends in."""
    with pytest.raises(SystemExit) as exit_:
        main([*map(str, arguments)])
    assert exit_.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("abstain: ")
    assert captured.err.count("\n") == 1, captured.err
    return captured.err
