"""Docstrings name a thing or say what is done; they do not begin with a question word."""

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src/abstain"
STAGES = ["checks", "data", "embed", "support"]
CLAUSE = re.compile(r"(What|Of|How|By|Where)\b")


def first_lines(path):
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return [text for node in nodes if isinstance(node, kinds) and (text := ast.get_docstring(node))]


@pytest.mark.parametrize("stage", STAGES)
def test_no_docstring_begins_with_a_clause(stage):
    files = sorted((SOURCE / stage).rglob("*.py"))
    found = [f"{x.name}: {t.splitlines()[0]}" for x in files for t in first_lines(x)]
    assert len(found) > 10
    assert [line for line in found if CLAUSE.match(line.partition(": ")[2])] == []


@pytest.mark.parametrize(
    "package",
    [x.parent for stage in STAGES for x in sorted((SOURCE / stage).rglob("__init__.py"))],
    ids=lambda x: x.name,
)
def test_each_package_says_what_goes_in_what_comes_out_and_where_to_begin(package):
    words = " ".join(first_lines(package / "__init__.py")[0].split())
    assert re.search(r"Goes in: .* Comes out: .* Begin with ", words), words
