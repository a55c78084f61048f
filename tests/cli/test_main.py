"""The command line as a whole: one line and exit code 2 for errors of the user.

Each command has a file of its own, test_NAME_command.py; these test cli/options.py, running.py and
process.py, too, whose work is only seen where a command runs.
"""

import os
import re
import subprocess
import sys
from itertools import pairwise

import pytest

from abstain.cli import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "No such command 'trian'"),
        (["train", "--epochs", "abc"], "abstain: --epochs must be a whole number, got 'abc'"),
        (["audit", "--seed", "1.5"], "abstain: --seed must be a whole number, got '1.5'"),
        (["train", "--lr", "x"], "abstain: --learning-rate must be a number, got 'x'"),
        (["predict", "r", "s", "--coverage", ""], "abstain: --coverage must be a number, got ''"),
        (["export", "a", "--to", "cleaned", "--min-confidence", "0,9"], "a number, got '0,9'"),
        (["train", "--nope"], "--nope"),
        (["train", "no-such-source"], "source must be a built-in set"),
        (["theory", "--rate", "0.5"], "--classes"),
    ],
)
def test_wrong_words_end_in_one_line_and_exit_code_two(arguments, message, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("abstain: ")
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("module", ["typer", "abstain.auditing.audit"])
def test_ctrl_c_while_it_starts_ends_in_one_line(module, tmp_path):
    code = f"""
import signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Finder())
from abstain.__main__ import run
run()
"""
    words = [sys.executable, "-c", code, "audit", "digits", "--out", "audit"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "Interrupted before anything was done.\n"
    assert list(tmp_path.iterdir()) == []


def test_no_command_shows_the_help(capsys):
    with pytest.raises(SystemExit) as end:
        main([])
    assert end.value.code == 2
    shown = capsys.readouterr()
    assert "Usage:" in shown.out + shown.err


@pytest.mark.parametrize("command", ["audit", "export", "train", "predict", "review"])
def test_help_fills_its_lines(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([command, "--help"])
    about = capsys.readouterr().out.partition("Usage:")[2].partition("╭")[0]
    for paragraph in re.split(r"\n *\n", about)[1:]:
        lines = [line.strip() for line in paragraph.strip().splitlines()]
        for line, following in pairwise(lines):
            assert len(f"{line} {following.split()[0]}") > 78, paragraph


def test_what_a_terminal_cannot_show_is_spelt_out():
    words = ["theory", "--rate", "0.5", "--payoff", "9.99", "--classes", "10"]
    shown = subprocess.run(
        [sys.executable, "-m", "abstain", *words],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    assert r"2\u201310" in shown.stdout


def test_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("abstain ")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")  # noqa: PTH110
@pytest.mark.parametrize("arguments", [["data", "list"], ["data", "list", "--json"], ["--help"]])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_under_the_output_is_one_line(arguments, unbuffered):
    with open("/dev/full", "w") as full:  # noqa: PTH123
        ended = subprocess.run(
            [sys.executable, "-m", "abstain", *arguments], stdout=full, stderr=subprocess.PIPE,
            text=True, check=False, env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )  # fmt: skip
    assert ended.returncode == 2
    line = "abstain: standard output cannot be written: No space left on device\n"
    assert ended.stderr == line


@pytest.mark.parametrize("arguments", [["data", "list"], ["data", "list", "--json"]])
def test_a_pipe_that_nobody_reads_ends_it_silently(arguments):
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(
        [sys.executable, "-m", "abstain", *arguments], stdout=write, stderr=subprocess.PIPE,
        text=True, check=False,
    )  # fmt: skip
    os.close(write)
    assert (ended.returncode, ended.stderr) == (1, "")
