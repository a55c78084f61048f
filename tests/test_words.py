"""Tests of words: docstrings name a thing or say what is done, and messages use usual terms."""

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src/abstain"
LEFT = ("exporting", "training")
FILES = [x for x in sorted(SOURCE.rglob("*.py")) if x.relative_to(SOURCE).parts[0] not in LEFT]
CLAUSE = re.compile(r"(What|Of|How|By|Where)\b")


def docstrings(path):
    """Docstrings of modules, classes and functions, and those below a field or a constant."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    bodies = [node.body for node in nodes if isinstance(getattr(node, "body", None), list)]
    values = [x.value for body in bodies for x in body if isinstance(x, ast.Expr)]
    return [x.value for x in values if isinstance(x, ast.Constant) and isinstance(x.value, str)]


def test_no_docstring_begins_with_a_clause():
    texts = [(path, text.splitlines()[0]) for path in FILES for text in docstrings(path)]
    assert len(texts) > 1000
    assert [f"{path.name}: {line}" for path, line in texts if CLAUSE.match(line)] == []


@pytest.mark.parametrize(
    "package", [x.parent for x in sorted(SOURCE.rglob("__init__.py"))], ids=lambda x: x.name
)
def test_each_package_says_what_goes_in_what_comes_out_and_where_to_begin(package):
    words = " ".join(docstrings(package / "__init__.py")[0].split())
    assert re.search(r"Goes in: .* Comes out: .* Begin with ", words), words
    named = re.findall(r"[\w/]+\.py\b", words)
    assert [x for x in named if not (package / x).is_file() and not (SOURCE / x).is_file()] == []
