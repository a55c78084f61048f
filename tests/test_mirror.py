"""Every module of the source is tested where one looks for it."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = {"abstain": ROOT / "src/abstain", "reproduction": ROOT / "reproduction"}
TESTS = {"abstain": ROOT / "tests", "reproduction": ROOT / "reproduction/tests"}
ROOMS = [
    ("abstain", "."),
    *(("abstain", room) for room in ("losses", "models", "noise", "review", "scores", "theory")),
    ("reproduction", "."),
]


def heads(folder):
    """The docstrings of all test files of a folder."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in folder.glob("test_*.py"))
    return "\n".join(ast.get_docstring(tree) or "" for tree in trees)


@pytest.mark.parametrize(("package", "room"), ROOMS)
def test_each_module_has_a_test_file_or_is_named_at_the_head_of_one(package, room):
    tests = TESTS[package] / room
    named = set(re.findall(r"\w+\.py\b", heads(tests)))
    modules = {path.name for path in (SOURCE[package] / room).glob("[!_]*.py")}
    mirrored = {path.name.removeprefix("test_") for path in tests.glob("test_*.py")}
    assert modules - mirrored - named == set()
