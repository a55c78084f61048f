"""Tests of words: docstrings name a thing or say what is done, and messages use usual terms."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src/abstain"
FOLDERS = [SOURCE, *(ROOT / x for x in ("bench", "examples", "reproduction", "tests"))]
FILES = [path for folder in FOLDERS for path in sorted(folder.rglob("*.py"))]
CLAUSE = re.compile(r"(What|Of|How|By|Where)\b")
RIDDLES = {
    r"labels? set aside": "held-out labels",
    r"learnt? by heart": "memorised",
    r"\bsurest\b": "the most confident",
    r"mix-ups?\b": "model confusion",
    r"unless said": "default",
    r"for want of": "skipped: no features",
    r"not looked for": "skipped",
    r"\bin vain\b": "failed",
    r"takes no new files": "is not writable",
    r"\bastray\b": "diverged",
    r"its least number": "the minimum number",
    r"guess by how": "the class-frequency baseline",
    r"know (a|each|the) sample again": "the sample's fingerprint",
    r"with what was learnt": "re-rank",
    r"not yet seen": "still hidden",
    r"who is let in": "access token",
    r"(is|are) seen by a? ?(pretrained|backbone)": "backbone",
    r"taken at (its|their) word": "clipped",
}
"""Phrases that readers stumble over, and what to write."""


def docstrings(path):
    """Docstrings of modules, classes and functions, and those below a field or a constant."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    bodies = [node.body for node in nodes if isinstance(getattr(node, "body", None), list)]
    values = [x.value for body in bodies for x in body if isinstance(x, ast.Expr)]
    return [x.value for x in values if isinstance(x, ast.Constant) and isinstance(x.value, str)]


def test_no_docstring_begins_with_a_clause():
    texts = [(path, text.splitlines()[0]) for path in FILES for text in docstrings(path)]
    assert len(texts) > 3000
    assert [f"{path}: {line}" for path, line in texts if CLAUSE.match(line)] == []


def test_no_two_classes_have_one_name():
    paths = sorted(SOURCE.rglob("*.py"))
    nodes = [x for path in paths for x in ast.parse(path.read_text(encoding="utf-8")).body]
    names = [x.name for x in nodes if isinstance(x, ast.ClassDef) and x.name[0] != "_"]
    assert len(names) > 150
    assert sorted({x for x in names if names.count(x) > 1}) == []


@pytest.mark.parametrize(
    "package", [x.parent for x in sorted(SOURCE.rglob("__init__.py"))], ids=lambda x: x.name
)
def test_each_package_says_what_goes_in_what_comes_out_and_where_to_begin(package):
    words = " ".join(docstrings(package / "__init__.py")[0].split())
    assert re.search(r"Goes in: .* Comes out: .* Begin with ", words), words
    named = re.findall(r"[\w/]+\.py\b", words)
    assert [x for x in named if not (package / x).is_file() and not (SOURCE / x).is_file()] == []


def prose():
    """All text that a reader meets: strings of the source with docstrings, pages and documents."""
    for path in sorted(SOURCE.rglob("*.py")):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        values = [x.value for x in nodes if isinstance(x, ast.Constant)]
        yield path, " ".join(" ".join(x for x in values if isinstance(x, str)).split())
    pages = [*SOURCE.rglob("*.html"), *SOURCE.rglob("*.js"), *ROOT.glob("docs/*.md")]
    for path in [*pages, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        yield path, " ".join(path.read_text(encoding="utf-8").split())


def test_no_text_has_a_phrase_that_a_usual_term_replaces():
    found = [
        f"{path.relative_to(ROOT)}: {match[0]} → {better}"
        for path, text in prose()
        for phrase, better in RIDDLES.items()
        if (match := re.search(phrase, text, re.IGNORECASE))
    ]
    assert found == []


@pytest.mark.parametrize(
    "text", ["skipped for want of features", "labels set aside", "It is seen by a backbone."]
)
def test_each_replaced_phrase_is_found(text):
    assert any(re.search(phrase, text, re.IGNORECASE) for phrase in RIDDLES)
