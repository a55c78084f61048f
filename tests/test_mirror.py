"""Every module of the source is tested where one looks for it."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = {"abstain": ROOT / "src/abstain", "reproduction": ROOT / "reproduction"}
TESTS = {"abstain": ROOT / "tests", "reproduction": ROOT / "reproduction/tests"}
ROOMS = [
    path.parent.relative_to(SOURCE["abstain"]).as_posix()
    for path in sorted(SOURCE["abstain"].rglob("__init__.py"))
]


def files_of(package, room):
    """The test files of a room and of the rooms within; of the whole package only its own."""
    folder = TESTS[package] / room
    return sorted(folder.glob("test_*.py") if room == "." else folder.rglob("test_*.py"))


def head(path):
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


@pytest.mark.parametrize(
    ("package", "room"), [*(("abstain", room) for room in ROOMS), ("reproduction", ".")]
)
def test_each_module_has_a_test_file_or_is_named_at_the_head_of_one(package, room):
    modules = {path.name for path in (SOURCE[package] / room).glob("[!_]*.py")}
    files = [re.sub(r"_command(?=\.py)", "", path.name) for path in files_of(package, room)]
    mirrored = {name.removeprefix("test_") for name in files}
    heads = "\n".join(map(head, files_of(package, room.partition("/")[0])))
    assert modules - mirrored - set(re.findall(r"\w+\.py\b", heads)) == set()
